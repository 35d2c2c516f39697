"""Three ways in which an engine stops by itself, drawn for the embedded engine."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.support.drawing import Drawing, listeners
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Ask, Deployed, Resource, Start, Started
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.model.weave import Woven
from verbworker.profile.compile import Compiled
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Connection, Database
from verbworker.stores.deployments import Deployments

_DEFINITION = 77
_WAIT_MS = 5_000  # a job is there at once; a busy machine may be slower


@dataclass(frozen=True, slots=True)
class EngineCase:
    """A drawing, what goes wrong in it, what the engine calls that, and the job that shows that it goes on."""

    name: str
    drawing: Callable[[], Drawing]
    fault: Callable[[EmbeddedEngine], Awaitable[None]]
    kind: str
    element: str
    words: str
    following: str

    async def goes_on(self, engine: EmbeddedEngine) -> bool:
        """Whether the job that follows is handed out."""
        return bool(await take(engine, self.following))


def without_a_way() -> Drawing:
    """A gateway whose only way has a condition."""
    drawing = Drawing().start().task("decide").gateway("exclusive", "which").task("left").end()
    return drawing.flow("begin", "decide", "which").flow("which", "left", when="=orch_way").flow("left", "end")


def with_listener() -> Drawing:
    """A task with a listener before it."""
    heard = listeners(("start", "heard"))
    return Drawing().start().task("work", listeners=heard).end().flow("begin", "work", "end")


def nested() -> Drawing:
    """A task a, then a fork into b and c, beside d, and `after` when all have joined."""
    drawing = Drawing().start().gateway("parallel", "outer", "inner", "meet", "join")
    for name in ("a", "b", "c", "d", "after"):
        drawing.task(name)
    drawing.end().flow("begin", "outer", "a", "inner", "b", "meet", "join", "after", "end")
    return drawing.flow("inner", "c", "meet").flow("outer", "d", "join")


def alone() -> Drawing:
    """A task that nothing catches errors of."""
    return Drawing().start().task("work").end().flow("begin", "work", "end")


async def begin_case(
    database: Database, engine: EmbeddedEngine, drawing: Drawing, **variables: object
) -> tuple[StoredEntry, int]:
    """Start an entry on the embedded engine, pinned in the commit that starts it."""
    await engine.deploy([Resource("p.bpmn", drawing.xml())])
    stored = await StoredEntry.open(database)

    async def pin(connection: Connection, begun: Sequence[Started]) -> None:
        await Instances(database).pin_in(connection, {stored.instance_uid: begun[0]})

    started = await engine.start_with([Start(drawing.process, variables)], pin)
    return stored, started[0].instance_key


async def declare_flags(database: Database, stored: StoredEntry, made: Woven, flags: Mapping[str, object]) -> None:
    """Record a model as the one that an entry runs, deployed with a contract that has these flags."""
    compiled = Compiled(made.process_id, "kyc.open-case", None, {"flags": flags}, {})
    made, authored = replace(made, compiled=compiled), b"1" * 32
    deployments = Deployments(database, engine_id=ENGINE)
    deployed = Deployed(made.process_id, 1, _DEFINITION, f"{made.process_id}.bpmn")
    await deployments.request(made, resource="p.bpmn", authored_sha256=authored, by="ann")
    await deployments.record(deployed, made, resource="p.bpmn", authored_sha256=authored, by="ann")
    pinned = "UPDATE verbworker.workflow_instance SET definition_key = $2 WHERE instance_uid = $1"
    await database.execute(pinned, stored.instance_uid, _DEFINITION)


async def take(engine: EmbeddedEngine, kind: str) -> Job:
    """One job of a type."""
    (job,) = await engine.activate(Ask(kind, "tests", 60_000, ()), 1, _WAIT_MS)
    return job


async def throw_uncaught(engine: EmbeddedEngine) -> None:
    """Throw a code that nothing catches."""
    await engine.throw((await take(engine, "work")).key, code="too-late", message="the shop is closed")


async def find_no_way(engine: EmbeddedEngine) -> None:
    """Reach the gateway while its condition does not hold."""
    await engine.complete((await take(engine, "decide")).key, JobResult(flags={"orch_way": False}))


async def exhaust_listener(engine: EmbeddedEngine) -> None:
    """Let a listener fail for good."""
    await engine.fail((await take(engine, "heard")).key, retries=0, message="nothing listens")


CASES = (
    EngineCase("uncaught", alone, throw_uncaught, "UNHANDLED_ERROR_EVENT", "work", "too-late", "work"),
    EngineCase("gateway", without_a_way, find_no_way, "CONDITION_ERROR", "which", "no condition holds", "left"),
    EngineCase(
        "listener", with_listener, exhaust_listener, "EXECUTION_LISTENER_NO_RETRIES", "work", "nothing", "heard"
    ),
)
