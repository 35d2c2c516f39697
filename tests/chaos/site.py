"""The site of one chaos run: where its parts are, what its workers are told, and how it is opened."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import verbs
from tests.chaos.load import ENGINE_ID, HARNESS, Load, loaded
from tests.chaos.provider import Provider
from tests.chaos.workers import WORKER, WorkerGroup
from tests.support.databases import execute

LEASE = 3.0
ENGINE_TIMEOUT = 5.0
# Long enough that an outage of the nemesis is over, short enough that a stall is reported before the harness gives up.
STALL_GRACE = 30.0


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

    def environment(self) -> dict[str, str]:
        """What a worker process of this site is told, but for the verbs it has."""
        return {
            verbs.PROVIDER: self.provider.address,
            verbs.WORK: "0.1:0.6",
            "ZEEBE_ADDRESS": self.address,
            "VERBWORKER_DSN": self.dsn,
            "VERBWORKER_ENGINE_ID": ENGINE_ID,
            "VERBWORKER_LEASE": str(LEASE),
            "VERBWORKER_ENGINE_TIMEOUT": str(ENGINE_TIMEOUT),
            "VERBWORKER_POLL_WAIT": "2",
            "VERBWORKER_STALL_GRACE": str(STALL_GRACE),
            "VERBWORKER_LOG_FORMAT": "text",
        }

    def workers(self, size: int, *line: str, command: Sequence[str] = WORKER, **settings: str) -> WorkerGroup:
        """Workers of this site for a line of verbs; none is started yet."""
        app = {verbs.APP: verbs.app_of({self.domain: line})}
        return WorkerGroup(size, self.environment() | app | settings, self.directory, command)

    async def open(self) -> None:
        """Make the ledger and wait for the provider."""
        await execute(self.harness_dsn, verbs.LEDGER)
        await self.provider.ready()

    @asynccontextmanager
    async def load(self, *line: str) -> AsyncIterator[Load]:
        """Instances of this site that run a line of verbs: none is started yet."""
        await self.open()
        async with loaded(self.domain, line, self.harness_dsn, self.address) as load:
            yield load
