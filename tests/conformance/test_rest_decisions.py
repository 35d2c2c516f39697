"""Decisions at native user tasks over REST, through faults: none is lost, and the task is completed once.

The server keeps one user task and answers as 8.9.17 was recorded; a fault may come before or after the task was
completed, so that an answer is lost with its effect.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_story import TASK
from tests.support.rest_replay import Answer, RestServer, Seen, problem, recorded, replayed, rest_server
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.cases.gates import GateStore, HumanGate
from verbworker.stores.database import Database
from verbworker.work.gates.decide import GateRelay, Gates

TENANT = "default"
LIMIT_S = 4.0  # a busy machine answers later than a quiet one
COMPLETION = f"/v2/user-tasks/{TASK}/completion"
ROUNDS = 20  # more than any script has faults


@dataclass(frozen=True, slots=True)
class Fault:
    """A bad answer, and whether the task was completed all the same."""

    answer: Answer
    performs: bool = False


HTML = Answer(502, b"<html>bad gateway</html>", "text/html")
FAULTS = {
    "409": Fault(problem(409, "INVALID_STATE", "it is in state 'ASSIGNING'")),
    "404 of a proxy": Fault(Answer(404, b"<html>", "text/html")),
    "404 of another server": Fault(problem(404, "Not Found", "No static resource")),
    "503": Fault(problem(503, "UNAVAILABLE")),
    "busy": Fault(problem(503, "RESOURCE_EXHAUSTED")),
    "429": Fault(problem(429, "RESOURCE_EXHAUSTED")),
    "401": Fault(Answer(401)),
    "403": Fault(problem(403, "FORBIDDEN", "insufficient permissions")),
    "400": Fault(problem(400, "INVALID_ARGUMENT", "no")),
    "502": Fault(HTML),
    "slow": Fault(Answer(204, delay_s=30.0)),
    "closed": Fault(Answer(raw=b"")),
    "502 after it": Fault(HTML, performs=True),
    "504 after it": Fault(problem(504, "DEADLINE_EXCEEDED"), performs=True),
    "slow after it": Fault(Answer(204, delay_s=30.0), performs=True),
    "cut after it": Fault(Answer(raw=b"HTTP/1.1 204 No Con"), performs=True),
    "closed after it": Fault(Answer(raw=b""), performs=True),
    "garbage after it": Fault(Answer(200, b"\xff\xfe{"), performs=True),
    "no HTTP after it": Fault(Answer(raw=b"\x00\x01\r\n\r\n"), performs=True),
}


@dataclass(slots=True)
class TaskServer:
    """One user task: open until it is completed; then the engine knows no such task."""

    script: list[Fault] = field(default_factory=list)
    completed: int = 0
    server: RestServer | None = None

    def answer(self, seen: Seen) -> Answer:
        """Answer as recorded, unless the script has a fault for this request."""
        if seen.path != COMPLETION:
            return problem(404, "Not Found")
        fault = self.script.pop(0) if self.script else None
        name = "complete user task (waits for its listener)" if not self.completed else "complete user task again"
        if fault is None or fault.performs:
            self.completed += not self.completed
        if fault is not None:
            return fault.answer
        return replayed(next(one for one in recorded() if one.name == name))

    @property
    def url(self) -> str:
        """Where it is."""
        assert self.server is not None
        return self.server.url

    def requests(self) -> int:
        """How often a completion was sent."""
        assert self.server is not None
        return len([seen for seen in self.server.seen if seen.path == COMPLETION])


@contextmanager
def task_server(*script: Fault) -> Iterator[TaskServer]:
    task = TaskServer(list(script))
    with rest_server(task.answer) as server:
        task.server = server
        yield task


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


def engine_of(task: TaskServer) -> ZeebeEngine:
    address = GatewayAddress(rest_url=task.url, transport="rest", call_timeout_s=LIMIT_S)
    return ZeebeEngine(address, engine_id=ENGINE)


async def at_gate(database: Database) -> StoredEntry:
    """An entry at the gate of the task."""
    book = await StoredEntry.open(database)
    await book.start()
    token = book.token(7, Wait.HUMAN_GATE, gate="review", reason="Awaiting reviewer")
    async with database.transaction() as connection:
        token_id, _ = await book.runbook.park_in(connection, token)
        await GateStore(database).name_task_in(connection, token_id, TASK)
    return book


async def gate_of(database: Database, book: StoredEntry) -> HumanGate:
    (gate,) = await GateStore(database).gates(TENANT, entry_id=book.entry_id, closed=True)
    return gate


async def relay_until_told(database: Database, engine: ZeebeEngine, book: StoredEntry) -> str:
    """Let relays work, without their pauses, until the engine has the decision; the answer that was stored."""
    relay = GateRelay(database, engine)
    for _ in range(ROUNDS):
        gate = await gate_of(database, book)
        if gate.verdict is not None and gate.verdict.answer is not None:
            return gate.verdict.answer
        await database.execute("UPDATE verbworker.gate_decision SET next_at = clock_timestamp() WHERE acked_at IS NULL")
        async with asyncio.timeout(30):
            await relay.drain()
    raise AssertionError("the decision was not told")


async def tell_through(database: Database, task: TaskServer) -> tuple[str, list[Kind]]:
    """Decide, and let the decision reach the task through the script's faults."""
    book = await at_gate(database)
    async with engine_of(task) as engine:
        decided = await Gates(database, engine).decide(book.entry_id, "yes", by="ada", tenant_id=TENANT)
        assert decided.verdict is not None
        assert decided.verdict.decision == "yes"
        answer = await relay_until_told(database, engine, book)
        sent = task.requests()
        await relay_again(database, engine)
        assert task.requests() == sent  # nothing is told after the engine's answer
    return answer, [event.kind for event in await book.events()]


async def relay_again(database: Database, engine: ZeebeEngine) -> None:
    await database.execute("UPDATE verbworker.gate_decision SET next_at = clock_timestamp()")
    await GateRelay(database, engine).drain()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_decision_reaches_the_task_once_through_a_fault(database: Database, fault: str) -> None:
    with task_server(FAULTS[fault]) as task:
        answer, kinds = await tell_through(database, task)

    assert task.completed == 1
    assert answer == ("unsure" if FAULTS[fault].performs else "completed")
    assert Kind.GATE_GONE not in kinds
    assert kinds.count(Kind.GATE_DECIDED) == 1


@pytest.mark.parametrize("seed", range(12))
async def test_a_decision_reaches_the_task_once_through_many_faults(database: Database, seed: int) -> None:
    chosen = random.Random(seed).choices(sorted(FAULTS), k=5)
    with task_server(*(FAULTS[name] for name in chosen)) as task:
        answer, kinds = await tell_through(database, task)

    assert (task.completed, Kind.GATE_GONE in kinds) == (1, False), chosen
    assert answer in ("completed", "unsure")


async def test_two_relays_and_a_person_tell_it_once(database: Database) -> None:
    with task_server() as task:
        book = await at_gate(database)
        await Gates(database).decide(book.entry_id, "yes", by="ada", tenant_id=TENANT)
        async with engine_of(task) as engine:
            await asyncio.gather(*(GateRelay(database, engine).drain() for _ in range(4)))
        gate = await gate_of(database, book)

    assert (task.requests(), task.completed) == (1, 1)
    assert gate.verdict is not None
    assert gate.verdict.answer == "completed"


async def test_a_task_that_is_gone_before_is_told_once_and_said(database: Database) -> None:
    with task_server() as task:
        task.completed = 1
        answer, kinds = await tell_through(database, task)

    assert (answer, task.requests()) == ("gone", 1)
    assert kinds.count(Kind.GATE_GONE) == 1
