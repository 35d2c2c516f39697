"""The same operations on a real Postgres and on the simulator's store, side by side.

Postgres is given the simulator's clock: a `clock_timestamp()` of our own stands before the real one in the search
path, and column defaults are pointed at it.
"""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from enum import Enum
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from tests.simulator import statements as statements
from tests.simulator.loop import Process, new_loop
from tests.simulator.store import EPOCH, STATEMENTS, SimulatedDatabase, Store, Values
from tests.support.frame_world import OneConnection
from verbworker.errors import VerbworkerError
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.database import Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases
from verbworker.stores.jobs.steps import Steps
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox

T = TypeVar("T")

ENGINE = "sim"
TENANT = "sim"

_CLOCK = """
CREATE SCHEMA simulated;
CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS $$ SELECT current_setting('simulated.now')::timestamptz $$;
CREATE FUNCTION simulated.statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS $$ SELECT current_setting('simulated.now')::timestamptz $$;
CREATE TABLE effect (entry_id uuid, verb text, visit integer, key text);
"""
_DEFAULTS = """
SELECT format('ALTER TABLE %I.%I ALTER COLUMN %I SET DEFAULT simulated.clock_timestamp()',
  table_schema, table_name, column_name) AS change
FROM information_schema.columns
WHERE table_schema = 'verbworker' AND column_default LIKE '%clock_timestamp()%'
"""
TABLES = (
    *("job_frame", "workflow_instance", "payload_head", "payload_version", "dispatch", "runbook_entry"),
    *(
        "job_frame_archive",
        "job_delivery",
        "stall",
        "runbook_event",
        "parked_token",
        "gate_decision",
        "inbox_message",
        "dead_letter",
    ),
)
_MADE_BY_THE_DATABASE = ("token_id", "letter_id")
_JSON = ("flags", "correlation", "detail", "provenance")


class Stores:
    """The store classes of two process boots on one database."""

    def __init__(self, database: Database, owners: list[UUID]) -> None:
        self.database = database
        lease = timedelta(seconds=30)
        self.frames = [Frames(database, engine_id=ENGINE, owner=owner, lease=lease) for owner in owners]
        self.leases = [ExpiredLeases(database, frames, grace=timedelta(seconds=5)) for frames in self.frames]
        self.deliveries = [Deliveries(database, engine_id=ENGINE, owner=owner, lease=lease) for owner in owners]
        self.steps = Steps(database, engine_id=ENGINE)
        self.stalls = Stalls(database)
        self.dispatches = [Dispatches(database, engine_id=ENGINE, owner=owner) for owner in owners]
        self.inboxes = [Inbox(database, engine_id=ENGINE, owner=owner) for owner in owners]
        self.instances = Instances(database)
        self.runbook = Runbook(database)
        self.gates = GateStore(database)
        self.letters = DeadLetters(database)


Operation = Callable[[Stores], Awaitable[Any]]


class Twins:
    """A real database and its double, to which the same is done."""

    def __init__(self, dsn: str, dice: Random) -> None:
        self.dice = dice
        self.real_database = OneConnection(dsn)
        self.now = 1_000  # milliseconds since the epoch of the simulation
        self.called: set[tuple[str, str]] = set()

    async def open(self) -> None:
        """Prepare the real one."""
        await self.real_database.keep()
        async with self.real_database.acquire() as connection:
            await connection.execute(_CLOCK)
            for row in await connection.fetch(_DEFAULTS):
                await connection.execute(row["change"])
            await connection.execute("SET search_path = simulated, pg_catalog, public")
        await self.renew()

    async def renew(self) -> None:
        """Begin anew with empty tables on both sides."""
        names = ", ".join(f"verbworker.{table}" for table in (*TABLES, "frame_event", "frame_conflict"))
        names += ", verbworker.compensation_record"
        await self.real_database.execute(f"ALTER TABLE verbworker.runbook_event DISABLE TRIGGER USER; TRUNCATE {names}")
        await self.real_database.execute("ALTER TABLE verbworker.runbook_event ENABLE TRIGGER USER")
        self.loop = new_loop()
        self.store = Store(self.loop, uuids=lambda: UUID(int=self.dice.getrandbits(128), version=4))
        double = SimulatedDatabase(self.store, Process("twin"), "store", self._reach, _never)
        owners = [UUID(int=self.dice.getrandbits(128), version=4) for _ in range(2)]
        self.real = Stores(self.real_database, owners)
        self.fake = Stores(cast(Database, double), owners)
        self.ids: dict[UUID, str] = {}
        self.pairs: list[tuple[UUID, UUID]] = []
        await self.set_time()

    async def close(self) -> None:
        """Give the real one back."""
        await self.real_database.give_up()

    async def _reach(self, process: Process | None, side: str, name: str) -> str | None:
        store, _, query = name.partition(".")
        self.called.add((store, query))
        return None

    async def set_time(self) -> None:
        """Have both clocks show `now`."""
        self.loop.now = self.now / 1000
        at = (EPOCH + timedelta(milliseconds=self.now)).isoformat()
        await self.real_database.execute("SELECT set_config('simulated.now', $1, false)", at)

    async def move(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds
        await self.set_time()

    async def both(self, operation: Operation) -> tuple[Any, Any]:
        """Do it on both sides; what each answered. They must be equal."""
        await self.move(1)
        real = await _answer(operation(self.real))
        fake = _drive(_answer(operation(self.fake)))
        self._pair(real, fake)
        seen, doubled = self.plain(real), self.plain(fake)
        assert seen == doubled, f"Postgres: {seen}\nthe double: {doubled}"
        return real, fake

    def _pair(self, real: Any, fake: Any) -> None:
        """Ids that the database makes are made twice here: remember which belong together."""
        found = list(zip(_ids(real), _ids(fake), strict=False))
        for one, other in found:
            if one not in self.ids and other not in self.ids:
                self.pairs.append((one, other))
                self.ids[one] = self.ids[other] = f"id {len(self.pairs)}"

    def plain(self, value: Any) -> Any:
        """A value that can be compared: times to the millisecond, ids by which one they are."""
        match value:
            case datetime():
                return round((value - EPOCH).total_seconds() * 1000)
            case float():
                return round(value, 3)
            case Enum():
                return value.value
            case UUID():
                return self.ids.get(value, str(value))
            case Mapping():
                return {key: self._cell(key, one) for key, one in value.items()}
            case list() | tuple() | set() | frozenset():
                parts = [self.plain(one) for one in value]
                return sorted(parts, key=repr) if isinstance(value, set | frozenset) else parts
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {
                    field.name: self._cell(field.name, getattr(value, field.name))
                    for field in dataclasses.fields(value)
                }
        return value

    def _cell(self, name: Any, value: Any) -> Any:
        if name in _JSON and isinstance(value, str):
            value = json.loads(value)
        if name == "detail" and isinstance(value, Mapping):
            made = {one: value[one] for one in _MADE_BY_THE_DATABASE if one in value}
            value = {**value, **{one: self.ids.get(UUID(str(id)), id) for one, id in made.items()}}
        if name == "once":
            kind, _, rest = str(value).partition(":")
            value = f"{kind}:{next((short for id, short in self.ids.items() if str(id) == rest), rest)}"
        return self.plain(value)

    async def compare_tables(self) -> None:
        """Every column that the double keeps is as in Postgres."""
        for table in TABLES:
            rows = await self.real_database.fetch(f"SELECT * FROM verbworker.{table}")
            doubles = list(self.store.tables[table].values())
            for row, double in zip(_sorted(rows), _sorted(doubles), strict=False):
                for name in _MADE_BY_THE_DATABASE:
                    if name in double:
                        self._pair(row[name], double[name])
            names = set(doubles[0]) if doubles else set()
            reals = [{name: self._cell(name, row[name]) for name in names} for row in rows]
            fakes = [{name: self._cell(name, row[name]) for name in names} for row in doubles]
            only_real, only_fake = set(map(_line, reals)), set(map(_line, fakes))
            only_real, only_fake = only_real - only_fake, only_fake - only_real
            assert not only_real | only_fake, f"{table}\nPostgres: {only_real}\nthe double: {only_fake}"
            assert len(reals) == len(fakes), table


def _line(row: Values) -> str:
    return json.dumps(row, sort_keys=True, default=repr)


def _sorted(rows: Any) -> list[Any]:
    names = ("entry_id", "engine_id", "element_instance_key", "kind", "message_id", "generation")
    return sorted(rows, key=lambda row: [str(row[name]) for name in names if name in row.keys()])  # noqa: SIM118


def _ids(value: Any) -> list[UUID]:
    """The ids in an answer that the database made."""
    if isinstance(value, UUID):
        return [value]
    if isinstance(value, list | tuple):
        return [id for one in value for id in _ids(one)]
    found = getattr(value, "token_id", None)
    return [found] if isinstance(found, UUID) else []


async def _answer(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except VerbworkerError as error:
        return f"raises {type(error).__name__}"


def _drive(work: Coroutine[Any, Any, T]) -> T:
    """Run something that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    raise AssertionError("the double waits for something")


async def _never(lost: str) -> None:
    raise AssertionError


def uncovered(called: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Statements that were not compared."""
    return {name for name in STATEMENTS if name not in called and name[0] not in ("effect", "deployments")}
