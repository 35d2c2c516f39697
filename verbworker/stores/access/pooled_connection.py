"""What connections of our pools do beyond the driver: types looked up once, resets, and the tenant they serve."""

from typing import Any

from verbworker.stores.sql import query

# Built-in types have the same numbers on every server; those of a database's own types begin here.
_FIRST_OWN_TYPE = 16_384
_BUILT_IN_TYPES: dict[frozenset[int], Any] = {}
_UNKNOWN = "\n"  # no tenant has this name


# Every array type that our statements pass. asyncpg queries the catalog, for some milliseconds, when a connection first
# meets a type; fetching all types together costs that only once per connection.
ARRAYS = ("text", "bigint", "integer", "uuid", "bytea", "interval", "boolean", "timestamptz")
_LEARN_TYPES = "SELECT " + ", ".join(f"${place}::{name}[]" for place, name in enumerate(ARRAYS, 1))


async def learn_types(connection: Any) -> None:
    """Have a new connection look up every type that it will need."""
    await connection.fetchval(_LEARN_TYPES, *([] for _ in ARRAYS))


class PooledConnection:
    """A connection that looks up built-in types once per process: the catalog query costs some milliseconds.

    To be mixed into the driver's class, which has what `super` names here.
    """

    _tenant: str | None = None  # if it is another than that of the pool

    async def _introspect_types(self, typeoids: Any, timeout: float) -> Any:
        # Not public: a version of asyncpg that names it otherwise asks on every connection, as before.
        key = frozenset(typeoids)
        if key not in _BUILT_IN_TYPES:
            types = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]  # the driver's
            if max(key) >= _FIRST_OWN_TYPE:
                return types
            _BUILT_IN_TYPES[key] = types
        return _BUILT_IN_TYPES[key]

    def whole_reset(self) -> str:
        """Return the statements that remove what user code may have left in the session."""
        return str(super().get_reset_query())  # type: ignore[misc]  # the driver's

    async def serve(self, tenant: str, *, pool: str) -> None:
        """Serve a tenant. It costs a round trip only if the connection served another one before.

        A session begins with the tenant of its `pool`, and a reset brings it back to that.
        """
        if tenant != (self._tenant or pool):
            self._tenant = _UNKNOWN  # until there is an answer: without one, the next user sets it anew
            await self.execute(query("pooled_connection", "serve"), tenant)  # type: ignore[attr-defined]  # the driver's
            self._tenant = None if tenant == pool else tenant

    def forget_tenant(self) -> None:
        """Note that the session was reset: it serves the tenant of its pool again."""
        self._tenant = None

    def get_reset_query(self) -> str:
        """Return what a pool sends when it takes the connection back; it resets the tenant too."""
        self.forget_tenant()
        return self.whole_reset()


class OwnStatementsOnly(PooledConnection):
    """A connection that nothing cleans up after use: our own statements leave no session state but the tenant.

    Verbs use it through `LazyTransaction`, which cleans up after them.
    """

    def get_reset_query(self) -> str:
        """Return an empty query, which saves one round trip per statement."""
        return ""
