"""The connection to Postgres: the only module that uses asyncpg and translates its errors."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import copy
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self

import asyncpg

from verbworker import metrics
from verbworker.background.outages import POSTGRES, Outage
from verbworker.errors import ContractInvalid, StoreConflict, StoreError, StoreReadOnly, StoreUnavailable
from verbworker.stores.access.pooled_connection import OwnStatementsOnly, PooledConnection, learn_types
from verbworker.stores.access.spare_connections import SpareConnections
from verbworker.stores.access.tenancy import EVERY_TENANT, SETTING, local_setting, served_tenant
from verbworker.stores.dsn import read_address
from verbworker.stores.server_errors import reason_of, unreachable
from verbworker.stores.sql import query

# Also in a program that sets up no logging: asyncpg repeats, with tracebacks, what our own line reports once.
logging.getLogger("asyncpg.pool").addFilter(lambda record: record.levelno >= logging.ERROR)

_Holder = asyncio.Task[Any] | None
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
# What a server answers to a new connection while its database is closed for maintenance (ALLOW_CONNECTIONS false). From
# a statement the same error has other reasons.
_CLOSED = asyncpg.ObjectNotInPrerequisiteStateError
_CONFLICT = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
_SNAPSHOT = {"isolation": "repeatable_read", "readonly": True}
# On an open connection these mean that it was misused, or that a statement was cancelled.
_MISUSED = (asyncpg.InterfaceError, asyncpg.QueryCanceledError)


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
        # Of the network, and often without a word: a program of the user's shows only this sentence.
        reason = reason_of(error) if str(error) else "no answer in time"
        raise StoreUnavailable(f"the database cannot be reached: {reason}") from error


@contextmanager
def _translated_answers(verbs: Any = None) -> Iterator[None]:
    """Translate Postgres errors only: the block may run a verb, whose own timeouts and sockets pass unchanged.

    On a verb's connection, `verbs`, misuse is distinguished from a lost connection.
    """
    try:
        yield
    except _CONFLICT as error:
        raise StoreConflict(reason_of(error)) from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise StoreReadOnly(f"the database takes no writes: {reason_of(error)}") from error
    except _GONE as error:
        if isinstance(error, _MISUSED) and _is_open(verbs):
            raise StoreError(reason_of(error)) from error
        # What asyncpg says of a statement that it cannot finish is about its own states.
        is_cut_off = isinstance(error, asyncpg.InternalClientError)
        reason = "the connection to the database was lost during a statement" if is_cut_off else reason_of(error)
        raise StoreUnavailable(reason) from error
    except asyncpg.PostgresError as error:
        raise StoreError(reason_of(error), is_duplicate=isinstance(error, asyncpg.UniqueViolationError)) from error


def _is_open(connection: Any) -> bool:
    try:
        return connection is not None and not connection.is_closed()
    except asyncpg.InterfaceError:  # the pool reclaimed it when it broke
        return False


@contextmanager
def _translated_refusals(dsn: str) -> Iterator[None]:
    """Translate what may happen while a connection is made."""
    try:
        yield
    except (*_UNAVAILABLE, _CLOSED, ValueError, OverflowError) as error:
        raise unreachable(dsn, error) from error
    except asyncpg.PostgresError as error:
        raise ContractInvalid(
            f"Postgres refuses a parameter of its address: {reason_of(error)}; fix VERBWORKER_DSN"
        ) from error


@asynccontextmanager
async def connect(dsn: str, *, timeout: float | None = None) -> AsyncIterator[Connection]:
    """Open a separate connection, for one-off work."""
    address = read_address(dsn, timeout=timeout)
    with _translated_refusals(dsn):
        connection = await asyncpg.connect(address.dsn, timeout=address.timeout)
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
        await connection.close(timeout=2)  # closing is one message; then it is cut off
    except _UNAVAILABLE:
        connection.terminate()


class _Connection(PooledConnection, asyncpg.Connection):  # type: ignore[misc]  # asyncpg ships no types
    """A connection of a pool that others use too."""


class _OwnConnection(OwnStatementsOnly, asyncpg.Connection):  # type: ignore[misc]
    """A connection of a pool for our own statements."""


class LazyTransaction:
    """A transaction that begins when it is needed: without one, each statement on `connection` commits by itself."""

    def __init__(self, connection: Any, tenant: str) -> None:
        self.connection: Connection = connection
        self.is_begun = False
        self._begin = f"BEGIN; {local_setting(tenant)}"
        # User code may leave settings, cursors and locks behind. Sent with the end, this costs no round trip.
        self._reset: str = connection.whole_reset()
        self._forget: Callable[[], None] = connection.forget_tenant

    async def begin(self) -> Connection:
        """Begin the transaction unless it has begun, and return the connection."""
        if not self.is_begun:
            self.is_begun = True  # before the answer: one that is lost may have begun it
            with translate_errors():
                await self.connection.execute(self._begin)
        return self.connection

    async def commit(self) -> None:
        """Commit what was begun; raises `StoreUnavailable` if the answer is lost."""
        if self.is_begun:
            with translate_errors():
                await self.connection.execute(f"COMMIT; {self._reset}")
            self._forget()

    async def roll_back(self) -> None:
        """Roll back what was begun; a lost connection has already rolled back."""
        if self.is_begun:
            with suppress(*_UNAVAILABLE, asyncpg.PostgresError):
                await self.connection.execute(f"ROLLBACK; {self._reset}")
            self._forget()


class Database:
    """A pool of connections to one database, opened and closed with `async with`.

    With `own` it runs only statements of `sql/queries`, and verbs by `lazy_transaction`; any other is reset after use.
    An answer on one of its connections ends the `outages`. Its sessions serve one tenant, or all.
    """

    def __init__(
        self,
        dsn: str,
        *,
        size: int,
        settings: dict[str, str] | None = None,
        name: str = "one",
        own: bool = False,
        outages: Sequence[Outage] = (POSTGRES,),
        tenant: str = EVERY_TENANT,
    ) -> None:
        self._dsn = dsn
        self.tenant = tenant
        self._size = size
        self._home = tenant  # what its sessions begin with
        self._settings = settings or {}
        self._own = own
        self._pool: Any = None
        self._connections: Any = None
        self._wait = metrics.POOL_WAIT.labels(name)
        self._outages = outages
        self._holders: set[_Holder] = set()
        self.is_open = False

    async def __aenter__(self) -> Self:
        address = read_address(self._dsn)
        own_name = {} if address.is_named else {"application_name": "verbworker"}
        with _translated_refusals(self._dsn):
            self._pool = await asyncpg.create_pool(
                address.dsn,
                min_size=1,
                max_size=self._size,
                timeout=address.timeout,
                command_timeout=30,  # ours take milliseconds; beyond it the server is taken for gone
                max_inactive_connection_lifetime=60,  # proxies drop idle connections after minutes
                connection_class=_OwnConnection if self._own else _Connection,
                init=learn_types,
                server_settings=own_name | self._settings | {SETTING: self._home},
            )
        self._connections = SpareConnections(self._pool, _is_open, keeps=self._own)
        self.is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            async with asyncio.timeout(5):  # a shutdown waits no longer
                await self._connections.close()
                await self._pool.close()
        except (*_UNAVAILABLE, asyncpg.PostgresError):
            self._pool.terminate()
        self.is_open = False

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """Acquire a connection for a few statements; each commits by itself."""
        connection, holder = await self._take()
        is_clean = False
        try:
            with translate_errors():
                yield connection
            is_clean = True
            self._note_answer()
        finally:
            await self._give_back(connection, holder, is_clean=is_clean)

    @asynccontextmanager
    async def transaction(self, *, is_snapshot: bool = False) -> AsyncIterator[Connection]:
        """Open a transaction that commits when the block succeeds; a snapshot reads all as of one moment.

        The block may be a verb, so only Postgres errors are translated there. A commit whose answer is lost raises
        `StoreUnavailable`: check before repeating anything.
        """
        connection, holder = await self._take()
        is_clean = False
        try:
            transaction = connection.transaction(**_SNAPSHOT if is_snapshot else {})
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
            is_clean = True
            self._note_answer()
        finally:
            await self._give_back(connection, holder, is_clean=is_clean)

    @asynccontextmanager
    async def lazy_transaction(self, *, tenant: str) -> AsyncIterator["LazyTransaction"]:
        """Provide a connection whose transaction begins with its first statement; it commits when the block succeeds.

        It serves the tenant. Errors are translated as in `transaction`. User code leaves no session state behind.
        """
        connection, holder = await self._take()
        transaction, is_clean = LazyTransaction(connection, tenant), False
        try:
            try:
                with _translated_answers(connection):
                    yield transaction
            except BaseException:
                await transaction.roll_back()
                raise
            await transaction.commit()
            is_clean = not transaction.is_begun  # user code may have used it otherwise
        finally:
            await self._give_back(connection, holder, is_clean=is_clean)

    def _note_answer(self) -> None:
        for outage in self._outages:
            outage.note_answer()

    async def _take(self) -> tuple[Any, _Holder]:
        """Take a connection, one per task: tasks that hold one and wait for a second can lock each other out."""
        holder = asyncio.current_task()
        if holder in self._holders:
            raise RuntimeError("this task has a connection of this pool already: pass it on instead of taking another")
        self._holders.add(holder)
        began = perf_counter()
        try:
            with translate_errors():
                connection = await self._connections.take()
                await self._serve(connection)
        except BaseException as error:
            self._holders.discard(holder)
            if isinstance(error.__cause__, _CLOSED):
                raise StoreUnavailable(*error.args) from error.__cause__
            raise
        self._wait.observe(perf_counter() - began)
        return connection, holder

    async def _serve(self, connection: Any) -> None:
        try:
            await connection.serve(served_tenant(self.tenant), pool=self._home)
        except BaseException:
            await self._connections.give_back(connection, is_clean=False)
            raise

    async def _give_back(self, connection: Any, holder: _Holder, *, is_clean: bool) -> None:
        try:
            await self._connections.give_back(connection, is_clean=is_clean)
        except (*_UNAVAILABLE, asyncpg.PostgresError):
            # Committed work stays committed; the pool opens another connection.
            return
        finally:
            self._holders.discard(holder)

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

    def of(self, tenant: str) -> "Database":
        """Return this open pool as one that serves one tenant."""
        view = copy(self)
        view.tenant = tenant
        return view

    def is_same(self, other: "Database") -> bool:
        """Return whether another pool uses the same database."""
        return self._dsn == other._dsn

    async def listen(self, channel: str, receive: Callable[[str], None], started: Callable[[], None]) -> None:
        """Call `begun` once listening and `heard` per notification; raise `StoreUnavailable` when disconnected."""
        async with connect(self._dsn) as connection:
            lost = asyncio.Event()
            speaking: Any = connection
            speaking.add_termination_listener(lambda _: lost.set())
            await speaking.add_listener(channel, lambda _connection, _pid, _channel, words: receive(words))
            started()
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
