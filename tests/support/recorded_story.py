"""The 69 exchanges recorded from 8.9.17, each with the call of our engine that makes the request, or why none does.

`ours` turns the recorded body into the one that we send, where they differ; `why` gives the reason. Otherwise the bytes
are the recorded ones.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verbworker.engine.protocol import Ask, InstanceState, Resource, Signal, Start
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import CommandInvalid, JobGone, JobNotActive, TaskTaken
from verbworker.job.outcome import JobResult

MODEL = b"<bpmn/>"

Body = Mapping[str, Any]
Send = Callable[[ZeebeEngine], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class OurCall:
    """A call of our engine: what it gives for the recorded answer, and how its body differs from the recorded one."""

    send: Send
    gives: object = None  # a value, or the class of an error
    why: str = ""
    ours: Callable[[Body], Body] | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """A request that our client does not make."""

    why: str


GATE_NATIVE, WORK, MAIL = 2251799813685318, 2251799813685354, 2251799813685392
FIRST, SECOND = 2251799813685319, 2251799813685339
IN_INCIDENT, WITHOUT_WAY, COMPLETED, LISTENS = 2251799813685355, 2251799813685366, 2251799813685378, 2251799813685393
JOB, INCIDENT = 2251799813685360, 2251799813685363
TASK = 2251799813685327


# ---- calls -----------------------------------------------------------------------------------------------------------


def facts() -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        found = await engine.facts()
        return found.version, found.brokers, found.partitions

    return OurCall(send, ("8.9.17", 1, 1))


def deploy(name: str, key: int | None) -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        (deployed,) = await engine.deploy([Resource(f"{name}.bpmn", MODEL)])
        return deployed.process_id, deployed.version, deployed.definition_key

    return OurCall(send, CommandInvalid if key is None else (name, 1, key))


def start(process: str, variables: Body, instance_key: int, *, definition_key: int | None = None) -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        return (await engine.start(Start(process, variables, definition_key=definition_key))).instance_key

    if definition_key is not None:
        return OurCall(send, instance_key)
    why = "names the version (-1 is the latest), and no tags"
    return OurCall(send, instance_key, why, _with_version)


def take(
    job_type: str, job_key: int, retries: int = 3, *, limit: int = 5, ms: int = 60_000, names: Any = ()
) -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        return [(job.key, job.retries) for job in await engine.activate(Ask(job_type, "w", ms, names), limit, 0)]

    why = "does not wait in the gateway (-1) but between its polls"
    return OurCall(send, [(job_key, retries)], why, lambda body: {**body, "requestTimeout": -1})


def take_work(job_key: int, retries: int = 3) -> OurCall:
    return take("x.do", job_key, retries, limit=1, ms=30_000)


def complete(key: int, variables: Body | None = None, *, gives: object = None, is_same: bool = False) -> OurCall:
    def send(engine: ZeebeEngine) -> Awaitable[None]:
        return engine.complete(key, JobResult(flags=variables or {}))

    if is_same:
        return OurCall(send, gives)
    return OurCall(send, gives, "always names the variables; no result is the default", lambda _: {"variables": {}})


def fail(key: int, retries: int, message: str, backoff_ms: int = 0, *, gives: object = None) -> OurCall:
    def send(engine: ZeebeEngine) -> Awaitable[None]:
        return engine.fail(key, retries=retries, message=message, backoff_ms=backoff_ms)

    if backoff_ms:
        return OurCall(send, gives)
    named = {"retries": retries, "errorMessage": message, "retryBackOff": 0}
    return OurCall(send, gives, "always names the message and the backoff", lambda _: named)


def finish_task(key: int, *, gives: object = None) -> OurCall:
    why = "names our action, by which our listener knows it, and no variables"
    return OurCall(lambda engine: engine.complete_user_task(key), gives, why, lambda _: {"action": "verbworker"})


def assign(person: str, *, gives: object = None) -> OurCall:
    why = "names our action, by which our listener knows it"
    return OurCall(
        lambda engine: engine.assign_user_task(TASK, person), gives, why, lambda body: {**body, "action": "verbworker"}
    )


def states(key: int, state: InstanceState) -> OurCall:
    return OurCall(lambda engine: engine.instance_states([key]), {key: state}, *_PAGED)


def incidents(instance_key: int, incident_key: int, *, is_same_filter: bool = True) -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        return [found.incident_key for found in await engine.incidents([instance_key])]

    if is_same_filter:
        return OurCall(send, [incident_key], *_PAGED)
    why = "asks for active ones, in pages of 100"
    return OurCall(send, [incident_key], why, lambda body: _paged({"filter": {**body["filter"], "state": "ACTIVE"}}))


def user_tasks() -> OurCall:
    async def send(engine: ZeebeEngine) -> Any:
        return [(found.user_task_key, found.element_id) for found in await engine.user_tasks([FIRST])]

    return OurCall(send, [(TASK, "review")], *_PAGED)


def jobs() -> OurCall:
    # The recorded job has no retries left, so none can run.
    return OurCall(lambda engine: engine.open_jobs([IN_INCIDENT]), [], *_PAGED)


def correlate(key: str, gives: object) -> OurCall:
    return OurCall(lambda engine: engine.correlate("papers", key, {}), gives)


def publish() -> OurCall:
    # 409 means that the message is there already, which is what was wanted.
    return OurCall(lambda engine: engine.publish(Signal("papers", "c-2", "m-1", 60_000, {})))


def resolve(*, gives: object = None) -> OurCall:
    return OurCall(lambda engine: engine.resolve_incident(INCIDENT), gives)


def _with_version(body: Body) -> Body:
    process, variables = body["processDefinitionId"], body["variables"]
    return {"processDefinitionId": process, "processDefinitionVersion": -1, "variables": variables}


def _paged(body: Body) -> Body:
    return {**body, "page": {"limit": 100}}


_PAGED = ("asks for pages of 100", _paged)


# ---- the story -------------------------------------------------------------------------------------------------------

STORY: tuple[tuple[str, OurCall | NotSent], ...] = (
    ("topology", facts()),
    ("license", NotSent("nothing depends on the licence")),
    ("status", NotSent("topology answers the same question, and names the version")),
    ("deploy native user task with listeners", deploy("gate-native", GATE_NATIVE)),
    ("create instance by id", start("gate-native", {"vw_entry_id": "e-1", "orch_x": "a"}, FIRST)),
    ("activate listener job (creating)", take("vw.creating", 2251799813685328, names=("vw_entry_id",))),
    ("complete creating listener", complete(2251799813685328)),
    ("search user tasks of an instance", user_tasks()),
    ("get user task", NotSent("a task's facts come with its listener's job, or from the search")),
    ("assign", assign("ada")),
    ("assign again without override", assign("bob", gives=TaskTaken)),
    ("unassign", OurCall(lambda engine: engine.unassign_user_task(TASK))),
    ("activate listener job (completing)", take("vw.completing", 2251799813685333)),
    ("complete completing listener", complete(2251799813685333)),
    ("complete user task (waits for its listener)", finish_task(TASK)),
    ("complete user task again", finish_task(TASK, gives=JobGone)),
    ("complete unknown user task", finish_task(2251799813699999, gives=JobGone)),
    ("search instance: completed", states(FIRST, InstanceState.COMPLETED)),
    ("create instance by key", start("", {"vw_entry_id": "e-2"}, SECOND, definition_key=GATE_NATIVE)),
    ("activate creating 2", take("vw.creating", 2251799813685347)),
    ("complete creating 2", complete(2251799813685347)),
    ("cancel instance", OurCall(lambda engine: engine.cancel(SECOND))),
    ("activate canceling listener", take("vw.canceling", 2251799813685351)),
    ("complete canceling listener", complete(2251799813685351)),
    ("search instance: cancelled", states(SECOND, InstanceState.TERMINATED)),
    ("cancel again", OurCall(lambda engine: engine.cancel(SECOND), JobGone)),
    ("deploy work", deploy("work", WORK)),
    ("create work", start("work", {}, IN_INCIDENT)),
    ("activate x.do", take_work(JOB)),
    ("update job timeout", OurCall(lambda engine: engine.extend(JOB, 60_000))),
    ("fail job, retries left", fail(JOB, 2, "try again", 500)),
    ("complete a job in backoff", complete(JOB, is_same=True, gives=JobNotActive)),
    ("activate x.do", take_work(JOB, 2)),
    ("fail job, none left", fail(JOB, 0, "out of retries")),
    ("search incidents", incidents(IN_INCIDENT, INCIDENT)),
    ("search jobs", jobs()),
    ("update retries", OurCall(lambda engine: engine.release(JOB, retries=1))),
    ("resolve incident", resolve()),
    ("resolve again", resolve(gives=JobGone)),
    ("activate x.do", take_work(JOB, 1)),
    (
        "throw an error nobody catches",
        OurCall(lambda engine: engine.throw(JOB, code="no-catch", message="rejected")),
    ),
    ("search incidents: unhandled error", incidents(IN_INCIDENT, 2251799813685365)),
    ("create work", start("work", {}, WITHOUT_WAY)),
    ("activate x.do", take_work(2251799813685371)),
    ("complete without the flag", complete(2251799813685371, {"orch_ok": None}, is_same=True)),
    ("search incidents: condition", incidents(WITHOUT_WAY, 2251799813685377, is_same_filter=False)),
    (
        "search element instances (where it stands)",
        NotSent("sent with the search of subscriptions, by `waits`: its own test"),
    ),
    ("element incidents of an instance", NotSent("the search of all incidents has the same items")),
    ("get instance", NotSent("it lags as a search does; a command tells whether an instance lives")),
    ("get unknown instance", NotSent("it lags as a search does; a command tells whether an instance lives")),
    ("create work", start("work", {}, COMPLETED)),
    ("activate x.do", take_work(2251799813685383)),
    ("complete", complete(2251799813685383, {"orch_ok": True}, is_same=True)),
    ("complete again", complete(2251799813685383, gives=JobGone)),
    ("fail a completed job", fail(2251799813685383, 1, "late", gives=JobGone)),
    ("complete a job with a key of no partition", complete(42, gives=JobGone)),
    ("deploy mail", deploy("mail", MAIL)),
    ("create mail", start("mail", {"corr_case": "c-1"}, LISTENS)),
    ("search message subscriptions", NotSent("sent with the search of elements, by `waits`: its own test")),
    ("correlate: nobody waits", correlate("c-9", None)),
    ("correlate", correlate("c-1", LISTENS)),
    ("publish", publish()),
    ("publish the same id", publish()),
    ("search correlated", NotSent("a message counts as read when its wait ends, which a listener reports")),
    ("search variables", NotSent("the engine carries no domain data, so there is nothing to look for")),
    ("bad request", NotSent("a poll always names its timeout and its limit")),
    ("deploy refused", deploy("bad", None)),
    ("search process definitions", NotSent("deployments are recorded in Postgres")),
    ("page by cursor", NotSent("searches are paged in the cluster's own order: `test_a_search_follows_its_cursor`")),
)


def render_table() -> str:
    """The story as a table for readers."""
    lines = ["| # | recorded | our client |", "|---|---|---|"]
    for number, (name, call) in enumerate(STORY):
        said = f"not sent: {call.why}" if isinstance(call, NotSent) else call.why or "the same bytes"
        lines.append(f"| {number} | {name} | {said} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render_table())
