"""The demo: a KYC case of the example application from request to decision, with all participants in one process."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol
from uuid import UUID

import verbworker
from verbworker.app import settings as config
from verbworker.app.wiring import load_app
from verbworker.client.client import Client
from verbworker.client.entry_handle import EntryHandle
from verbworker.client.records import EntryDetail, WaitRecord
from verbworker.dev import worker_process
from verbworker.dev.dev_session import apply
from verbworker.dev.event_log import EventLine, EventLog
from verbworker.dev.plan import Plan
from verbworker.dev.postgres import LOOPBACK, LocalPostgres
from verbworker.errors import CannotRun
from verbworker.runbook.event import Status, Wait
from verbworker.stores import migrations

TENANT = "demo"
CASE = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
_PAPERS = ("passport", "register-extract")
_LOOK_EVERY = 0.1  # seconds; a viewer does not notice the delay
_LONGEST = 120.0  # seconds; the case takes a few, a slow machine several times that
_NEEDED = ("verbs/kyc/kyc.sql", "processes/kyc-open-case/process.bpmn")


class DemoScreen(Protocol):
    """Where the demo is shown."""

    def show(self, sentence: str) -> None:
        """Show what is prepared, and the result."""

    def show_action(self, sentence: str) -> None:
        """Show what a person or an external system does now."""

    def show_event(self, line: EventLine) -> None:
        """Show a line of the runbook."""

    def show_progress(self, words: str) -> None:
        """Show the progress of the case."""

    async def pause_to_read(self) -> None:
        """Leave time to read before the next action."""


def find_example() -> Path:
    """Return the checkout with the example application; raises `CannotRun` if only the package is installed."""
    for place in (Path.cwd(), Path(verbworker.__file__).parents[1]):
        if all((place / name).is_file() for name in _NEEDED):
            return place
    raise CannotRun("the demo runs the example application, which only the repository has; run it in a checkout")


async def play(screen: DemoScreen, folder: Path, *, engine: str) -> int:
    """Run the case and return the exit code; everything that was started has ended by then."""
    plan = Plan(
        app="verbs:registry",
        models=("processes/kyc-open-case",),
        sql=(Path("verbs/kyc/kyc.sql"),),
        engine=engine,
        engine_id="demo",
        tenant=TENANT,
    )
    async with LocalPostgres(folder) as server:
        applied = await migrations.migrate(server.dsn)
        screen.show(f"a Postgres of its own, {len(applied)} migrations applied")
        await apply(server.dsn, plan.sql, screen.show)
        with screening() as url:
            worker = await worker_process.start(plan.words, plan.settings(server.dsn) | {"KYC_SCREENING_URL": url})
            if isinstance(worker, int):
                return worker
            try:
                screen.show(f"a worker for {worker.greeting.verbs} verbs, a screening service at {url}")
                async with _open_case(screen, plan, server.dsn) as case:
                    return await case.play()
            finally:
                await worker.end()


@asynccontextmanager
async def _open_case(screen: DemoScreen, plan: Plan, dsn: str) -> AsyncIterator["DemoCase"]:
    settings = config.load(dsn=dsn, engine=plan.engine, engine_id=plan.engine_id, tenant=plan.tenant)
    async with Client(settings, load_app(plan.app)) as client:
        yield DemoCase(screen, client, EventLog(client.resources.runbook, plan.tenant))


@dataclass(frozen=True, slots=True)
class DemoCase:
    """All participants: the one who asks, the sender, the decider and the viewer."""

    screen: DemoScreen
    client: Client
    log: EventLog

    async def play(self) -> int:
        """Run the case; returns 0 if it was decided as intended."""
        entry = await self.client.start(CASE, by="ann")
        self.screen.show_action(f"Ann asks: {(await entry.read()).sentence}")
        try:
            async with asyncio.timeout(_LONGEST):
                ended = await self._await_end(entry)
        except TimeoutError:
            far = (await entry.read()).progress
            raise CannotRun(f"the case did not end within {_LONGEST:.0f} s; its progress: {far}") from None
        return await self._conclude(ended)

    async def _await_end(self, entry: EntryHandle) -> EntryDetail:
        answered: set[UUID] = set()
        while True:
            found = await entry.read()
            for line in await self.log.news():
                self.screen.show_event(line)
            self.screen.show_progress(found.progress)
            if found.is_final:
                return found
            for wait in found.waits:
                if wait.token_id not in answered and (answer := self._answer(wait)) is not None:
                    answered.add(wait.token_id)
                    await self.screen.pause_to_read()
                    await answer(entry.entry_id)
            await asyncio.sleep(_LOOK_EVERY)

    def _answer(self, wait: WaitRecord) -> Callable[[UUID], Awaitable[None]] | None:
        match wait.kind:
            case Wait.EXTERNAL_SIGNAL:
                return self._send_papers
            case Wait.HUMAN_GATE:
                return self._approve
            case _:
                return None

    async def _send_papers(self, entry_id: UUID) -> None:
        self.screen.show_action(f"The customer sends: {', '.join(_PAPERS)}")
        papers = [{"kind": kind, "reference": f"store://papers/{kind}"} for kind in _PAPERS]
        name, key = "kyc.documents-received", str(entry_id)
        await self.client.send(name, key, {"documents": papers}, entry_id=entry_id, by="portal")

    async def _approve(self, entry_id: UUID) -> None:
        self.screen.show_action("Ada looks at the papers and approves")
        await self.client.decide(entry_id, "approve", reason="all is in order", by="ada")

    async def _conclude(self, entry: EntryDetail) -> int:
        verified = await self.client.resources.runbook.verify(TENANT, entry.entry_id)
        outcome = dict(entry.outcome or {})
        self.screen.show(f"{entry.sentence}: {entry.status}")
        for name, value in outcome.items():
            self.screen.show(f"  {name.replace('_', ' ')}: {value}")
        self.screen.show(f"  the record: {verified.events} events, {len(verified.broken)} broken")
        went_well = entry.status is Status.COMPLETED and outcome.get("decision") == "approved" and not verified.broken
        return 0 if went_well else 1


@contextmanager
def screening() -> Iterator[str]:
    """Run a screening service on loopback that reports no hits; a repeated request gets the same answer."""
    references: dict[str, str] = {}

    class ScreeningHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reference = references.setdefault(self.headers["Idempotency-Key"], f"S-{len(references) + 1}")
            body = json.dumps({"reference": reference, "lists": 7, "hit": False}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer((LOOPBACK, 0), ScreeningHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/screenings"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
