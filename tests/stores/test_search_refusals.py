"""A cluster that refuses filters of our searches: cancellations made there are still found, and the doctor says so."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_search import CANCELLED, WORK, recorded_item
from tests.support.strict_search import StrictCluster, strict_cluster
from verbworker.app.settings import Settings
from verbworker.doctor.engine import apis
from verbworker.doctor.subject import Subject
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
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

    def __init__(self, engine: ZeebeEngine) -> None:
        super().__init__(Settings.model_validate({"engine_id": ENGINE}), app=None, models=())
        self._engine = engine


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


async def test_a_cancellation_is_found_although_its_filter_is_refused(
    dsn: str, cluster: StrictCluster, engine: ZeebeEngine
) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cancelled = {**recorded_item("search instance: cancelled"), "endDate": now}
    cluster.items.instances = [cancelled, recorded_item("search instance: completed")]
    cluster.forbids = ends
    async with Database(dsn, size=4) as database:
        book, other = [await StoredEntry.open(database) for _ in range(2)]
        await book.start(CANCELLED)
        await other.start(WORK)
        cancelling = Cancellation(database, Dispatches(database, engine_id=ENGINE, owner=uuid4()), engine)
        # It would look by itself only after an hour: what it finds is what the search found.
        reconciler = Reconciler(database, engine, cancelling, after=timedelta(hours=1), missed_for=AT_ONCE)
        search = SearchReconciler(database, engine, reconciler, between_looks=AT_ONCE)

        for _ in range(2):
            await search.look()
            await reconciler.look()

        assert ((await book.entry()).status, (await other.entry()).status) == ("cancelled", "executing")


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
