"""The embedded engine in a test: a database of its own, whose clock the test moves."""

from tests.support.apart import run_apart
from tests.support.databases import execute
from verbworker.engines.embedded.engine import EmbeddedEngine
from verbworker.stores._database import Database

_CLOCK = """CREATE OR REPLACE FUNCTION verbworker_engine.now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$SELECT clock_timestamp() + interval '{seconds} seconds'$$"""


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


def embedded(dsn: str, *, clockwork: bool = True) -> EmbeddedEngine:
    """One process's engine on a database, still to be opened."""
    return EmbeddedEngine(Database(dsn, size=8), engine_id="test", clockwork=clockwork)
