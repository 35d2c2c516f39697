"""The embedded engine's tokens: instances, their jobs and their timers, each step saved by one statement."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from verbworker.errors import AccessDenied
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.rows import columns, value_of
from verbworker.stores.sql import query
from verbworker.stores.tenants.turns import Turns

KEYS_EACH = 1 << 20
"""Number of keys per instance: its own key is a multiple of this, and the keys inside it follow."""


def instance_of(key: int) -> int:
    """Return the instance that a job, a wait or an incident belongs to."""
    return key - key % KEYS_EACH


@dataclass(frozen=True, slots=True)
class NewInstance:
    """Keys and version for a new instance."""

    instance_key: int
    definition_key: int
    process_id: str
    version: int
    now: datetime


@dataclass(frozen=True, slots=True)
class StoredInstance:
    """An instance as stored in the database; revision 0 is not stored yet."""

    instance_key: int
    definition_key: int
    process_id: str
    tenant_id: str
    start_key: str | None
    variables: bytes
    state: bytes
    revision: int
    now: datetime | None = None


def new_instance(opening: NewInstance, tenant_id: str, start_key: str | None = None) -> StoredInstance:
    """Return a new instance that is not stored yet."""
    place = opening.instance_key, opening.definition_key, opening.process_id, tenant_id
    return StoredInstance(*place, start_key, b"", b"", revision=0, now=opening.now)


@dataclass(frozen=True, slots=True)
class Model:
    """A deployed process: the bytes to compile."""

    definition_key: int
    process_id: str
    version: int
    resource: str
    content: bytes


@dataclass(frozen=True, slots=True)
class JobRow:
    """A new job; with a waiting `worker` it is activated as it is created."""

    key: int
    type: str
    element_id: str
    element_instance_key: int
    retries: int
    headers: str
    worker: str | None = None
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident; `job` is 0 for none."""

    key: int
    job: int
    element_id: str
    element_instance_key: int
    kind: str
    message: str
    raised_at: datetime | None = None


@dataclass(slots=True)
class Change:
    """Everything one step of an instance changed. With a `guard` it applies only while that job may be reported on."""

    kept: StoredInstance
    guard: int = 0
    variables: bytes | None = None  # None leaves them unchanged
    state: bytes = b""
    ended: str = ""
    case_tenant: str = ""  # of the case that the instance carries out
    jobs: dict[int, JobRow] = field(default_factory=dict)
    jobs_gone: list[int] = field(default_factory=list)
    jobs_set: dict[int, tuple[bool, int | None, int]] = field(default_factory=dict)  # held, new retries, backoff in ms
    freed: tuple[str, ...] = ()  # types of jobs that failed and may be claimed again at once
    timers: dict[int, datetime] = field(default_factory=dict)
    subscriptions: dict[int, tuple[str, str]] = field(default_factory=dict)
    closed: list[int] = field(default_factory=list)
    incidents: dict[int, IncidentRow] = field(default_factory=dict)
    incidents_gone: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)  # messages removed from the buffer
    tokens: bytes = b""  # that ended, for the history of an instance that goes on

    @property
    def is_rich(self) -> bool:
        """Return whether there is more to save than ended and new jobs."""
        waits = self.timers or self.subscriptions or self.closed or self.taken
        return bool(waits or self.jobs_set or self.incidents or self.incidents_gone or self.tokens)


@dataclass(frozen=True, slots=True)
class ActivationRequest:
    """One worker's request for jobs."""

    type: str
    tenant_ids: tuple[str, ...]
    worker: str
    timeout_ms: int
    most: int


@dataclass(frozen=True, slots=True)
class Activation:
    """An activated job, with its instance at that time."""

    key: int
    type: str
    element_id: str
    element_instance_key: int
    retries: int
    headers: str
    activated_ms: int
    kept: StoredInstance
    case_tenant: str = ""


@dataclass(frozen=True, slots=True)
class JobStanding:
    """The state of a job."""

    is_held: bool
    is_active: bool
    is_resting: bool
    incident_key: int | None
    incident_kind: str | None


class Tokens:
    """Instances, jobs and timers of one database, for any number of processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = defaultdict[tuple[str, str], Turns](Turns)  # by job type and tenant of the engine

    async def require_name(self, engine_id: str) -> None:
        """Check the name of this database's engine, which its first deployment sets; raises `AccessDenied`."""
        name = await self.engine_name()
        if name not in (None, engine_id):
            raise AccessDenied(
                f"the engine in this database is called {name!r} and not {engine_id!r}: two names for one engine"
                f" would run its jobs twice; set VERBWORKER_ENGINE_ID={name}"
            )

    async def name_engine(self, engine_id: str) -> None:
        """Name the engine of this database, unless it has a name."""
        await self._database.execute(query("tokens", "name_engine"), engine_id)

    async def engine_name(self) -> str | None:
        """Return the name of this database's engine; None before the first deployment."""
        row = await self._database.fetchrow(query("tokens", "engine_name"))
        return None if row is None else row["engine_id"]

    # ---- definitions ---------------------------------------------------------------------------------------------

    async def lock_deployments(self, connection: Connection) -> None:
        """Lock out other deployments until the transaction ends."""
        await connection.fetch(query("tokens", "lock_deployments"))

    async def deploy(self, connection: Connection, process_id: str, resource: str, content: bytes) -> Model:
        """Deploy a version of a process and return it: the newest if its bytes are the same, else a new one."""
        latest = await connection.fetchrow(query("tokens", "latest"), process_id)
        if latest is not None and latest["content"] == content:
            return Model(latest["definition_key"], process_id, latest["version"], resource, content)
        version = 1 if latest is None else latest["version"] + 1
        key = await connection.fetchval(query("tokens", "deploy"), process_id, version, resource, content)
        return Model(key, process_id, version, resource, content)

    async def start_by(self, connection: Connection, model: Model, starts: Sequence[tuple[str, str]]) -> None:
        """Let exactly these messages, as (element, message), start this version of a process."""
        elements, names = columns(starts, 2)
        await connection.execute(query("tokens", "start_by"), model.process_id, model.definition_key, elements, names)

    async def model(self, connection: Connection | Database, definition_key: int) -> Model | None:
        """Return one deployed process."""
        row = await connection.fetchrow(query("tokens", "definition"), definition_key)
        return None if row is None else Model(**row)

    # ---- instances -----------------------------------------------------------------------------------------------

    async def open_key(self, connection: Connection | Database, definition_key: int) -> NewInstance | None:
        """Reserve an instance key for one definition."""
        return _opening_of(await connection.fetchrow(query("tokens", "open_by_key"), definition_key))

    async def open_version(self, process_id: str, version: int) -> NewInstance | None:
        """Reserve an instance key for one version of a process."""
        return _opening_of(await self._database.fetchrow(query("tokens", "open_by_version"), process_id, version))

    async def open_latest(self, process_id: str) -> NewInstance | None:
        """Reserve an instance key for the newest version of a process."""
        return _opening_of(await self._database.fetchrow(query("tokens", "open_latest"), process_id))

    async def load(self, keys: list[int]) -> list[StoredInstance | None]:
        """Return instances in their current state."""
        return await self.load_in(self._database, keys)

    async def load_in(self, connection: Connection | Database, keys: list[int]) -> list[StoredInstance | None]:
        """Return instances by key, read inside a transaction; None for those that are gone."""
        rows = await connection.fetch(query("tokens", "load"), keys)
        found = {row["instance_key"]: value_of(StoredInstance, row) for row in rows}
        return [found.get(key) for key in keys]

    async def hold(self, connection: Connection, key: int) -> StoredInstance | None:
        """Return one instance, locked until the transaction ends."""
        row = await connection.fetchrow(query("tokens", "load_locked"), key)
        return None if row is None else value_of(StoredInstance, row)

    async def save(self, changes: list[Change]) -> list[int]:
        """Save steps atomically; return each one's time in ms, or 0 if its instance or job has changed meanwhile."""
        return await self.save_in(self._database, changes)

    async def save_in(self, connection: Connection | Database, changes: list[Change]) -> list[int]:
        """Save steps inside a transaction."""
        if any(change.is_rich for change in changes):
            rows = await connection.fetch(query("tokens", "save"), *_plain_rows(changes), *_rich_rows(changes))
        else:
            rows = await connection.fetch(query("tokens", "save_plain"), *_plain_rows(changes))
        saved = {row["instance_key"]: row["at_ms"] for row in rows}
        return [saved.get(change.kept.instance_key, 0) for change in changes]

    async def is_there(self, instance_key: int) -> bool:
        """Return whether an instance has not ended."""
        row = await self._database.fetchrow(query("tokens", "is_there"), instance_key)
        return row is not None and bool(row["is_there"])

    async def incidents(self, instance_keys: Sequence[int]) -> list[IncidentRow]:
        """Return the incidents of these instances, oldest first; of all without keys."""
        if not instance_keys:
            return [IncidentRow(*row) for row in await self._database.fetch(query("tokens", "every_incident"))]
        rows = await self._database.fetch(query("tokens", "incidents"), list(instance_keys))
        return [IncidentRow(*row) for row in rows]

    async def purge(self, *, older_than: timedelta, limit: int) -> int:
        """Delete instances that ended `older_than` ago and return how many."""
        return len(await self._database.fetch(query("tokens", "purge"), older_than, limit))

    # ---- jobs ----------------------------------------------------------------------------------------------------

    async def activate(self, requests: list[ActivationRequest]) -> list[list[Activation]]:
        """Activate jobs. No two requests may be for the same type: they would get the same jobs."""
        asked = [
            (number, request.type, tenant, request.most, request.timeout_ms, request.worker)
            for number, request in enumerate(requests)
            for tenant in request.tenant_ids
        ]
        given: list[list[Activation]] = [[] for _ in requests]
        for row in await self._activate(asked):
            given[row["number"]].append(
                value_of(Activation, row, key=row["job_key"], kept=value_of(StoredInstance, row))
            )
        return given

    async def _activate(self, asked: Sequence[tuple[int, str, str, int, int, str]]) -> list[Row]:
        """Activate by the plain statement, or in turn if one of the types has a backlog of several tenants."""
        turns = [self._turns[kind, tenant] for _, kind, tenant, *_ in asked]
        if any(one.is_next for one in turns):
            served = [one.served for one in turns]
            rows = await self._database.fetch(query("tokens", "activate_in_turn"), *columns(asked, 6), served)
        else:
            rows = await self._database.fetch(query("tokens", "activate"), *columns(asked, 6))
        for one, (number, _, tenant, most, *_) in zip(turns, asked, strict=True):
            own = [row for row in rows if row["number"] == number and row["tenant_id"] == tenant]
            one.note(own, most)
        return rows

    async def due_types(self, wanted: Sequence[tuple[str, str]]) -> set[str]:
        """Return those of the wanted (type, tenant) types that have a job to activate."""
        rows = await self._database.fetch(query("tokens", "due_types"), *columns(wanted, 2))
        return {row["type"] for row in rows}

    async def give_back(self, unread: Sequence[tuple[int, int]]) -> None:
        """Make jobs, by key and `activated_ms`, available again after the requesting worker has gone."""
        await self._database.execute(query("tokens", "give_back"), *columns(unread, 2))

    async def extend(self, job_key: int, timeout_ms: int) -> bool:
        """Extend the timeout of a worker's job; False when no worker has it."""
        return await self._database.fetchrow(query("tokens", "extend"), job_key, timeout_ms) is not None

    async def job(self, connection: Connection | Database, job_key: int) -> JobStanding | None:
        """Return the state of a job; None when it does not exist."""
        row = await connection.fetchrow(query("tokens", "job"), job_key)
        return None if row is None else JobStanding(*row)

    async def set_retries(self, connection: Connection, job_key: int, retries: int) -> bool:
        """Set a job's retries; False when it does not exist."""
        return await connection.fetchrow(query("tokens", "set_retries"), job_key, retries) is not None

    # ---- timers --------------------------------------------------------------------------------------------------

    async def due_timers(
        self, connection: Connection, limit: int, *, but: Collection[int]
    ) -> list[tuple[int, StoredInstance]]:
        """Return due timers with their instances, locked until the transaction ends; busy instances are skipped."""
        rows = await connection.fetch(query("tokens", "due_timers"), limit, list(but))
        return [(row["wait_key"], value_of(StoredInstance, row)) for row in rows]

    async def next_timer(self) -> float | None:
        """Return the seconds until the next timer is due; None when there is no timer."""
        row = await self._database.fetchrow(query("tokens", "next_timer"))
        return None if row is None else row["seconds"]


def _opening_of(row: Row | None) -> NewInstance | None:
    return None if row is None else value_of(NewInstance, row, instance_key=row["number"] * KEYS_EACH)


def _plain_rows(changes: list[Change]) -> list[list[object]]:
    """Return the columns that both `save` and `save_plain` take."""
    kept = [
        (
            *(c.kept.instance_key, c.kept.definition_key, c.kept.process_id, c.kept.tenant_id, c.kept.start_key),
            *(c.kept.revision, c.variables, c.state, c.ended, c.guard),
        )
        for c in changes
    ]
    jobs = [row for change in changes for row in job_rows(change)]
    gone: list[object] = [key for change in changes for key in change.jobs_gone]
    case_tenants: list[object] = [change.case_tenant for change in changes for _ in change.jobs]
    return [*columns(kept, 10), *columns(jobs, 8), gone, case_tenants]


def job_rows(change: Change) -> list[tuple[object, ...]]:
    """Return the columns of the jobs that a step makes."""
    return [
        (
            *(job.key, job.type, job.element_id, job.element_instance_key, job.retries, job.headers),
            *(job.worker, job.timeout_ms),
        )
        for job in change.jobs.values()
    ]


def _rich_rows(changes: list[Change]) -> list[list[object]]:
    """Return the columns that only `save` takes."""
    jobs_set = [(key, *said) for c in changes for key, said in c.jobs_set.items()]
    *held, backoffs = columns(jobs_set, 4)
    incidents = [
        (i.key, i.job, i.element_id, i.kind, i.message, i.element_instance_key)
        for c in changes
        for i in c.incidents.values()
    ]
    subscriptions = [(key, name, wanted) for c in changes for key, (name, wanted) in c.subscriptions.items()]
    return [
        *held,
        *columns([item for c in changes for item in c.timers.items()], 2),
        *columns(subscriptions, 3),
        [key for c in changes for key in c.closed],
        *columns(incidents, 6),
        [key for c in changes for key in c.incidents_gone],
        *columns([(message, c.kept.instance_key) for c in changes for message in c.taken], 2),
        backoffs,
        *columns([(c.kept.instance_key, c.tokens) for c in changes if c.tokens], 2),
    ]
