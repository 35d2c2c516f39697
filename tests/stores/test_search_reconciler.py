"""The reconciler by search, on what a real 8.9.17 answered, over real sockets."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry, told
from tests.support.frames import ENGINE
from tests.support.gate_cases import GATE, review_registry
from tests.support.recorded_search import (
    CANCELLED,
    CONDITION,
    GATEWAY,
    JOB,
    MAIL,
    NATIVE,
    NO_RETRIES,
    UNHANDLED,
    WORK,
    RecordedCluster,
    recorded_item,
)
from tests.support.rest_replay import problem
from verblint.contracts.contract import Gate
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import EngineUnavailable, InstanceSuspended, JobGone, LeaseLost, NotOffered
from verbworker.runbook.event import Kind
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.overview import Overview, Trouble
from verbworker.stores.database import Database
from verbworker.work.gates.user_tasks import UserTaskJobs
from verbworker.work.listeners.job_handler import ListenerJobs
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.upkeep import search_reconciler
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.resolutions import Resolution, Resolutions
from verbworker.work.upkeep.search_reconciler import SearchReconciler

AT_ONCE = timedelta(0)
LISTENER = {"errorType": "EXECUTION_LISTENER_NO_RETRIES", "errorMessage": "nothing listens"}


class RecordedEngine(ZeebeEngine):
    """The cluster over REST, as recorded; whether an instance lives is what the test says, and failures are kept."""

    def __init__(self, address: GatewayAddress) -> None:
        super().__init__(address, engine_id=ENGINE)
        self.dead: set[int] = set()
        self.failed: list[tuple[int, int]] = []
        self.extended: list[tuple[int, int]] = []
        self.is_suspended = False
        self.leased: set[int] = set()

    async def alive(self, instance_key: int) -> bool:
        return instance_key not in self.dead

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        if self.is_suspended:
            raise InstanceSuspended("the process instance is suspended")
        if job_key in self.leased:
            raise LeaseLost("a matching lease token must be provided")
        self.failed.append((job_key, retries))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        self.extended.append((job_key, timeout_ms))


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=4) as database:
        yield database


@pytest.fixture
async def engine(cluster: RecordedCluster) -> AsyncIterator[RecordedEngine]:
    assert cluster.server is not None
    async with RecordedEngine(GatewayAddress(rest_url=cluster.server.url, transport="rest")) as engine:
        yield engine


@pytest.fixture
def reconciler(database: Database, engine: RecordedEngine) -> Reconciler:
    dispatches = Dispatches(database, engine_id=ENGINE, owner=uuid4())
    cancelling = Cancellation(database, dispatches, engine)
    return Reconciler(database, engine, cancelling, after=AT_ONCE, missed_for=AT_ONCE)


@pytest.fixture
def search(database: Database, engine: RecordedEngine, reconciler: Reconciler) -> SearchReconciler:
    return SearchReconciler(database, engine, reconciler, between_looks=AT_ONCE)


async def entry_of(database: Database, instance_key: int) -> StoredEntry:
    stored = await StoredEntry.open(database)
    await stored.start(instance_key)
    return stored


async def troubles(database: Database) -> list[Trouble]:
    return await Overview(database).troubles("default", without_entry=False)


CASES = [
    pytest.param(WORK, "search incidents: unhandled error", {}, UNHANDLED, id="uncaught"),
    pytest.param(GATEWAY, "search incidents: condition", {}, CONDITION, id="gateway"),
    pytest.param(WORK, "search incidents", LISTENER, NO_RETRIES, id="listener"),
]


@pytest.mark.parametrize(("instance_key", "name", "changes", "key"), CASES)
async def test_an_incident_of_the_engine_is_in_the_runbook_after_one_round(
    database: Database,
    cluster: RecordedCluster,
    search: SearchReconciler,
    instance_key: int,
    name: str,
    changes: dict[str, Any],
    key: int,
) -> None:
    stored = await entry_of(database, instance_key)
    item = {**recorded_item(name), **changes}
    cluster.incidents.append(item)

    first, second = await search.look(), await search.look()

    (trouble,) = await troubles(database)
    (parked,) = [event for event in await stored.events() if event.kind is Kind.PARKED]
    assert (first, second) == (1, 0)
    assert (await stored.entry()).status == "parked"
    assert (trouble.incident_key, trouble.incident_type, trouble.element_id, trouble.incident_text) == (
        key,
        item["errorType"],
        item["elementId"],
        item["errorMessage"],
    )
    assert told(parked, "wait", "incident_key", "code", "text") == {
        "wait": "incident",
        "incident_key": key,
        "code": item["errorType"],
        "text": item["errorMessage"],
    }
    assert cluster.asked("/v2/incidents/search")[0]["filter"] == {"state": "ACTIVE"}


async def test_incidents_of_other_applications_are_none_of_ours(
    database: Database, cluster: RecordedCluster, search: SearchReconciler
) -> None:
    stored = await entry_of(database, GATEWAY)
    cluster.incidents.append(recorded_item("search incidents"))

    assert await search.look() == 0
    assert (await stored.entry()).status == "executing"


async def test_an_answer_that_lags_closes_nothing_at_the_first_look(
    database: Database, cluster: RecordedCluster, search: SearchReconciler
) -> None:
    stored = await entry_of(database, GATEWAY)
    item = recorded_item("search incidents: condition")
    cluster.incidents.append(item)
    await search.look()

    cluster.incidents.clear()
    first = await search.look()
    status_after_first = (await stored.entry()).status
    cluster.incidents.append(item)
    await search.look()
    cluster.incidents.clear()
    again = await search.look()

    # Seen in between: the look before it does not count any more.
    assert (first, status_after_first, again) == (0, "parked", 0)
    assert (await stored.entry()).status == "parked"
    assert await search.look() == 1
    assert (await stored.entry()).status == "executing"
    assert (await stored.kinds())[-2:] == ["IncidentResolved", "Resumed"]


@pytest.mark.parametrize(("instance_key", "name", "changes", "key"), CASES)
async def test_resolving_is_recorded_with_its_reason_and_lets_the_case_go_on(
    database: Database,
    cluster: RecordedCluster,
    engine: RecordedEngine,
    search: SearchReconciler,
    instance_key: int,
    name: str,
    changes: dict[str, Any],
    key: int,
) -> None:
    stored = await entry_of(database, instance_key)
    cluster.incidents.append({**recorded_item(name), **changes, "incidentKey": str(NO_RETRIES)})
    await search.look()
    (trouble,) = await troubles(database)

    answer = await Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended", retries=1))
    lagging = await search.look()

    assert (answer.done, lagging) == (True, 0)  # the search shows it still, and that reopens nothing
    assert (await stored.entry()).status == "executing"
    assert await troubles(database) == []
    (asked,) = [event for event in await stored.events() if event.kind is Kind.RESOLVE_REQUESTED]
    assert told(asked, "by", "reason", "incident_key") == {"by": "ada", "reason": "mended", "incident_key": NO_RETRIES}
    assert cluster.server is not None
    resolved = f"POST /v2/incidents/{NO_RETRIES}/resolution"
    if trouble.job_key is None:
        assert cluster.server.paths()[-3:].count(resolved) == 1
    else:
        at = cluster.server.paths().index(resolved)
        assert cluster.server.paths()[at - 1] == f"PATCH /v2/jobs/{JOB}"


async def test_what_was_resolved_in_operate_is_settled_and_said(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, search: SearchReconciler
) -> None:
    stored = await entry_of(database, WORK)
    cluster.incidents.append(recorded_item("search incidents"))
    await search.look()
    (trouble,) = await troubles(database)
    await engine.resolve_incident(NO_RETRIES)

    answer = await Resolutions(database, engine, owner=uuid4()).resolve(trouble, Resolution("ada", "mended"))

    assert (answer.done, answer.sentence) == (True, "the engine had resolved it before")
    assert (await stored.entry()).status == "executing"


async def test_a_terminated_instance_ends_its_entry_with_the_reason_after_two_looks(
    database: Database,
    cluster: RecordedCluster,
    engine: RecordedEngine,
    reconciler: Reconciler,
    search: SearchReconciler,
) -> None:
    stored = await entry_of(database, CANCELLED)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cluster.instances.append({**recorded_item("search instance: cancelled"), "endDate": now})
    engine.dead.add(CANCELLED)

    await search.look()
    after_search = (await stored.entry()).status
    await reconciler.look()

    (cancelled,) = [event for event in await stored.events() if event.kind is Kind.CANCELLED]
    assert after_search == "executing"
    assert (await stored.entry()).status == "cancelled"
    assert cancelled.detail["reason"] == "ended outside: the instance was terminated in the engine"


async def test_a_completed_instance_ends_its_entry_with_the_reason_after_two_looks(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, reconciler: Reconciler
) -> None:
    stored = await entry_of(database, NATIVE)
    cluster.instances.append(recorded_item("search instance: completed"))
    engine.dead.add(NATIVE)

    await reconciler.look()
    after_first = (await stored.entry()).status
    await reconciler.look()

    (cancelled,) = [event for event in await stored.events() if event.kind is Kind.CANCELLED]
    assert (after_first, (await stored.entry()).status) == ("executing", "cancelled")
    assert cancelled.detail["reason"] == "ended outside: the engine completed the instance without a report to us"


async def test_a_search_alone_ends_nothing(
    database: Database, cluster: RecordedCluster, reconciler: Reconciler, search: SearchReconciler
) -> None:
    stored = await entry_of(database, CANCELLED)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cluster.instances.append({**recorded_item("search instance: cancelled"), "endDate": now})

    for _ in range(3):
        await search.look()
        await reconciler.look()

    assert (await stored.entry()).status == "executing"


async def test_a_user_task_without_a_gate_gets_one_and_it_is_decided_by_its_key(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, reconciler: Reconciler
) -> None:
    stored = await StoredEntry.open(database, verb="hall.review")
    await stored.start(NATIVE)
    asked = {"assignee": "ada", "priority": 70, "dueDate": "2030-01-31T12:00:00.000Z", "externalFormReference": "paper"}
    cluster.user_tasks.append({**recorded_item("search user tasks of an instance"), **asked})
    registry = review_registry(gate=Gate(GATE, "review", ("approve", "reject"), "reviewer"))
    identity = InstanceIdentity(Instances(database), engine)
    tasks = UserTaskJobs(registry, engine, database, ListenerJobs(database, engine, identity))
    search = SearchReconciler(database, engine, reconciler, open_gate=tasks.open_found)

    await search.look()
    await search.look()

    (gate,) = await GateStore(database).gates("default")
    assert (gate.gate, gate.user_task_key, gate.decisions) == (GATE, 2251799813685327, ("approve", "reject"))
    assert {name: value for name, value in gate.detail.items() if name != "decisions"} == {
        "assignee": "ada",
        "audience": ["reviewer"],
        "groups": ["reviewers"],
        "due": "2030-01-31T12:00Z",
        "priority": "70",
        "form": "paper",
    }
    assert (gate.claimed_by, gate.engine_assignee) == ("ada", "ada")
    assert (await stored.entry()).status == "parked"
    assert len([event for event in await stored.events() if event.kind is Kind.PARKED]) == 1


async def stand_still(stored: StoredEntry) -> None:
    """Name the entry as one that stands still."""
    await stored.value(
        """INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)
        VALUES ($1, 'job', '', 'default', $2, clock_timestamp(), 1, 'still', 'wait') RETURNING 1""",
        stored.entry_id,
        ENGINE,
    )


async def test_a_case_that_stands_still_because_its_instance_is_suspended_says_so(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, search: SearchReconciler
) -> None:
    stored = await entry_of(database, WORK)
    cluster.jobs.append({**recorded_item("search jobs"), "state": "CREATED", "retries": 2, "deadline": None})
    await stand_still(stored)
    engine.is_suspended = True

    await search.look()

    assert (await stored.entry()).status == "parked"
    assert [wait.reason for wait in await stored.runbook.waits(stored.entry_id)] == ["Suspended in the engine"]


async def test_many_open_incidents_do_not_hide_one_that_was_resolved(
    database: Database, cluster: RecordedCluster, search: SearchReconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_reconciler, "_BATCH", 1)
    stored_entries = [await entry_of(database, GATEWAY), await entry_of(database, WORK)]
    items = [recorded_item("search incidents: condition"), recorded_item("search incidents")]
    for item in items:
        cluster.incidents.append(item)
        await search.look()

    cluster.incidents.remove(items[1])
    await search.look()
    await search.look()

    assert [(await stored.entry()).status for stored in stored_entries] == ["parked", "executing"]


async def test_a_job_that_stays_locked_is_handed_out_again_once(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, search: SearchReconciler
) -> None:
    stored = await entry_of(database, WORK)
    job = recorded_item("search jobs")
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    future = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    cluster.jobs += [
        {**job, "state": "CREATED", "retries": 2, "deadline": past},
        {**job, "jobKey": "7", "state": "TIMED_OUT", "retries": 1, "deadline": None},
        {**job, "jobKey": "8", "state": "CREATED", "retries": 2, "deadline": future},
        {**job, "jobKey": "9", "state": "COMPLETED", "retries": 2, "deadline": past},
        job,
    ]
    await search.look()
    before = list(engine.failed)
    await stand_still(stored)

    await search.look()
    await search.look()

    assert (before, sorted(engine.failed)) == ([], [(7, 1), (JOB, 2)])


async def test_a_completed_instance_of_a_case_that_stands_still_is_found_by_search(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine
) -> None:
    cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
    # It would look by itself only after an hour.
    reconciler = Reconciler(database, engine, cancelling, after=timedelta(hours=1), missed_for=AT_ONCE)
    search = SearchReconciler(database, engine, reconciler, between_looks=AT_ONCE)
    stored, going_on = await entry_of(database, NATIVE), await entry_of(database, WORK)
    cluster.instances.append(recorded_item("search instance: completed"))
    for one in (stored, going_on):
        await stand_still(one)
    engine.dead.add(NATIVE)

    await search.look()
    after_search = (await stored.entry()).status
    await reconciler.look()

    assert after_search == "executing"
    assert [(await one.entry()).status for one in (stored, going_on)] == ["cancelled", "executing"]


async def test_a_leased_job_that_stays_locked_is_delivered_again_under_a_new_token(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, search: SearchReconciler
) -> None:
    """8.10 refuses a failure without the token of the delivery, and takes the shortest timeout without one."""
    stored = await entry_of(database, WORK)
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    cluster.jobs.append({**recorded_item("search jobs"), "state": "CREATED", "retries": 2, "deadline": past})
    engine.leased.add(JOB)
    await stand_still(stored)

    await search.look()
    await search.look()

    assert (engine.failed, engine.extended) == ([], [(JOB, 1)])
    assert search.service.health.last_error is None


async def test_where_a_case_is_comes_from_elements_and_subscriptions(
    cluster: RecordedCluster, engine: RecordedEngine
) -> None:
    cluster.elements.append(recorded_item("search element instances (where it stands)"))
    cluster.subscriptions.append(recorded_item("search message subscriptions"))

    (gateway,), (mail,) = await engine.waits(GATEWAY), await engine.waits(MAIL)

    assert (gateway.element_id, gateway.type, gateway.message_name) == ("g", "EXCLUSIVE_GATEWAY", None)
    assert gateway.since is not None
    assert (mail.element_id, mail.message_name, mail.correlation_key) == ("c", "papers", "c-1")


@pytest.mark.parametrize(
    "refusal", [problem(403, "FORBIDDEN"), problem(404, "NOT_FOUND"), problem(405, "METHOD_NOT_ALLOWED")]
)
async def test_a_cluster_without_search_is_left_alone(
    database: Database, cluster: RecordedCluster, engine: RecordedEngine, search: SearchReconciler, refusal: Any
) -> None:
    await entry_of(database, WORK)
    cluster.refusal = refusal

    with pytest.raises(NotOffered, match="offers no search"):
        await engine.incidents()
    assert cluster.server is not None
    before = len(cluster.server.seen)
    assert (await search.look(), await search.look()) == (0, 0)
    assert len(cluster.server.seen) == before + 2  # two searches decide, and are not asked over and over


async def test_without_a_rest_address_there_is_no_search() -> None:
    async with ZeebeEngine(GatewayAddress(rest_url=None), engine_id=ENGINE) as engine:
        with pytest.raises(NotOffered, match="ZEEBE_REST_ADDRESS"):
            await engine.incidents()


async def test_an_item_that_cannot_be_read_is_no_answer(cluster: RecordedCluster, engine: RecordedEngine) -> None:
    cluster.incidents.append({**recorded_item("search incidents"), "incidentKey": "many"})

    with pytest.raises(EngineUnavailable, match="cannot be read"):
        await engine.incidents()


async def test_many_instances_are_asked_for_in_portions(cluster: RecordedCluster, engine: RecordedEngine) -> None:
    cluster.jobs.append({**recorded_item("search jobs"), "retries": 1})

    found = await engine.open_jobs([*range(1, 250), WORK])

    bodies = cluster.asked("/v2/jobs/search")
    assert [one.job_key for one in found] == [JOB]
    assert sorted(len(body["filter"]["processInstanceKey"]["$in"]) for body in bodies) == [50, 100, 100]
    assert all(body["page"] == {"limit": 100} for body in bodies)


async def test_resolving_twice_says_that_it_is_gone(engine: RecordedEngine) -> None:
    await engine.resolve_incident(NO_RETRIES)

    with pytest.raises(JobGone):
        await engine.resolve_incident(NO_RETRIES)
