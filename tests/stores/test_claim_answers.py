"""A claim is answered with what the engine's task list says: as a real 8.9.17 answered, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.api_server import ApiServer
from tests.support.command import Said, verbworker
from tests.support.embedded_service import TENANT
from tests.support.entries import StoredEntry
from tests.support.eventually import eventually
from tests.support.frames import ENGINE
from tests.support.recorded_search import NATIVE, RecordedCluster, recorded_item
from tests.support.rest_replay import Answer, problem
from verbworker.app import settings as config
from verbworker.background.poll_loop import running
from verbworker.client.client import Client
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import RequestConflict
from verbworker.runbook.event import Kind, Wait
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.database import Database
from verbworker.work.gates.decide import GateRelay

TASK = 2251799813685327  # the recorded native task
WAIT = 20.0  # seconds; the machine may be slow
ASSIGN = f"POST /v2/user-tasks/{TASK}/assignment"


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=8) as database:
        yield database


@pytest.fixture
async def engine(cluster: RecordedCluster) -> AsyncIterator[ZeebeEngine]:
    assert cluster.server is not None
    address = GatewayAddress(rest_url=cluster.server.url, transport="rest", call_timeout_s=2.0)
    async with ZeebeEngine(address, engine_id=ENGINE) as engine:
        yield engine


@pytest.fixture
async def stored(database: Database) -> StoredEntry:
    """An entry that waits at a native task."""
    stored = await StoredEntry.open(database)
    await stored.start(NATIVE)
    await stored.park(stored.token(7, Wait.HUMAN_GATE, gate="review", instance_key=NATIVE))
    await database.execute("UPDATE verbworker.parked_token SET user_task_key = $1", TASK)
    return stored


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Client]:
    settings = config.load(dsn=dsn, engine="zeebe", engine_id=ENGINE)
    async with Client(settings, by="bob") as client:
        yield client


@asynccontextmanager
async def worker(database: Database, engine: ZeebeEngine) -> AsyncIterator[None]:
    """The part of a worker that mirrors claims."""
    async with running([GateRelay(database, engine, every=0.1).service], asyncio.Event()):
        yield


async def test_a_claim_that_the_engine_takes_is_answered_as_such(
    database: Database, engine: ZeebeEngine, client: Client, stored: StoredEntry
) -> None:
    async with worker(database, engine):
        claimed = await client.claim(stored.entry_id, wait=WAIT)
        released = await client.release(stored.entry_id, wait=WAIT)

    assert (claimed.claimed_by, claimed.engine_assignee, claimed.claim_trouble) == ("bob", "bob", None)
    assert claimed.claim_words == "the engine's task list shows it"
    assert (released.claimed_by, released.engine_assignee, released.claim_trouble) == (None, None, None)


@pytest.mark.parametrize("is_known", [True, False], ids=["named", "not named"])
async def test_a_claim_that_the_engine_refuses_is_a_refusal_in_one_sentence(
    database: Database,
    engine: ZeebeEngine,
    cluster: RecordedCluster,
    client: Client,
    stored: StoredEntry,
    is_known: bool,
) -> None:
    await engine.assign_user_task(TASK, "ada")  # in Tasklist, and no listener told us
    if is_known:
        cluster.user_tasks.append({**recorded_item("search user tasks of an instance"), "assignee": "ada"})

    async with worker(database, engine):
        with pytest.raises(RequestConflict) as refused:
            await client.claim(stored.entry_id, wait=WAIT)

    who = "ada has it there" if is_known else "another person has it there"
    assert str(refused.value) == (
        f"review of entry {stored.entry_id} cannot be claimed: the engine's task list refuses, because {who};"
        " release it there first"
    )
    (gate,) = await GateStore(database).gates("default")
    assert (gate.claimed_by, gate.closed_at) == (None, None)
    (released,) = [event for event in await stored.events() if event.kind is Kind.GATE_RELEASED]
    assert (released.detail["had"], who in str(released.detail["reason"])) == ("bob", True)


@pytest.mark.parametrize(
    "fault",
    [problem(503, "UNAVAILABLE", "the partition has no leader"), Answer(200, b"", delay_s=600.0)],
    ids=["away", "silent"],
)
async def test_a_claim_holds_while_the_engine_is_away_and_is_mirrored_later(
    database: Database,
    engine: ZeebeEngine,
    cluster: RecordedCluster,
    client: Client,
    stored: StoredEntry,
    fault: Answer,
) -> None:
    cluster.refusal = fault
    async with worker(database, engine):
        claimed = await client.claim(stored.entry_id, wait=WAIT)
        cluster.refusal = Answer(204)  # as it was recorded for the first of several

        async def is_mirrored() -> bool:
            return (await client.gate(stored.entry_id)).engine_assignee == "bob"

        await eventually(is_mirrored)
        later = await client.gate(stored.entry_id)

    assert (claimed.claimed_by, claimed.engine_assignee) == ("bob", None)
    assert claimed.claim_trouble is not None
    assert claimed.claim_words.startswith("the engine's task list does not have it yet; a worker sends it again: ")
    assert (later.claim_trouble, later.claim_words) == (None, "the engine's task list shows it")


async def test_without_a_worker_the_answer_says_that_the_engine_was_not_told(
    dsn: str, database: Database, stored: StoredEntry
) -> None:
    settings = config.load(dsn=dsn, engine="zeebe", engine_id=ENGINE)
    async with Client(settings, by="bob") as client:
        claimed = await client.claim(stored.entry_id, wait=0.3)

    assert claimed.claimed_by == "bob"
    assert claimed.claim_words == "the engine's task list does not have it yet; a worker sends it"


async def test_a_gate_without_a_task_list_is_answered_at_once(
    database: Database, client: Client, stored: StoredEntry
) -> None:
    await database.execute("UPDATE verbworker.parked_token SET user_task_key = NULL, job_key = 5")

    async with asyncio.timeout(5):  # shorter than the wait for an engine
        claimed = await client.claim(stored.entry_id, wait=WAIT)

    assert (claimed.claimed_by, claimed.claim_words) == ("bob", "")


async def test_many_workers_send_a_claim_once(
    database: Database, engine: ZeebeEngine, cluster: RecordedCluster, client: Client, stored: StoredEntry
) -> None:
    assert cluster.server is not None
    claiming = asyncio.ensure_future(client.claim(stored.entry_id))

    async def is_claimed() -> bool:
        return (await client.gate(stored.entry_id)).claimed_by is not None

    await eventually(is_claimed)

    await asyncio.gather(*(GateRelay(database, engine).drain() for _ in range(6)))
    await claiming

    assert cluster.server.paths().count(ASSIGN) == 1


async def test_a_claim_that_is_released_while_it_is_sent_ends_released_on_both_sides(
    database: Database, engine: ZeebeEngine, cluster: RecordedCluster, dsn: str, stored: StoredEntry
) -> None:
    assert cluster.server is not None
    settings = config.load(dsn=dsn, engine="zeebe", engine_id=ENGINE)
    slow = ZeebeEngine(GatewayAddress(rest_url=cluster.server.url, transport="rest"), engine_id=ENGINE)
    async with Client(settings, by="bob") as client, slow:
        await client.claim(stored.entry_id, wait=0.0)
        assign, may_go = slow.assign_user_task, asyncio.Event()

        async def wait_and_assign(key: int, assignee: str, *, override: bool = False) -> None:
            await may_go.wait()
            await assign(key, assignee, override=override)

        slow.assign_user_task = wait_and_assign  # type: ignore[method-assign]
        sending = asyncio.ensure_future(GateRelay(database, slow).drain())
        await asyncio.sleep(0.2)
        await client.release(stored.entry_id, wait=0.0)
        await GateRelay(database, engine).drain()  # another worker: it must not overtake the first
        overtaken = f"DELETE /v2/user-tasks/{TASK}/assignee" in cluster.server.paths()
        may_go.set()
        await sending
        await GateRelay(database, engine).drain()

    assert not overtaken
    sent = [path for path in cluster.server.paths() if f"/user-tasks/{TASK}/" in path]
    assert sent == [ASSIGN, f"DELETE /v2/user-tasks/{TASK}/assignee"]
    (gate,) = await GateStore(database).gates("default")
    assert (gate.claimed_by, gate.engine_assignee) == (None, None)


async def test_the_api_answers_with_what_the_engine_says(
    dsn: str, database: Database, engine: ZeebeEngine, cluster: RecordedCluster, stored: StoredEntry
) -> None:
    server, path = ApiServer(dsn), f"/v1/gates/{stored.entry_id}"
    await database.execute("UPDATE verbworker.runbook_entry SET tenant_id = $1", TENANT)
    await database.execute("UPDATE verbworker.parked_token SET tenant_id = $1", TENANT)
    async with server.serving(), server.caller() as ann, worker(database, engine):
        taken = await ann.post(f"{path}/claim", json={"wait": WAIT})
        released = await ann.post(f"{path}/release", json={"wait": WAIT})
        refused = await ann.post(f"{path}/claim", json={"wait": WAIT})
        cluster.refusal = problem(503, "UNAVAILABLE", "the partition has no leader")
        later = await ann.post(f"{path}/claim", json={"wait": WAIT})
        too_long = await ann.post(f"{path}/claim", json={"wait": 3600})

    assert [answer.status_code for answer in (taken, released, refused, later, too_long)] == [200, 200, 409, 200, 422]
    assert (taken.json()["claim_words"], taken.json()["is_mirrored"]) == ("the engine's task list shows it", True)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["detail"].endswith(
        "the engine's task list refuses, because another person has it there; release it there first"
    )
    assert (later.json()["claimed_by"], later.json()["is_mirrored"]) == ("ann", False)
    assert "the partition has no leader" in later.json()["claim_words"]


# ---- the command line -----------------------------------------------------------------------------------------------


async def type_in(dsn: str, folder: Path, *words: str) -> Said:
    engine = {"VERBWORKER_ENGINE": "zeebe", "VERBWORKER_ENGINE_ID": ENGINE}
    return await asyncio.to_thread(lambda: verbworker(*words, directory=folder, dsn=dsn, **engine))


async def test_the_command_exits_with_the_engines_answer(
    dsn: str, database: Database, engine: ZeebeEngine, cluster: RecordedCluster, stored: StoredEntry, tmp_path: Path
) -> None:
    where = str(stored.entry_id)
    async with worker(database, engine):
        taken = await type_in(dsn, tmp_path, "gates", "claim", where, "--by", "bob", "--wait", "30")
        released = await type_in(dsn, tmp_path, "gates", "release", where, "--by", "bob", "--wait", "30")
        refused = await type_in(dsn, tmp_path, "gates", "claim", where, "--by", "bob", "--wait", "30")
        cluster.refusal = problem(503, "UNAVAILABLE", "the partition has no leader")
        later = await type_in(dsn, tmp_path, "gates", "claim", where, "--by", "bob", "--wait", "30")

    assert (taken.code, taken.out) == (0, f"bob claimed review of entry {where}; the engine's task list shows it\n")
    assert (released.code, released.out) == (
        0,
        f"review of entry {where} is released; the engine's task list shows it\n",
    )
    assert (refused.code, refused.out) == (1, "")
    assert refused.sentence().endswith("because another person has it there; release it there first")
    assert later.code == 0
    assert "does not have it yet; a worker sends it again: " in later.out
    assert "the partition has no leader" in later.out
