"""The embedded engine in a test: a database of its own, whose clock the test moves."""

from collections.abc import Mapping

from tests.support.apart import run_apart
from tests.support.databases import execute, value
from tests.support.eventually import eventually
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.stores.database import Database

_CLOCK = """CREATE OR REPLACE FUNCTION verbworker_engine.now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$SELECT clock_timestamp() + interval '{seconds} seconds'$$"""

_DUE = "SELECT count(*) FROM verbworker_engine.timer WHERE due_at <= verbworker_engine.now()"


class EmbeddedPlace:
    """A database with the embedded engine in it; what a gateway is for Zeebe."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._seconds = 0.0

    @property
    def address(self) -> str:
        """Where the database is."""
        return self.dsn

    async def moved(self, seconds: float) -> None:
        """Move the engine's clock forward."""
        self._seconds += seconds
        await execute(self.dsn, _CLOCK.format(seconds=self._seconds))

    def advance(self, seconds: float) -> None:
        """The same from outside the loop."""
        run_apart(self.moved(seconds))

    def stop(self, *, keep_log: bool = False) -> None:
        """The database belongs to the test."""


class EmbeddedStage:
    """The embedded engine as scenarios use it: with its clock and its operator."""

    def __init__(self, engine: EmbeddedEngine, place: EmbeddedPlace) -> None:
        self.engine = engine
        self._place = place

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self._place.moved(seconds)

    async def set_variables(self, instance_key: int, variables: Mapping[str, object]) -> None:
        """Change an instance's variables."""
        await self.engine.set_variables(instance_key, variables)

    async def resolve(self, instance_key: int) -> bool:
        """Resolve what there is."""
        incidents = await self.engine.incidents(instance_key)
        for incident in incidents:
            await self.engine.resolve_incident(incident.key)
        return bool(incidents)

    async def incidents(self, instance_key: int) -> list[str] | None:
        """The kinds of an instance's incidents."""
        return sorted(incident.kind for incident in await self.engine.incidents(instance_key))

    async def settle(self, instance_key: int) -> None:
        """Return when no timer is due any more."""

        async def is_settled() -> bool:
            row = await value(self._place.dsn, _DUE)
            return not row

        await eventually(is_settled)


def embedded(dsn: str, *, run_timers: bool = True) -> EmbeddedEngine:
    """One process's engine on a database, still to be opened."""
    return EmbeddedEngine(Database(dsn, size=8), engine_id="test", run_timers=run_timers)
