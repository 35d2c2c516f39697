"""The connection to Postgres: the only module that uses asyncpg and translates its errors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg

from verbworker import metrics
from verbworker.errors import StoreConflict, StoreError, StoreReadOnly, StoreUnavailable
from verbworker.stores.sql import query

Value = TypeVar("Value")
Row = Any  # asyncpg ships no types: rows are read by name and immediately turned into values

_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # the server ended a session that was idle in its transaction
    asyncpg.InvalidCatalogNameError,  # a pool also opens connections later: by then a database may be dropped,
    asyncpg.InvalidAuthorizationSpecificationError,  # or a password changed
)
_UNAVAILABLE = (*_GONE, OSError, TimeoutError)
_CONFLICT = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
# On an open connection these mean that it was misused, or that a statement was cancelled.
_MISUSED = (asyncpg.InterfaceError, asyncpg.QueryCanceledError)
_REACHABLE = "see that the server runs and that the network lets this host through"
# What to do, by SQLSTATE; states that are missing here need no advice.
_ADVICE: Mapping[str, str] = {
    "08000": _REACHABLE,
    "08001": _REACHABLE,
    "08003": _REACHABLE,
    "08004": _REACHABLE,
    "08006": _REACHABLE,
    "25006": "it is a standby, or default_transaction_read_only is on: set VERBWORKER_DSN to the primary, or turn that"
    " setting off for the server, the database and the role",
    "28000": "check the user in VERBWORKER_DSN, and that pg_hba.conf lets it in from this host",
    "28P01": "check user and password in VERBWORKER_DSN",
    "3D000": "create the database, or check its name in VERBWORKER_DSN",
    "42501": "grant it to the role; verbworker doctor names what is missing",
    "53100": "make room on the server's disk",
    "53200": "give the server more memory, or less to do at once",
    "53300": "raise max_connections or the limit of the role, or lower VERBWORKER_CONTROL_CONNECTIONS,"
    " VERBWORKER_VERB_CONNECTIONS and VERBWORKER_ENGINE_CONNECTIONS, or run fewer workers",
    "57P01": "see why the server was stopped, or who ended this session",
    "57P02": "see the server's log: another of its processes crashed",
    "57P03": "wait until it has started, or stopped, or recovered",
    "58000": "see the server's log and its disk",
    "58030": "see the server's log and its disk",
}


class Connection(Protocol):
    """The connection methods that stores use."""

    async def fetch(self, query: str, *args: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None: ...


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of asyncpg and the network into our own."""
    try:
        with _translated_answers():
            yield
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(_reason(error)) from error


@contextmanager
def _translated_answers(verbs: Any = None) -> Iterator[None]:
    """Translate Postgres errors only: the block may run a verb, whose own timeouts and sockets pass unchanged.

    On a verb's connection, `verbs`, misuse is distinguished from a lost connection.
    """
    try:
        yield
    except _CONFLICT as error:
        raise StoreConflict(_reason(error)) from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise StoreReadOnly(f"the database takes no writes: {_reason(error)}") from error
    except _GONE as error:
        if isinstance(error, _MISUSED) and _is_open(verbs):
            raise StoreError(_reason(error)) from error
        raise StoreUnavailable(_reason(error)) from error
    except asyncpg.PostgresError as error:
        raise StoreError(_reason(error), is_duplicate=isinstance(error, asyncpg.UniqueViolationError)) from error


def _is_open(connection: Any) -> bool:
    try:
        return connection is not None and not connection.is_closed()
    except asyncpg.InterfaceError:  # the pool reclaimed it when it broke
        return False


def _reason(error: BaseException) -> str:
    # Leave out details and rejected arguments: they contain the row, which may be a payload.
    text = str(error.args[0]) if isinstance(error, asyncpg.PostgresError) and error.args else str(error)
    if text.startswith("invalid input for query argument"):
        text = text.partition(":")[0]
    advice = _advice(error)
    return (" ".join(text.split()) or type(error).__name__) + ("" if advice is None else f"; {advice}")


def _advice(error: BaseException) -> str | None:
    return _ADVICE.get(getattr(error, "sqlstate", None) or "")


def hide_password(dsn: str) -> str | None:
    """Return the address without its password, for display. None when it cannot be parsed."""
    try:
        parts = urlsplit(dsn)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    # A later @ means that the password contains a character that ends the authority part.
    if parts.scheme not in ("postgres", "postgresql") or "@" in parts.path + parts.query + parts.fragment:
        return None
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def _unreachable(dsn: str, error: BaseException) -> StoreUnavailable:
    address = hide_password(dsn)
    if address is None:
        reason = "write postgresql://user:password@host:port/database, special characters in the password as %XX"
        return StoreUnavailable(f"the database cannot be reached: its address cannot be read; {reason}")
    advice = "" if _advice(error) else "; check VERBWORKER_DSN"
    return StoreUnavailable(f"the database at {address} cannot be reached: {_reason(error)}{advice}")


@asynccontextmanager
async def connect(dsn: str, *, timeout: float = 10) -> AsyncIterator[Connection]:
    """Open a separate connection, for one-off work."""
    try:
        connection = await asyncpg.connect(dsn, timeout=timeout)
    except (*_UNAVAILABLE, ValueError, OverflowError) as error:
        raise _unreachable(dsn, error) from error
    try:
        with translate_errors():
            yield connection
    finally:
        await _close(connection)


async def _roll_back(transaction: Any) -> None:
    try:
        await transaction.rollback()
    except (*_UNAVAILABLE, asyncpg.PostgresError):
        # A lost connection has already rolled back.
        return


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=2)
    except _UNAVAILABLE:
        connection.terminate()


# Every array type that our statements pass. asyncpg queries the catalog, for some milliseconds, when a connection first
# meets a type; fetching all types together costs that only once per connection.
ARRAYS = ("text", "bigint", "integer", "uuid", "bytea", "interval", "boolean", "timestamptz")
_LEARN_TYPES = "SELECT " + ", ".join(f"${place}::{name}[]" for place, name in enumerate(ARRAYS, 1))


async def _learn_types(connection: Any) -> None:
    await connection.fetchval(_LEARN_TYPES, *([] for _ in ARRAYS))


class _OwnStatementsOnly(asyncpg.Connection):  # type: ignore[misc]  # asyncpg ships no types
    """A connection that runs only our own statements, which leave no session state to clean up."""

    def get_reset_query(self) -> str:
        """Return an empty query, which saves one round trip per statement."""
        return ""


class Database:
    """A pool of connections to one database, opened and closed with `async with`.

    With `own` it runs only statements of `sql/queries`; a pool that verbs write through is reset after each use.
    """

    def __init__(
        self, dsn: str, *, size: int, settings: dict[str, str] | None = None, name: str = "one", own: bool = False
    ) -> None:
        self._dsn = dsn
        self._size = size
        self._settings = settings or {}
        self._connection_class = _OwnStatementsOnly if own else asyncpg.Connection
        self._pool: Any = None
        self._wait = metrics.POOL_WAIT.labels(name)
        self.is_open = False

    async def __aenter__(self) -> Self:
        try:
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=self._size,
                timeout=10,
                command_timeout=30,
                max_inactive_connection_lifetime=60,
                connection_class=self._connection_class,
                init=_learn_types,
                server_settings={"application_name": "verbworker"} | self._settings,
            )
        except (*_UNAVAILABLE, ValueError, OverflowError) as error:
            raise _unreachable(self._dsn, error) from error
        self.is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5)
        except (*_UNAVAILABLE, asyncpg.PostgresError):
            self._pool.terminate()
        self.is_open = False

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """Acquire a connection for a few statements; each commits by itself."""
        with translate_errors():
            began = perf_counter()
            async with self._pool.acquire(timeout=10) as connection:
                self._wait.observe(perf_counter() - began)
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Open a transaction that commits when the block succeeds.

        The block may be a verb, so only Postgres errors are translated there. A commit whose answer is lost raises
        `StoreUnavailable`: the caller must check before it repeats anything.
        """
        with translate_errors():
            began = perf_counter()
            connection = await self._pool.acquire(timeout=10)
        self._wait.observe(perf_counter() - began)
        try:
            transaction = connection.transaction()
            try:
                with translate_errors():
                    await transaction.start()
            except asyncio.CancelledError:
                # It is unknown whether the transaction started: discard the connection.
                connection.terminate()
                raise
            try:
                with _translated_answers(connection):
                    yield connection
            except BaseException:
                await _roll_back(transaction)
                raise
            with translate_errors():
                await transaction.commit()
        finally:
            await self._give_back(connection)

    async def _give_back(self, connection: Any) -> None:
        try:
            await self._pool.release(connection)
        except (*_UNAVAILABLE, asyncpg.PostgresError):
            # Committed work stays committed; the pool opens another connection.
            return

    async def fetch(self, query: str, *args: object) -> list[Row]:
        """Run one statement in its own transaction and return its rows."""
        async with self.acquire() as connection:
            return await connection.fetch(query, *args)

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        """Run one statement and return its first row, or None."""
        async with self.acquire() as connection:
            return await connection.fetchrow(query, *args)

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement and return Postgres' command tag."""
        async with self.acquire() as connection:
            return await connection.execute(query, *args)

    def is_same(self, other: "Database") -> bool:
        """Return whether another pool uses the same database."""
        return self._dsn == other._dsn

    async def listen(self, channel: str, heard: Callable[[str], None], begun: Callable[[], None]) -> None:
        """Call `begun` once listening and `heard` per notification; raise `StoreUnavailable` when disconnected."""
        async with connect(self._dsn) as connection:
            lost = asyncio.Event()
            speaking: Any = connection
            speaking.add_termination_listener(lambda _: lost.set())
            await speaking.add_listener(channel, lambda _connection, _pid, _channel, words: heard(words))
            begun()
            await lost.wait()
        raise StoreUnavailable("the connection that listens was lost")

    async def notify(self, channel: str, words: str) -> None:
        """Send a notification on a channel."""
        await self.fetchrow(query("database", "notify"), channel, words)

    async def ping(self) -> None:
        """Make one round trip; raise `StoreUnavailable` when that fails."""
        await self.fetchrow(query("database", "ping"))


async def plan_by_key(connection: Connection) -> None:
    """Plan the rest of this transaction as on our own pools; a verb's statements come before."""
    await connection.fetch(query("database", "keyed"))


def value_of(kind: type[Value], row: Row, /, **given: object) -> Value:
    """Return a row as a dataclass: each column fills the field of its name, unless the field is given."""
    names = vars(kind)["__dataclass_fields__"]  # `fields` would build a tuple for every row
    return kind(**{name: value for name, value in row.items() if name in names} | given)


def columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    """Turn rows into columns, for statements that read their rows with `unnest`."""
    return [[row[index] for row in rows] for index in range(width)]
