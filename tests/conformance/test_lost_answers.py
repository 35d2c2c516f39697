"""Lost answers: the engine does what it is asked, its answer is lost, and the retry meets what was done.

One case makes every call of an engine. Each row loses the answer to one of them, and everything must be as without it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from tests.support.connections import connection_to
from tests.support.gateway_proxy import proxied_gateway
from tests.support.lost_answers import Arrival, Loss, Losses, lossy, lossy_commits, lossy_gateway, lossy_rest
from tests.support.lost_world import ENGINE_ID, TENANT, USER_TASK, LostWorld, lost_world
from tests.support.proxy import proxied
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.inline import InlineEngine
from verbworker.engine.protocol import Engine
from verbworker.engine.zeebe.auth import NoAccess
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.engine.zeebe.gateway import Gateway
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.transport import Transport
from verbworker.errors import PermanentContract
from verbworker.model.weave import COMPLETE, PARK
from verbworker.stores.database import Database
from verbworker.work.messages import delivery as message_delivery
from verbworker.work.starts.dispatcher import Dispatcher
from verbworker.work.starts.duplicate_instances import InstanceIdentity

ON_ZEEBE = ("zeebe", "zeebe-rest")
BEGINNING = ["DurableTaskStarted", "StepCompleted", "Parked"]
CANCELLED = [*BEGINNING, "CancelRequested", "Cancelled"]
WAITED = [
    *BEGINNING,
    *("MessageReceived", "Resumed", "Parked", "GateDecided", "Resumed", "Parked", "MessageReceived", "Resumed"),
]
REST = ["StepCompleted", "StepCompleted", "StepCompleted", "ExecutionResult"]
COMPLETED = [*WAITED, *REST]
RELEASED = [*WAITED, "IncidentRaised", "Parked", "IncidentResolved", "Resumed", *REST]


@dataclass(frozen=True, slots=True)
class Row:
    """One call: whose job it is about, where it is about one, and which call repeats it, where that is another."""

    name: str
    call: str
    job: str = ""
    retried_by: str = ""
    on: tuple[str, ...] = ("inline", "embedded", *ON_ZEEBE)
    arrivals: tuple[Arrival, ...] = (Arrival.BEFORE, Arrival.BESIDE, Arrival.BEHIND)

    def loss(self, domain: str, arrival: Arrival) -> Loss:
        """What goes wrong."""
        job_type = self.job if "." in self.job or ":" in self.job else f"{domain}.{self.job}"
        return Loss(self.call, arrival, job_type if self.job else "", self.retried_by)


ROWS = (
    Row("start", "start"),
    Row("complete", "complete", "ask"),
    # On the embedded engine this is no call but a commit, which has a table of its own.
    Row("complete-transactional", "complete", "help", on=("inline", *ON_ZEEBE)),
    Row("complete-listener", "complete", PARK),
    Row("complete-last", "complete", COMPLETE),
    Row("fail", "fail", "book"),
    Row("throw", "throw", "check"),
    Row("publish", "publish"),
    # No id tells its retry from another message, so the product leaves a pause between them: three times its deadline.
    Row("correlate", "correlate", retried_by="publish", arrivals=(Arrival.BEFORE, Arrival.LAST)),
    Row("cancel", "cancel"),
    Row("user-task", "complete", USER_TASK),
)


def name_of(one: Row | Arrival) -> str:
    """A short name for a table of tests."""
    return one.name.lower()


TABLE = [
    pytest.param(
        engine,
        row,
        arrival,
        id=f"{engine}-{row.name}-{name_of(arrival)}",
        marks=(pytest.mark.zeebe,) if engine in ON_ZEEBE else (),
    )
    for engine in ("inline", "embedded", *ON_ZEEBE)
    for row in ROWS
    for arrival in row.arrivals
    if engine in row.on
]


async def rest_clients(address: str, losses: Losses, stack: AsyncExitStack) -> list[ZeebeEngine]:
    """Two clients of a cluster without gRPC; the call that loses its answer goes through a proxy of its own."""
    proxy = await stack.enter_async_context(proxied_gateway(address, is_http2=False))
    clients = [ZeebeEngine(connection_to(f"rest://{address}"), engine_id=ENGINE_ID) for _ in range(2)]
    for client in clients:
        apart = RestClient(connection_to(f"rest://{proxy.address}"), NoAccess())
        await apart.open()
        stack.push_async_callback(apart.close)
        lossy_rest(client, losses, proxy, apart)
    return clients


@asynccontextmanager
async def world_on(
    engine: str, request: pytest.FixtureRequest, dsn: str, domain: str, *, is_shared: bool = False
) -> AsyncIterator[LostWorld]:
    """Two workers whose ways to an engine lose what the test says.

    Where a broker's connection `is_shared` the workers' streams and polls break together with the call.
    """
    losses = Losses()
    engines: list[Engine]
    async with AsyncExitStack() as stack:
        if engine == "zeebe":
            broker = request.getfixturevalue("broker")
            grpc = await stack.enter_async_context(proxied_gateway(broker.address))
            rest = await stack.enter_async_context(proxied_gateway(broker.rest_address, is_http2=False))
            way = GatewayAddress(grpc.address if is_shared else broker.address, rest_url=f"http://{rest.address}")
            clients = [ZeebeEngine(way, engine_id=ENGINE_ID) for _ in range(2)]
            for client in clients:
                apart: Transport = client._gateway if is_shared else Gateway(GatewayAddress(grpc.address))
                await apart.open()
                stack.push_async_callback(apart.close)
                lossy_gateway(client, losses, grpc, rest, apart)
            engines = [*clients]
        elif engine == "zeebe-rest":
            engines = [*await rest_clients(request.getfixturevalue("broker").rest_address, losses, stack)]
        elif engine == "embedded":
            engines = [EmbeddedEngine(Database(dsn, size=6), engine_id=ENGINE_ID) for _ in range(2)]
            for one in engines:
                lossy(one, losses)
        else:
            engines = [InlineEngine(ENGINE_ID)] * 2
            lossy(engines[0], losses)
        is_rest = engine == "zeebe-rest"  # where each poll is a request, and every job waits for the next
        lost = lost_world(dsn, domain, engines, losses, poll_wait=5.0 if is_rest else 0.2)
        world = await stack.enter_async_context(lost)
        world.timeout *= 3 if is_rest else 1
        yield world


async def play(world: LostWorld, call: str) -> UUID:
    """A case from its beginning to its end; some calls are made on one way only."""
    entry_id = await world.ask()
    await world.waits(entry_id, at="letter")
    if call == "cancel":
        await world.cancel(entry_id)
    else:
        if call == "correlate":
            await asyncio.sleep(0.2)  # the broker opens the subscription when it has told us that the case waits
            await world.hand_over("one")
        else:
            await world.send("one")
        await world.waits(entry_id, at="review")
        await world.decide(entry_id)
        await world.waits(entry_id, at="again")
        await world.send("two")
    if call == "release":
        await world.is_held()
        await world.release()
    await world.ends(entry_id)
    return entry_id


async def verify(world: LostWorld, entry_id: UUID, call: str) -> None:
    """Everything is as if every answer had arrived."""
    is_cancelled = call == "cancel"
    assert await world.status(entry_id) == ("cancelled" if is_cancelled else "completed")
    assert await world.kinds(entry_id) == {"cancel": CANCELLED, "release": RELEASED}.get(call, COMPLETED)
    assert dict(world.outside.runs) == ({"ask": 1} if is_cancelled else {"ask": 1, "book": 2, "check": 1, "help": 1})
    assert await world.effects() == ({} if is_cancelled else {"book": 1, "help": 1})
    assert await world.count("gate_decision") == (0 if is_cancelled else 1)
    assert await world.count("inbox_message") == (0 if is_cancelled else 2)
    assert (await world.resources.runbook.verify(TENANT)).broken == {}
    assert await world.left() == {}


@pytest.mark.parametrize(("engine", "row", "arrival"), TABLE)
async def test_an_answer_that_is_lost_changes_nothing(
    engine: str, row: Row, arrival: Arrival, request: pytest.FixtureRequest, dsn: str, unique: Callable[[str], str]
) -> None:
    async with world_on(engine, request, dsn, unique("lost")) as world:
        loss = row.loss(world.domain, arrival)
        world.losses.lose(loss)
        entry_id = await play(world, row.call)

        assert loss.is_lost
        assert loss.has_landed
        assert loss.retries > 0 or arrival is Arrival.BEFORE
        await verify(world, entry_id, row.call)


@pytest.mark.zeebe
@pytest.mark.parametrize("arrival", [Arrival.BEFORE, Arrival.BEHIND], ids=name_of)
@pytest.mark.parametrize("row", [row for row in ROWS if row.call != "correlate"], ids=name_of)
async def test_a_connection_that_breaks_with_everything_on_it_changes_nothing(
    row: Row, arrival: Arrival, request: pytest.FixtureRequest, dsn: str, unique: Callable[[str], str]
) -> None:
    async with world_on("zeebe", request, dsn, unique("lost"), is_shared=True) as world:
        world.losses.lose(loss := row.loss(world.domain, arrival))
        entry_id = await play(world, row.call)

        assert loss.is_lost
        await verify(world, entry_id, row.call)


@pytest.mark.parametrize("arrival", [Arrival.BEFORE, Arrival.BESIDE], ids=name_of)
@pytest.mark.parametrize(
    "engine", ["inline", "embedded", *(pytest.param(name, marks=pytest.mark.zeebe) for name in ON_ZEEBE)]
)
async def test_a_job_that_is_held_for_a_person_is_held_once(
    engine: str, arrival: Arrival, request: pytest.FixtureRequest, dsn: str, unique: Callable[[str], str]
) -> None:
    async with world_on(engine, request, dsn, unique("lost")) as world:
        world.outside.trouble = PermanentContract("no such account", code="NoAccount")
        world.losses.lose(loss := Loss("fail", arrival, f"{world.domain}.book"))
        entry_id = await play(world, "release")

        assert loss.is_lost
        assert loss.has_landed
        await verify(world, entry_id, "release")


# ---- an engine in our own database: the call and our own state are one commit -------------------------------------


@pytest.mark.parametrize("arrival", [Arrival.BEFORE, Arrival.BESIDE], ids=name_of)
@pytest.mark.parametrize("row", [Row("start", "start"), Row("complete", "complete", "help")], ids=name_of)
async def test_a_commit_whose_answer_is_lost_changes_nothing(
    row: Row, arrival: Arrival, dsn: str, unique: Callable[[str], str]
) -> None:
    losses, domain = Losses(), unique("lost")
    async with proxied(dsn) as proxy:
        engines = [EmbeddedEngine(Database(proxy.dsn, size=6), engine_id=ENGINE_ID) for _ in range(2)]
        for engine in engines:
            lossy_commits(engine, losses, proxy)
        async with lost_world(dsn, domain, engines, losses, worker_dsn=proxy.dsn) as world:
            losses.lose(row.loss(domain, arrival))
            entry_id = await play(world, row.call)

            assert proxy.cuts == 1
            await verify(world, entry_id, row.call)


# ---- the table can fail -------------------------------------------------------------------------------------------


async def damage(world: LostWorld, call: str) -> dict[str, object]:
    """What a case leaves behind that does not come out as it must."""
    world.timeout = 1.5
    with pytest.raises(AssertionError, match="left behind"):
        await play(world, call)
    return await world.left()


async def test_without_an_id_a_message_that_is_published_again_is_read_twice(
    request: pytest.FixtureRequest, dsn: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_delivery, "engine_message_id", lambda *_: uuid4().hex)
    async with world_on("inline", request, dsn, unique("lost")) as world:
        world.losses.lose(Loss("publish", Arrival.BESIDE))

        assert "unread messages" in await damage(world, "publish")


async def test_where_duplicates_are_not_cancelled_a_case_that_is_started_again_leaves_a_twin(
    request: pytest.FixtureRequest, dsn: str, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def let_be(*_: object) -> None:
        return None

    monkeypatch.setattr(InstanceIdentity, "_refuse", let_be)
    monkeypatch.setattr(Dispatcher, "_cancel_twin", let_be)
    async with world_on("inline", request, dsn, unique("lost")) as world:
        world.losses.lose(Loss("start", Arrival.BESIDE))

        damaged = await damage(world, "start")
        pinned = await world.value("SELECT instance_key FROM verbworker.workflow_instance")
        assert damaged["instances"] != [pinned]
