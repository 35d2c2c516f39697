"""The site of one chaos run: where its parts are, what its workers are told, and how it is opened."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import verbs
from tests.chaos.crew import WORKER, Crew
from tests.chaos.load import ENGINE_ID, HARNESS, Load, loaded
from tests.chaos.provider import Provider
from tests.support.databases import execute

LEASE = 3.0
ENGINE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Site:
    """A database, an engine, a provider and a name that no other run uses."""

    dsn: str
    address: str
    provider: Provider
    domain: str
    directory: Path

    @property
    def harness_dsn(self) -> str:
        """The same database for the test itself, under a name the nemesis spares."""
        return f"{self.dsn}?application_name={HARNESS}"

    def environment(
        self, *, work: str = "0.05:0.3", lease: float = LEASE, engine_timeout: float = ENGINE_TIMEOUT, **more: str
    ) -> dict[str, str]:
        """What a worker process of this site is told."""
        return {
            verbs.DOMAINS: self.domain,
            verbs.PROVIDER: self.provider.address,
            verbs.WORK: work,
            "ZEEBE_ADDRESS": self.address,
            "VERBWORKER_DSN": self.dsn,
            "VERBWORKER_ENGINE_ID": ENGINE_ID,
            "VERBWORKER_LEASE": str(lease),
            "VERBWORKER_ENGINE_TIMEOUT": str(engine_timeout),
            "VERBWORKER_POLL_WAIT": "2",
            "VERBWORKER_LOG_FORMAT": "text",
            **more,
        }

    def crew(self, size: int, command: Sequence[str] = WORKER, **settings: str) -> Crew:
        """Workers of this site; none is started yet."""
        return Crew(size, self.environment() | settings, self.directory, command)

    @asynccontextmanager
    async def load(self, *line: str) -> AsyncIterator[Load]:
        """Instances of this site that run a line of verbs: none is started yet."""
        await execute(self.harness_dsn, verbs.LEDGER)
        await self.provider.ready()
        async with loaded(self.domain, self.harness_dsn, self.address) as load:
            await load.deploy(line)
            yield load
