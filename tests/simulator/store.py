"""The database in memory: tables, transactions with row locks, and connections that may be lost.

It has the semantics that the SQL relies on, READ COMMITTED: a statement is atomic and sees what is committed and what
its own transaction wrote; a row that another transaction changed is waited for and read again; a deadlock ends one of
the two. What each statement does is in `statements`; a differential test holds those to Postgres.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulator.loop import Loop, Process
from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.stores.sql import queries, query

Values = dict[str, Any]
Statement = Callable[..., Awaitable[list[Values]]]
Key = tuple[Any, ...]

EPOCH = datetime(2026, 11, 2, tzinfo=UTC)
STATEMENTS: dict[tuple[str, str], Statement] = {}
_LONGEST_WAIT = 30.0  # what Database gives every command
TABLES = (
    "job_frame",
    "job_frame_archive",
    "job_delivery",
    "stall",
    "frame_event",
    "frame_conflict",
    "workflow_instance",
    "payload_head",
    "payload_version",
    "dispatch",
    "runbook_entry",
    "runbook_event",
    "parked_token",
    "gate_decision",
    "inbox_message",
    "inbox_message_aimed",  # the places of a unique index; it holds no rows
    "dead_letter",
    "effect",
)


def statement(store: str, name: str) -> Callable[[Statement], Statement]:
    """Register what a named query of `sql/queries` does."""

    def register(act: Statement) -> Statement:
        STATEMENTS[store, name] = act
        return act

    return register


class Row(dict[str, Any]):
    """A row that can be read by place as well, as asyncpg's can."""

    def __getitem__(self, name: "str | int") -> Any:
        return list(self.values())[name] if isinstance(name, int) else super().__getitem__(name)


class Session:
    """One transaction: what it wrote, and the rows nobody else may write until it ends."""

    __slots__ = ("is_over", "locks", "process", "store", "waits_for", "writes")

    def __init__(self, store: "Store", process: Process | None) -> None:
        self.store = store
        self.process = process
        self.writes: dict[tuple[str, Key], Values | None] = {}
        self.locks: list[tuple[str, Key]] = []
        self.waits_for: Session | None = None
        self.is_over = False

    @property
    def now(self) -> datetime:
        """`clock_timestamp()`: it moves on by itself between two readings, as the real one does."""
        return self.store.tick()

    def get(self, table: str, key: Key) -> Values | None:
        """A row as this transaction sees it."""
        place = (table, key)
        if place in self.writes:
            return self.writes[place]
        return self.store.tables[table].get(key)

    def rows(self, table: str) -> Iterator[Values]:
        """All rows of a table as this transaction sees them, in the order they were first written."""
        committed = self.store.tables[table]
        if not self.writes:
            yield from list(committed.values())
            return
        for key in list(committed):
            row = self.get(table, key)
            if row is not None:
                yield row
        for (name, key), row in list(self.writes.items()):
            if name == table and key not in committed and row is not None:
                yield row

    def is_locked(self, table: str, key: Key) -> bool:
        """Whether another transaction holds a row: SKIP LOCKED passes it over."""
        holder = self.store.locked.get((table, key))
        return holder is not None and holder is not self

    async def lock(self, table: str, key: Key) -> Values | None:
        """Take a row FOR UPDATE and read it; the place of a row that is not there yet can be taken too."""
        place = (table, key)
        locked = self.store.locked
        holder = locked.get(place)
        while holder is not None and holder is not self:
            await self._wait(holder)
            holder = locked.get(place)
        if holder is None:
            locked[place] = self
            self.locks.append(place)
        return self.get(table, key)

    async def _wait(self, holder: "Session") -> None:
        other: Session | None = holder
        while other is not None:
            if other is self:
                raise StoreConflict("deadlock detected")
            other = other.waits_for
        self.waits_for = holder
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self.store.ended(holder)
        except TimeoutError:
            raise StoreUnavailable("a lock was waited for too long") from None
        finally:
            self.waits_for = None
        if self.is_over:
            raise StoreUnavailable("the server ended the session")

    def put(self, table: str, key: Key, row: Values | None) -> None:
        """Write a row that is locked; None takes it away."""
        assert self.store.locked.get((table, key)) is self, f"{table} {key} is written without a lock"
        self.writes[table, key] = row

    async def change(self, table: str, key: Key, **values: Any) -> Values | None:
        """Lock a row and write some columns of it; None when there is none."""
        row = await self.lock(table, key)
        if row is None:
            return None
        changed = {**row, **values}
        self.put(table, key, changed)
        return changed

    def add(self, table: str, row: Values) -> None:
        """Append to a table that nobody changes."""
        self.store.serial += 1
        self.writes[table, (self.store.serial,)] = row

    def commit(self) -> None:
        """Have everybody see it."""
        for (table, key), row in self.writes.items():
            if row is None:
                self.store.tables[table].pop(key, None)
            else:
                self.store.tables[table][key] = row
        self.end()

    def end(self) -> None:
        """Give the rows up; what was not committed is gone."""
        if self.is_over:
            return
        self.is_over = True
        self.writes = {}
        for place in self.locks:
            del self.store.locked[place]
        self.locks = []
        self.store.wake(self)


class Store:
    """One database server."""

    def __init__(self, loop: Loop, *, uuids: Callable[[], UUID], told: Callable[[str], None] | None = None) -> None:
        self.loop = loop
        self.told = told
        self.uuids = uuids
        self.tables: dict[str, dict[Key, Values]] = {name: {} for name in TABLES}
        self.locked: dict[tuple[str, Key], Session] = {}
        self.sessions: list[Session] = []
        self.serial = 0
        self.is_down = False
        self.is_closed = False
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        self._at = EPOCH

    def tick(self) -> datetime:
        """The server's clock, a microsecond later each time it is read."""
        self._at = max(self._at + timedelta(microseconds=1), EPOCH + timedelta(seconds=self.loop.now))
        return self._at

    def begin(self, process: Process | None) -> Session:
        """Open a transaction."""
        session = Session(self, process)
        self.sessions = [other for other in self.sessions if not other.is_over]
        self.sessions.append(session)
        return session

    async def ended(self, session: Session) -> None:
        """Return when a transaction has ended."""
        future = self.loop.create_future()
        self._waiting.setdefault(id(session), []).append(future)
        await future

    def wake(self, session: Session) -> None:
        """Let those go on who waited for a transaction."""
        for future in self._waiting.pop(id(session), ()):
            if not future.done():
                future.set_result(None)

    def disconnect(self, process: Process | None = None) -> None:
        """Roll back what a process has open, or everything: its connections are gone."""
        for session in self.sessions:
            if process is None or session.process is process:
                session.end()


_NAMES: dict[str, tuple[str, str]] = {}


def name_of(text: str) -> tuple[str, str]:
    """The store and the name of a query."""
    if not _NAMES:
        for store, name in STATEMENTS:
            if store != "effect":
                _NAMES[query(store, name)] = (store, name)
    found = _NAMES.get(text)
    if found is None:
        if text.lstrip().upper().startswith("INSERT INTO EFFECT"):
            return "effect", "add"
        known = next(((store, name) for store in ("frames", "runbook") for name in queries(store)), None)
        raise NotImplementedError(f"no statement of the simulator does this (knows {known} and others): {text[:200]}")
    return found


# Services look for work all the time; that they found none is not worth a line.
_POLLS = frozenset({"claim", "cancelling", "backlog", "quiet", "relay", "silent", "claim_due", "strand", "acknowledge"})


def _shown(args: Sequence[object], rows: list[Values]) -> str:
    """The keys in a statement's arguments, and what came back of any meaning, in a few words."""
    keys = [str(arg) for arg in args if isinstance(arg, int) and not isinstance(arg, bool)]
    names = ("job_key", "epoch", "state", "popped", "instance_key", "claimed_from", "seq", "is_new", "answer")
    said = [f"{name}={row[name]}" for row in rows[:2] for name in names if name in row]
    return f" {' '.join(keys)} -> {' '.join(said) or len(rows)}"


Calls = Callable[[Process | None, str, str], Awaitable[str | None]]
"""What happens to a call on its way: waits, may raise or kill; says whether the answer is lost afterwards."""


class SimulatedDatabase:
    """Stands in for `stores.Database` in one process."""

    def __init__(
        self, store: Store, process: Process | None, pool: str, calls: Calls, lose: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._process = process
        self._pool = pool
        self._calls = calls
        self._loses = lose
        self.is_open = True

    # ---- statements -----------------------------------------------------------------------------------------------

    async def run(self, session: Session | None, text: str, args: Sequence[object]) -> list[Values]:
        """Run one statement, in a transaction or in one of its own."""
        store, name = name_of(text)
        lost = await self._reach(session, f"{store}.{name}")
        own = session or self._store.begin(self._process)
        try:
            rows = await STATEMENTS[store, name](own, *args)
        except BaseException:
            own.end()
            raise
        if self._store.told is not None and ((rows and name != "backlog") or name not in _POLLS):
            self._tell(f"{store}.{name}{_shown(args, rows)}")
        if session is None:
            own.commit()
        if lost is not None:
            if lost == "lost":
                own.end()
            await self._lose(lost)
        return rows

    async def _reach(self, session: Session | None, name: str) -> str | None:
        if self._store.is_closed:
            raise StoreUnavailable("the schedule has ended")
        try:
            lost = await self._calls(self._process, self._pool, name)
        except BaseException:
            if session is not None:
                session.end()
            raise
        if session is not None and session.is_over:
            raise StoreUnavailable("the server ended the session")
        return lost

    async def _lose(self, lost: str) -> None:
        """The effect is there and nobody hears of it."""
        await self._loses(lost)
        if lost == "lost":
            raise StoreUnavailable("the answer was lost")

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator["SimulatedConnection"]:
        """A connection whose statements commit one by one."""
        yield SimulatedConnection(self, None)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["SimulatedConnection"]:
        """A connection inside one transaction."""
        session = self._store.begin(self._process)
        try:
            yield SimulatedConnection(self, session)
            lost = await self._reach(session, "commit")
        except BaseException:
            session.end()
            raise
        session.commit()
        self._tell("commit")
        if lost is not None:
            await self._lose(lost)

    @asynccontextmanager
    async def lazy_transaction(self, *, tenant: str) -> AsyncIterator["SimulatedLazyTransaction"]:
        """A connection whose transaction begins with its first statement."""
        transaction = SimulatedLazyTransaction(self, lambda: self._store.begin(self._process))
        try:
            yield transaction
            session = transaction.connection.session
            lost = None if session is None else await self._reach(session, "commit")
        except BaseException:
            if transaction.connection.session is not None:
                transaction.connection.session.end()
            raise
        if session is not None:
            session.commit()
            self._tell("commit")
        if lost is not None:
            await self._lose(lost)

    def _tell(self, words: str) -> None:
        if self._store.told is not None:
            self._store.told(f"{'nobody' if self._process is None else self._process.name}: {words}")

    async def fetch(self, text: str, *args: object) -> list[Values]:
        """The rows of one statement."""
        return await self.run(None, text, args)

    async def fetchrow(self, text: str, *args: object) -> Values | None:
        """The first row."""
        rows = await self.run(None, text, args)
        return rows[0] if rows else None

    async def execute(self, text: str, *args: object) -> str:
        """One statement; nobody reads the tag."""
        await self.run(None, text, args)
        return ""

    def is_same(self, other: object) -> bool:
        """Whether another pool leads to the same database."""
        return isinstance(other, SimulatedDatabase) and other._store is self._store


class SimulatedConnection:
    """Stands in for a connection of asyncpg."""

    def __init__(self, database: SimulatedDatabase, session: Session | None) -> None:
        self._database = database
        self.session = session

    async def fetch(self, text: str, *args: object) -> list[Values]:
        """The rows of one statement."""
        return await self._database.run(self.session, text, args)

    async def fetchrow(self, text: str, *args: object) -> Values | None:
        """The first row."""
        rows = await self._database.run(self.session, text, args)
        return rows[0] if rows else None

    async def fetchval(self, text: str, *args: object) -> Any:
        """The first value of the first row."""
        rows = await self._database.run(self.session, text, args)
        return next(iter(rows[0].values())) if rows else None

    async def execute(self, text: str, *args: object) -> str:
        """One statement."""
        await self._database.run(self.session, text, args)
        return ""

    async def executemany(self, text: str, args: Sequence[Sequence[object]]) -> None:
        """Several."""
        for row in args:
            await self._database.run(self.session, text, row)


def refuse(reason: str) -> StoreError:
    """What a constraint says."""
    return StoreError(reason, is_duplicate="unique constraint" in reason)


class SimulatedLazyTransaction:
    """Stands in for `LazyTransaction`."""

    def __init__(self, database: SimulatedDatabase, make: Callable[[], Session]) -> None:
        self.connection = SimulatedConnection(database, None)
        self._make = make

    async def begin(self) -> SimulatedConnection:
        """Begin the transaction unless it has begun."""
        if self.connection.session is None:
            self.connection.session = self._make()
        return self.connection
