"""Read a runbook entry with everything that people want to know about it."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from verbworker.errors import NotFound
from verbworker.runbook.event import Entry, Event, Kind, OpenToken, Stall, Status, Wait, open_incidents, outcome_name
from verbworker.runbook.progress import Progress, progress
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import GateStore, WaitingDecision
from verbworker.stores.cases.instances import Carrier, Instances
from verbworker.stores.cases.runbook import ReleasedJob, Runbook
from verbworker.stores.cases.stalls import Stalls
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry with its events, waits, progress and stalls."""

    entry: Entry
    events: list[Event]
    waits: list[OpenToken]
    progress: Progress
    trouble: str | None
    stalls: list[Stall]
    released: list[ReleasedJob]
    instance_key: int | None = None
    unsent: tuple[WaitingDecision, ...] = ()

    @property
    def incidents(self) -> list[Event]:
        """The incidents that stop it now; each has a sentence and the key of its job."""
        is_held = any(wait.kind is Wait.INCIDENT for wait in self.waits)
        return open_incidents(self.events) if is_held else []

    @property
    def outcome_name(self) -> str | None:
        """How it ended, by the name that its contract has for it."""
        return next((name for event in self.events if (name := outcome_name(event)) is not None), None)

    @property
    def failure(self) -> Event | None:
        """The event that ended it badly."""
        is_failed = self.entry.status is Status.FAILED
        return next((event for event in self.events if is_failed and event.kind is Kind.RESULT), None)


class EntryView:
    """Reads an entry with its events, waits, progress and stalls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._runbook = Runbook(database)
        self._stalls = Stalls(database)
        self._gates = GateStore(database)

    async def find(self, entry_id: UUID, tenant: str) -> FoundEntry:
        """Return one entry of a tenant; raises `NotFound`."""
        entry = await self._runbook.entry(entry_id, tenant_id=tenant)
        if entry is None:
            raise NotFound(f"the tenant {tenant} has no entry {entry_id}")
        trouble = await Dispatches(self._database, engine_id="", owner=uuid4()).trouble(entry_id)
        return await self.read(entry, trouble)

    async def read(self, entry: Entry, trouble: str | None = None) -> FoundEntry:
        """Return an entry that was read before, with the rest."""
        events, waits = await self._runbook.events(entry.entry_id), await self._runbook.waits(entry.entry_id)
        stalls = await self._stalls.of_entry(entry.entry_id)
        carrier = await Instances(self._database).of_entry(entry.entry_id)
        far = progress(entry, events, waits, stalls, steps=await self._steps(entry, carrier))
        released = [] if entry.status.is_final else await self._runbook.waiting_releases(entry.entry_id)
        instance_key = None if carrier is None else carrier.instance_key
        unsent = tuple(await self._gates.unsent(entry.entry_id))
        return FoundEntry(entry, events, waits, far, trouble, stalls, released, instance_key, unsent)

    async def _steps(self, entry: Entry, carrier: Carrier | None) -> int:
        if carrier is None or entry.definition_key is None:
            return 0
        deployment = await Deployments(self._database, engine_id=carrier.engine_id).find(entry.definition_key)
        return 0 if deployment is None else deployment.steps
