"""A cluster that refuses filters of our searches: cancellations made there are still found, and the doctor says so."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_search import CANCELLED, WORK, recorded_item
from tests.support.rest_replay import problem
from tests.support.strict_search import StrictCluster, strict_cluster
from verbworker.app.settings import Settings
from verbworker.doctor.engine import apis
from verbworker.doctor.search_check import see_cases
from verbworker.doctor.subject import Subject
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.metrics import REGISTRY
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.search_reconciler import SearchReconciler

AT_ONCE = timedelta(0)


class CancelledThere(ZeebeEngine):
    """The cluster over REST, where one instance is gone."""

    async def alive(self, instance_key: int) -> bool:
        return instance_key != CANCELLED


class SubjectOf(Subject):
    """What the doctor looks at, with this engine."""

    def __init__(self, engine: ZeebeEngine, database: Database | None = None) -> None:
        super().__init__(Settings.model_validate({"engine_id": ENGINE}), app=None, models=())
        self._engine, self._database = engine, database


def ends(_: str, body: Mapping[str, Any]) -> str | None:
    """The filter that was not recorded: ends since a moment."""
    return "filter.endDate" if "endDate" in body.get("filter", {}) else None


@pytest.fixture
def cluster() -> Iterator[StrictCluster]:
    with strict_cluster("8.9") as cluster:
        yield cluster


@pytest.fixture
async def engine(cluster: StrictCluster) -> AsyncIterator[ZeebeEngine]:
    assert cluster.server is not None
    address = GatewayAddress(rest_url=cluster.server.url, transport="rest")
    async with CancelledThere(address, engine_id=ENGINE) as engine:
        yield engine


def whole(path: str) -> Callable[[str, Mapping[str, Any]], str | None]:
    """Every form of one search."""
    return lambda asked, _: "filter" if asked == path else None


def cancel_there(cluster: StrictCluster) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cancelled = {**recorded_item("search instance: cancelled"), "endDate": now}
    cluster.items.instances = [cancelled, recorded_item("search instance: completed")]


def refused(search: str, extent: str) -> float | None:
    return REGISTRY.get_sample_value("verbworker_search_refused", {"search": search, "extent": extent})


@asynccontextmanager
async def comparing(dsn: str, engine: ZeebeEngine) -> AsyncIterator[tuple[Database, SearchReconciler, Reconciler]]:
    async with Database(dsn, size=4) as database:
        cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
        # It would look by itself only after an hour: what it finds is what the search found.
        reconciler = Reconciler(database, engine, cancelling, after=timedelta(hours=1), missed_for=AT_ONCE)
        yield database, SearchReconciler(database, engine, reconciler, between_looks=AT_ONCE), reconciler


async def test_a_cancellation_is_found_although_its_filter_is_refused(
    dsn: str, cluster: StrictCluster, engine: ZeebeEngine
) -> None:
    cancel_there(cluster)
    cluster.forbids = ends
    async with comparing(dsn, engine) as (database, search, reconciler):
        book, other = [await StoredEntry.open(database) for _ in range(2)]
        await book.start(CANCELLED)
        await other.start(WORK)

        for _ in range(2):
            await search.look()
            await reconciler.look()

        assert ((await book.entry()).status, (await other.entry()).status) == ("cancelled", "executing")
    assert (refused("terminations", "filter"), refused("terminations", "all")) == (1, 0)
    assert search.service.health.limits == {}  # it takes longer, and nothing is missed


@pytest.mark.parametrize("status", [400, 403])
async def test_where_one_search_is_refused_the_others_go_on_and_it_is_said_once(
    dsn: str, cluster: StrictCluster, engine: ZeebeEngine, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    cancel_there(cluster)
    path = "/v2/incidents/search"
    cluster.forbids = whole(path)
    cluster.refusal = problem(status, "FORBIDDEN" if status == 403 else "Bad Request", "no incidents for this client")
    async with comparing(dsn, engine) as (database, search, reconciler):
        book = await StoredEntry.open(database)
        await book.start(CANCELLED)

        for _ in range(2):
            await search.look()
            await reconciler.look()

        assert (await book.entry()).status == "cancelled"
        assert search.service.health.limits == {"incidents": "refused by the engine"}
        (said,) = [one for one in caplog.records if one.message == "a search is refused; what it would find is missed"]
        assert said.__dict__["search"] == "incidents"
        assert "no incidents for this client" in said.__dict__["reason"]
        assert refused("incidents", "all") == 1


async def test_a_search_that_is_allowed_again_is_said_and_no_limit_any_more(
    dsn: str, cluster: StrictCluster, engine: ZeebeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.forbids = whole("/v2/incidents/search")
    cluster.refusal = problem(403, "FORBIDDEN")
    async with comparing(dsn, engine) as (_, search, _unused):
        await search.look()
        cluster.refusal, cluster.forbids = None, lambda *_: None
        with caplog.at_level("INFO"):
            await search.look()

        assert search.service.health.limits == {}
        assert [one.message for one in caplog.records].count("a search is taken again") == 1
        assert refused("incidents", "all") == 0


async def test_a_cluster_without_any_search_is_one_limit(dsn: str, cluster: StrictCluster, engine: ZeebeEngine) -> None:
    cluster.forbids = lambda *_: "filter"
    cluster.refusal = problem(403, "FORBIDDEN", "no secondary storage")
    async with comparing(dsn, engine) as (_, search, _unused):
        await search.look()

        assert search.service.health.limits == {"": "the engine offers no search"}


async def test_the_doctor_names_a_search_that_is_refused_as_a_whole(
    cluster: StrictCluster, engine: ZeebeEngine
) -> None:
    cluster.forbids = whole("/v2/incidents/search")
    cluster.refusal = problem(403, "FORBIDDEN", "no incidents for this client")

    (found,) = await apis(SubjectOf(engine))

    assert found.verdict == "warn"
    assert "search yes" in found.found
    assert "refused: incidents: " in found.found
    assert "no incidents for this client" in found.found
    assert "READ_PROCESS_INSTANCE" in found.fix


@pytest.mark.parametrize("sees", ["both", "one", "none"])
async def test_the_doctor_notices_a_search_that_does_not_see_our_cases(
    dsn: str, cluster: StrictCluster, engine: ZeebeEngine, sees: str
) -> None:
    """Without the permission a cluster answers a search with fewer items, or with none, and with no error."""
    shown = {"both": (WORK, CANCELLED), "one": (WORK,), "none": ()}[sees]
    item = recorded_item("search instance: completed")
    cluster.items.instances = [{**item, "state": "ACTIVE", "processInstanceKey": str(key)} for key in shown]
    async with Database(dsn, size=2) as database:
        unasked = await see_cases(SubjectOf(engine, database))
        for key in (WORK, CANCELLED):
            await (await StoredEntry.open(database)).start(key)
        fresh = await see_cases(SubjectOf(engine, database))
        await database.execute("UPDATE verbworker.workflow_instance SET created_at = now() - interval '1 hour'")

        (found,) = await see_cases(SubjectOf(engine, database))

    assert (unasked, fresh) == ([], [])
    assert found.verdict == ("warn" if sees == "none" else "ok")
    assert found.found.startswith(f"the search sees {len(shown)} of 2 running cases")
    assert ("READ_PROCESS_INSTANCE" in found.fix) == (sees == "none")


async def test_the_doctor_names_what_the_cluster_refuses(cluster: StrictCluster, engine: ZeebeEngine) -> None:
    (well,) = await apis(SubjectOf(engine))
    cluster.forbids = ends
    async with ZeebeEngine(GatewayAddress(rest_url=rest(cluster), transport="rest"), engine_id=ENGINE) as later:
        (refused,) = await apis(SubjectOf(later))

    assert (well.verdict, refused.verdict) == ("ok", "warn")
    assert "refused: terminations: Zeebe refused a search (400 Bad Request): Request property" in refused.found
    assert "filtered here" in refused.fix


def rest(cluster: StrictCluster) -> str:
    assert cluster.server is not None
    return cluster.server.url
