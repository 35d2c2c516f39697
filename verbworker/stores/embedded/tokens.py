"""The embedded engine's tokens: instances, their jobs and their timers, each step saved by one statement."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from verbworker.stores.database import Connection, Database, Row, columns
from verbworker.stores.sql import query

KEYS_EACH = 1 << 20
"""How many keys an instance has: its own is a multiple of this, and every key inside it follows."""


def instance_of(key: int) -> int:
    """The instance that a job, a wait or an incident belongs to."""
    return key - key % KEYS_EACH


@dataclass(frozen=True, slots=True)
class Opening:
    """A place for a new instance."""

    instance_key: int
    definition_key: int
    process_id: str
    version: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """An instance as the database keeps it; revision 0 is one that it does not keep yet."""

    instance_key: int
    definition_key: int
    process_id: str
    tenant_id: str
    start_key: str | None
    variables: bytes
    state: bytes
    revision: int
    now: datetime | None = None


def opened(opening: Opening, tenant_id: str, start_key: str | None = None) -> Kept:
    """An instance that takes its place, and that nobody knows of yet."""
    place = opening.instance_key, opening.definition_key, opening.process_id, tenant_id
    return Kept(*place, start_key, b"", b"", revision=0, now=opening.now)


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
    """A new job; one that is made for a `worker` who waits for it is handed out as it is made."""

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
    """A new incident; `job` is 0 where there is none."""

    key: int
    job: int
    element_id: str
    kind: str
    message: str


@dataclass(slots=True)
class Change:
    """Everything one instance's step changed. With a `guard` it counts only while that job may be told about."""

    kept: Kept
    guard: int = 0
    variables: bytes | None = None  # None leaves them as they are
    state: bytes = b""
    ended: str = ""
    jobs: dict[int, JobRow] = field(default_factory=dict)
    jobs_gone: list[int] = field(default_factory=list)
    jobs_set: dict[int, tuple[bool, int | None]] = field(default_factory=dict)  # held, and new retries
    timers: dict[int, datetime] = field(default_factory=dict)
    subscriptions: dict[int, tuple[str, str]] = field(default_factory=dict)
    closed: list[int] = field(default_factory=list)
    incidents: dict[int, IncidentRow] = field(default_factory=dict)
    incidents_gone: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)  # messages out of the buffer

    @property
    def is_rich(self) -> bool:
        """Whether more than jobs that ended and new ones has to be saved."""
        waits = self.timers or self.subscriptions or self.closed or self.taken
        return bool(waits or self.jobs_set or self.incidents or self.incidents_gone)


@dataclass(frozen=True, slots=True)
class Wish:
    """One worker's wish for jobs."""

    type: str
    tenant_ids: tuple[str, ...]
    worker: str
    timeout_ms: int
    most: int


@dataclass(frozen=True, slots=True)
class Activation:
    """A job that was handed out, with its instance as it stood then."""

    key: int
    type: str
    element_id: str
    element_instance_key: int
    retries: int
    headers: str
    activated_ms: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class JobStanding:
    """How a job stands."""

    is_held: bool
    is_active: bool
    is_resting: bool
    incident_key: int | None
    incident_kind: str | None


class Tokens:
    """Instances, jobs and timers of one database, for any number of processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def name_engine(self, engine_id: str) -> None:
        """Name the engine of this database, unless it has a name."""
        await self._database.execute(query("tokens", "name_engine"), engine_id)

    async def engine_name(self) -> str | None:
        """Return the name of this database's engine; None before anything was deployed."""
        row = await self._database.fetchrow(query("tokens", "engine_name"))
        return None if row is None else row["engine_id"]

    # ---- definitions ---------------------------------------------------------------------------------------------

    async def lock_deployments(self, connection: Connection) -> None:
        """Keep other deployments away until the transaction ends."""
        await connection.fetch(query("tokens", "lock_deployments"))

    async def deploy(self, connection: Connection, process_id: str, resource: str, content: bytes) -> Model:
        """The version of a process that these bytes are: the newest if it has them already, else the next."""
        latest = await connection.fetchrow(query("tokens", "latest"), process_id)
        if latest is not None and latest["content"] == content:
            return Model(latest["definition_key"], process_id, latest["version"], resource, content)
        version = 1 if latest is None else latest["version"] + 1
        key = await connection.fetchval(query("tokens", "deploy"), process_id, version, resource, content)
        return Model(key, process_id, version, resource, content)

    async def start_by(self, connection: Connection, model: Model, starts: Sequence[tuple[str, str]]) -> None:
        """Have the messages named by (element, message) start this version of a process, and no others any more."""
        elements, names = columns(starts, 2)
        await connection.execute(query("tokens", "start_by"), model.process_id, model.definition_key, elements, names)

    async def model(self, connection: Connection | Database, definition_key: int) -> Model | None:
        """One deployed process."""
        row = await connection.fetchrow(query("tokens", "definition"), definition_key)
        return None if row is None else Model(**row)

    # ---- instances -----------------------------------------------------------------------------------------------

    async def open_key(self, connection: Connection | Database, definition_key: int) -> Opening | None:
        """A place for an instance of one definition."""
        return _opening(await connection.fetchrow(query("tokens", "open_by_key"), definition_key))

    async def open_version(self, process_id: str, version: int) -> Opening | None:
        """A place for an instance of one version of a process."""
        return _opening(await self._database.fetchrow(query("tokens", "open_by_version"), process_id, version))

    async def open_latest(self, process_id: str) -> Opening | None:
        """A place for an instance of the newest version of a process."""
        return _opening(await self._database.fetchrow(query("tokens", "open_latest"), process_id))

    async def load(self, keys: list[int]) -> list[Kept | None]:
        """Instances as they stand now."""
        return await self.load_in(self._database, keys)

    async def load_in(self, connection: Connection | Database, keys: list[int]) -> list[Kept | None]:
        """The same inside a transaction."""
        rows = await connection.fetch(query("tokens", "load"), keys)
        found = {row["instance_key"]: _kept(row, row["now"]) for row in rows}
        return [found.get(key) for key in keys]

    async def hold(self, connection: Connection, key: int) -> Kept | None:
        """One instance that nobody else changes until the transaction ends."""
        row = await connection.fetchrow(query("tokens", "load_locked"), key)
        return None if row is None else _kept(row, row["now"])

    async def save(self, changes: list[Change]) -> list[int]:
        """Save steps, each whole or not at all: when, in ms, or 0 for one whose instance or job is not as it was."""
        return await self.save_in(self._database, changes)

    async def save_in(self, connection: Connection | Database, changes: list[Change]) -> list[int]:
        """The same inside a transaction."""
        if any(change.is_rich for change in changes):
            rows = await connection.fetch(query("tokens", "save"), *_plain_rows(changes), *_rich_rows(changes))
        else:
            rows = await connection.fetch(query("tokens", "save_plain"), *_plain_rows(changes))
        saved = {row["instance_key"]: row["at_ms"] for row in rows}
        return [saved.get(change.kept.instance_key, 0) for change in changes]

    async def is_there(self, instance_key: int) -> bool:
        """Whether an instance has not ended."""
        row = await self._database.fetchrow(query("tokens", "is_there"), instance_key)
        return row is not None and bool(row["is_there"])

    async def incidents(self, instance_key: int) -> list[IncidentRow]:
        """What a person is needed for at an instance."""
        return [IncidentRow(*row) for row in await self._database.fetch(query("tokens", "incidents"), instance_key)]

    async def purge(self, *, older_than: timedelta, limit: int) -> int:
        """Forget instances that ended `older_than` ago and return how many."""
        return len(await self._database.fetch(query("tokens", "purge"), older_than, limit))

    # ---- jobs ----------------------------------------------------------------------------------------------------

    async def activate(self, wishes: list[Wish]) -> list[list[Activation]]:
        """Hand out jobs. No two wishes may be for the same type: they would be given the same jobs."""
        asked = [
            (number, wish.type, tenant, wish.most, wish.timeout_ms, wish.worker)
            for number, wish in enumerate(wishes)
            for tenant in wish.tenant_ids
        ]
        given: list[list[Activation]] = [[] for _ in wishes]
        for row in await self._database.fetch(query("tokens", "activate"), *columns(asked, 6)):
            given[row["number"]].append(_activation(row))
        return given

    async def due_types(self, wanted: Sequence[tuple[str, str]]) -> set[str]:
        """The types, of these with their tenants, that have a job to hand out."""
        rows = await self._database.fetch(query("tokens", "due_types"), *columns(wanted, 2))
        return {row["type"] for row in rows}

    async def give_back(self, unread: Sequence[tuple[int, int]]) -> None:
        """Let jobs, by key and `activated_ms`, be handed out again that nobody was there to take."""
        await self._database.execute(query("tokens", "give_back"), *columns(unread, 2))

    async def fail(self, job_key: int, *, retries: int, backoff_ms: int) -> str | None:
        """Have a job rest and return its type; None when it is not there or may not be told about."""
        row = await self._database.fetchrow(query("tokens", "fail"), job_key, retries, backoff_ms)
        return None if row is None else row["type"]

    async def extend(self, job_key: int, timeout_ms: int) -> bool:
        """Give the worker who has a job more time; False when nobody has it."""
        return await self._database.fetchrow(query("tokens", "extend"), job_key, timeout_ms) is not None

    async def job(self, connection: Connection | Database, job_key: int) -> JobStanding | None:
        """How a job stands; None when there is no such job."""
        row = await connection.fetchrow(query("tokens", "job"), job_key)
        return None if row is None else JobStanding(*row)

    async def set_retries(self, connection: Connection, job_key: int, retries: int) -> bool:
        """Give a job new retries; False when there is no such job."""
        return await connection.fetchrow(query("tokens", "set_retries"), job_key, retries) is not None

    # ---- timers --------------------------------------------------------------------------------------------------

    async def due_timers(self, connection: Connection, limit: int, *, but: Collection[int]) -> list[tuple[int, Kept]]:
        """Timers that are due, with their instances, held until the transaction ends; busy instances are left out."""
        rows = await connection.fetch(query("tokens", "due_timers"), limit, list(but))
        return [(row["wait_key"], _kept(row, row["now"])) for row in rows]

    async def next_timer(self) -> float | None:
        """How many seconds until the next timer is due; None when there is no timer."""
        row = await self._database.fetchrow(query("tokens", "next_timer"))
        return None if row is None else row["seconds"]


def _opening(row: Row | None) -> Opening | None:
    if row is None:
        return None
    return Opening(row["number"] * KEYS_EACH, row["definition_key"], row["process_id"], row["version"], row["now"])


def _kept(row: Row, now: datetime | None) -> Kept:
    return Kept(
        row["instance_key"],
        row["definition_key"],
        row["process_id"],
        row["tenant_id"],
        row["start_key"],
        row["variables"],
        row["state"],
        row["revision"],
        now,
    )


def _activation(row: Row) -> Activation:
    return Activation(
        row["job_key"],
        row["type"],
        row["element_id"],
        row["element_instance_key"],
        row["retries"],
        row["headers"],
        row["activated_ms"],
        _kept(row, None),
    )


def _plain_rows(changes: list[Change]) -> list[list[object]]:
    """The columns that every way of saving takes."""
    kept = [
        (
            *(c.kept.instance_key, c.kept.definition_key, c.kept.process_id, c.kept.tenant_id, c.kept.start_key),
            *(c.kept.revision, c.variables, c.state, c.ended, c.guard),
        )
        for c in changes
    ]
    jobs = [
        (
            *(job.key, job.type, job.element_id, job.element_instance_key, job.retries, job.headers),
            *(job.worker, job.timeout_ms),
        )
        for c in changes
        for job in c.jobs.values()
    ]
    return [*columns(kept, 10), *columns(jobs, 8), [key for c in changes for key in c.jobs_gone]]


def _rich_rows(changes: list[Change]) -> list[list[object]]:
    """The columns that `save` takes beside them."""
    jobs_set = [(key, held, retries) for c in changes for key, (held, retries) in c.jobs_set.items()]
    incidents = [(i.key, i.job, i.element_id, i.kind, i.message) for c in changes for i in c.incidents.values()]
    subscriptions = [(key, name, wanted) for c in changes for key, (name, wanted) in c.subscriptions.items()]
    return [
        *columns(jobs_set, 3),
        *columns([item for c in changes for item in c.timers.items()], 2),
        *columns(subscriptions, 3),
        [key for c in changes for key in c.closed],
        *columns(incidents, 5),
        [key for c in changes for key in c.incidents_gone],
        *columns([(message, c.kept.instance_key) for c in changes for message in c.taken], 2),
    ]
