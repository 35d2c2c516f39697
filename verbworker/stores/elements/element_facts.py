"""What is known about the elements of a model: of one case, and of a tenant's cases of one process."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from verbworker.stores.cases.instances import Carrier
from verbworker.stores.database import Database
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query

NEWEST_CASES = 500
"""How many cases of a version its figures are of, the newest ones."""

LOOKED_AT = 10_000
"""How many cases of a process are looked through for those of one version."""

_MOST_FACTS = 1_000  # of one case, the newest
_MOST_VERSIONS = 50
_MOST_PROCESSES = 500


@dataclass(frozen=True, slots=True)
class StepFact:
    """One job of a case: its element, the state of its frame, and when it began and ended."""

    element_id: str
    state: str
    outcome: str | None
    runs: int
    pushed_at: datetime
    popped_at: datetime | None


@dataclass(frozen=True, slots=True)
class WaitFact:
    """One thing that a case waited for."""

    element_id: str
    kind: str
    reason: str
    opened_at: datetime
    closed_at: datetime | None
    closed_as: str | None


@dataclass(frozen=True, slots=True)
class DeployedProcess:
    """One process of an engine, with its newest version and when a tenant last used it."""

    engine_id: str
    process_id: str
    verb: str
    version: int
    versions: int
    deployed_at: datetime
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class ProcessVersion:
    """One version of a process, with a tenant's cases of it among its newest ones."""

    definition_key: int
    version: int
    verb: str
    deployed_at: datetime
    entries: int
    open: int
    failed: int


@dataclass(frozen=True, slots=True)
class ElementFigures:
    """How often, how long and how badly an element was visited; durations are in seconds."""

    element_id: str
    visits: int
    failures: int
    p50: float | None
    p95: float | None
    cases: int


@dataclass(frozen=True, slots=True)
class ElementWaits:
    """How many open cases wait at an element, or stopped there, and since when the first of them."""

    element_id: str
    waiting: int
    incidents: int
    since: datetime


class ElementFacts:
    """Reads what is known about elements."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def steps(self, carrier: Carrier) -> list[StepFact]:
        """Return the newest jobs of a case, the newest first."""
        rows = await self._database.fetch(
            query("element_facts", "steps"), carrier.instance_uid, carrier.engine_id, _MOST_FACTS
        )
        return [value_of(StepFact, row) for row in rows]

    async def waits(self, entry_id: UUID) -> list[WaitFact]:
        """Return the newest waits of a case, the newest first."""
        rows = await self._database.fetch(query("element_facts", "waits"), entry_id, _MOST_FACTS)
        return [value_of(WaitFact, row) for row in rows]

    async def tokens(self, carrier: Carrier) -> set[str]:
        """Return the elements where the embedded engine has tokens of a case; empty for other engines."""
        if carrier.instance_key is None:
            return set()
        rows = await self._database.fetch(query("element_facts", "tokens"), carrier.engine_id, carrier.instance_key)
        return {row["node_id"] for row in rows}

    async def processes(self, tenant_id: str, *, unused: bool) -> list[DeployedProcess]:
        """Return the deployed processes that a tenant has cases of; with `unused` also the others."""
        rows = await self._database.fetch(query("element_facts", "processes"), tenant_id, unused, _MOST_PROCESSES)
        return [value_of(DeployedProcess, row) for row in rows]

    async def versions(self, tenant_id: str, engine_id: str, process_id: str) -> list[ProcessVersion]:
        """Return the versions of a process, the newest first."""
        rows = await self._database.fetch(
            query("element_facts", "versions"), tenant_id, engine_id, process_id, LOOKED_AT, _MOST_VERSIONS
        )
        return [value_of(ProcessVersion, row) for row in rows]

    async def figures(
        self, tenant_id: str, engine_id: str, process_id: str, definition_key: int
    ) -> dict[str, ElementFigures]:
        """Return the figures of a tenant's newest cases of one version, by element."""
        place = tenant_id, engine_id, process_id, definition_key
        rows = await self._database.fetch(query("element_facts", "durations"), *place, LOOKED_AT, NEWEST_CASES)
        return {row["element_id"]: value_of(ElementFigures, row) for row in rows}

    async def open_waits(self, tenant_id: str, engine_id: str, definition_key: int) -> dict[str, ElementWaits]:
        """Return where a tenant's open cases of one version wait, by element."""
        rows = await self._database.fetch(query("element_facts", "open_waits"), tenant_id, engine_id, definition_key)
        return {row["element_id"]: value_of(ElementWaits, row) for row in rows}
