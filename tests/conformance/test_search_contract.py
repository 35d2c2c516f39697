"""Searches against what 8.8, 8.9 and 8.10 document, against clusters that refuse parts of them, and page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.rest_replay import Answer, Seen, problem, rest_server
from tests.support.strict_search import VERSIONS, StrictCluster, copies, strict_cluster
from verbworker.engine.protocol import InstanceState
from verbworker.engine.zeebe import search as searches
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import AccessDenied, EngineUnavailable, NotOffered, SearchRefused

SINCE = datetime(2026, 11, 17, 6, 0, tzinfo=UTC)
MANY = 220  # half of which are of interest: more than one page


@asynccontextmanager
async def engine_of(cluster: StrictCluster) -> AsyncIterator[ZeebeEngine]:
    assert cluster.server is not None
    address = GatewayAddress(rest_url=cluster.server.url, transport="rest", call_timeout_s=60.0)
    async with ZeebeEngine(address, engine_id="test") as engine:
        yield engine


@pytest.fixture(params=VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[StrictCluster]:
    """A cluster of each version with many cases; every second one is of interest."""
    with strict_cluster(request.param) as cluster:
        fill(cluster)
        yield cluster


def fill(cluster: StrictCluster) -> None:
    def key(number: int) -> str:
        return str(1000 + number)

    def either(one: str, other: str) -> Callable[[int], str]:
        return lambda number: other if number % 2 else one

    items = cluster.items
    own = {"processInstanceKey": key}
    items.incidents = copies("search incidents", MANY, incidentKey=key, state=either("ACTIVE", "RESOLVED"), **own)
    items.jobs = copies(
        "search jobs", MANY, jobKey=key, retries=lambda _: 1, state=either("FAILED", "COMPLETED"), **own
    )
    items.user_tasks = copies(
        "search user tasks of an instance", MANY, userTaskKey=key, state=either("CREATED", "COMPLETED"), **own
    )
    items.instances = copies(
        "search instance: cancelled", MANY, endDate=ended, state=either("TERMINATED", "COMPLETED"), **own
    )
    items.elements = copies("search element instances (where it stands)", 2, **own)
    items.subscriptions = copies("search message subscriptions", 2, **own)


def ended(number: int) -> str:
    """The first hundred ended before, the others after."""
    return (SINCE + timedelta(minutes=number - 100)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


OF_INTEREST = [1000 + number for number in range(0, MANY, 2)]
ENDED_LATELY = [key for key in OF_INTEREST if key >= 1100]
KEYS: dict[str, list[int]] = {
    "one": [1000],
    "few": [1000, 1002, 1003],
    "many": list(range(1000, 1110)),  # more than fit into one filter
}


def of_interest(keys: list[int]) -> list[int]:
    return [key for key in OF_INTEREST if not keys or key in keys]


async def incidents(engine: ZeebeEngine, keys: list[int]) -> list[int]:
    return sorted(one.incident_key for one in await engine.incidents(keys))


async def user_tasks(engine: ZeebeEngine, keys: list[int]) -> list[int]:
    return sorted(one.user_task_key for one in await engine.user_tasks(keys))


async def jobs(engine: ZeebeEngine, keys: list[int]) -> list[int]:
    return sorted(one.job_key for one in await engine.open_jobs(keys))


async def terminated(engine: ZeebeEngine, keys: list[int]) -> list[int]:
    states = await engine.instance_states(keys)
    return sorted(key for key, state in states.items() if state is InstanceState.TERMINATED)


KEYED: dict[str, Callable[[ZeebeEngine, list[int]], Awaitable[list[int]]]] = {
    "incidents": incidents,
    "user tasks": user_tasks,
    "jobs": jobs,
    "instances": terminated,
}


@pytest.mark.parametrize("some", KEYS)
@pytest.mark.parametrize("kind", KEYED)
async def test_every_search_is_one_that_the_version_documents(cluster: StrictCluster, kind: str, some: str) -> None:
    async with engine_of(cluster) as engine:
        assert await KEYED[kind](engine, KEYS[some]) == of_interest(KEYS[some])


async def test_searches_over_everything_are_documented_too(
    cluster: StrictCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine_of(cluster) as engine:
        assert await incidents(engine, []) == OF_INTEREST
        assert await user_tasks(engine, []) == OF_INTEREST
        assert sorted(await engine.terminations(SINCE)) == ENDED_LATELY
        assert [one.element_id for one in await engine.waits(1000)] == ["g", "c"]

    assert refusals(caplog) == []


# ---- refusals --------------------------------------------------------------------------------------------------------


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        f"{record.__dict__['search']} {record.__dict__['reason']}"
        for record in caplog.records
        if record.message == "search refused"
    ]


def operators(_: str, body: Mapping[str, Any]) -> str | None:
    """A cluster that takes no operator in any filter."""
    return next((f"filter.{name}" for name, value in body.get("filter", {}).items() if isinstance(value, dict)), None)


def filters(path: str, body: Mapping[str, Any]) -> str | None:
    """A cluster that takes no filter and no order."""
    return next((name for name in ("filter", "sort") if body.get(name)), None)


def everything(_: str, __: Mapping[str, Any]) -> str | None:
    """A cluster whose searches have another form altogether."""
    return "page"


FORBIDDEN = {"operators": operators, "filters": filters}


@pytest.mark.parametrize("forbidden", FORBIDDEN)
async def test_what_a_cluster_refuses_to_filter_is_filtered_here(
    forbidden: str, caplog: pytest.LogCaptureFixture
) -> None:
    with strict_cluster("8.9") as cluster:
        fill(cluster)
        cluster.forbids = FORBIDDEN[forbidden]
        async with engine_of(cluster) as engine:
            for _ in range(2):
                assert sorted(await engine.terminations(SINCE)) == ENDED_LATELY
                assert sorted(await engine.instance_states([1000, 1001])) == [1000, 1001]
                for kind, some in (("incidents", "few"), ("user tasks", "few"), ("jobs", "few")):
                    assert await KEYED[kind](engine, KEYS[some]) == of_interest(KEYS[some])

    told = refusals(caplog)
    assert len(told) == len(set(told))
    assert all("400 Bad Request" in one and "cannot be parsed" in one for one in told)
    assert any(one.startswith("terminations ") for one in told)


async def test_a_refused_form_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    with strict_cluster("8.9") as cluster:
        cluster.forbids = operators
        async with engine_of(cluster) as engine:
            for _ in range(3):
                await engine.terminations(SINCE)

    assert [bool(operators("", body)) for body in cluster.asked("/process-instances/search")] == [True] + [False] * 3
    assert len(refusals(caplog)) == 1


async def test_an_upgraded_cluster_is_asked_exactly_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "_SIMPLER_FOR_S", 0.0)
    with strict_cluster("8.9") as cluster:
        fill(cluster)
        cluster.forbids = operators
        async with engine_of(cluster) as engine:
            await engine.terminations(SINCE)
            cluster.forbids = lambda path, body: None
            assert sorted(await engine.terminations(SINCE)) == ENDED_LATELY

    assert [bool(operators("", body)) for body in cluster.asked("/process-instances/search")] == [True, False, True]
    assert len(refusals(caplog)) == 1


async def test_of_a_long_history_only_the_latest_ends_are_read() -> None:
    with strict_cluster("8.9") as cluster:
        cluster.items.instances = copies(
            "search instance: cancelled",
            2000,
            processInstanceKey=lambda number: str(number + 1),
            endDate=lambda number: ended(number - 1800),
        )
        cluster.forbids = operators
        async with engine_of(cluster) as engine:
            found = await engine.terminations(SINCE)

    assert sorted(found) == list(range(1901, 2001))
    assert len(cluster.asked("/process-instances/search")) == 3  # one was refused


async def test_where_every_form_is_refused_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with strict_cluster("8.9") as cluster:
        cluster.forbids = everything
        async with engine_of(cluster) as engine:
            for _ in range(3):
                with pytest.raises(SearchRefused, match="400 Bad Request"):
                    await engine.terminations(SINCE)

    assert len(cluster.asked("/process-instances/search")) == 3  # each form once
    assert len(refusals(caplog)) == 1


async def test_a_search_that_is_cut_off_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "_MOST_ITEMS", 100)
    with strict_cluster("8.9") as cluster:
        fill(cluster)
        async with engine_of(cluster) as engine:
            assert len(await engine.incidents()) == 100
            assert len(await engine.incidents()) == 100

    assert [one.message for one in caplog.records].count("a search found more than is read") == 1


# ---- what a cluster offers -------------------------------------------------------------------------------------------


async def test_a_cluster_that_takes_every_search_has_no_refusals(cluster: StrictCluster) -> None:
    async with engine_of(cluster) as engine:
        offers = await engine.offers()

    assert (offers.search.is_there, offers.refused_searches) == (True, ())


async def test_refused_searches_are_part_of_what_a_cluster_offers() -> None:
    with strict_cluster("8.9") as cluster:
        cluster.forbids = operators
        async with engine_of(cluster) as engine:
            offers = await engine.offers()

    assert offers.search.is_there
    assert [one.partition(":")[0] for one in offers.refused_searches] == ["terminations", "jobs", "instances"]
    assert all("400 Bad Request" in one for one in offers.refused_searches)


# ---- other answers ---------------------------------------------------------------------------------------------------


def always(answer: Answer) -> Callable[[Seen], Answer]:
    return lambda _: answer


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(403, "FORBIDDEN", "no secondary storage"), NotOffered),
        (problem(404, "Not Found"), NotOffered),
        (problem(405, "Method Not Allowed"), NotOffered),
        (problem(401, "UNAUTHORIZED"), AccessDenied),  # a token may have run out
        (problem(503, "UNAVAILABLE"), EngineUnavailable),
        (Answer(404, b"<html>", "text/html"), EngineUnavailable),
    ],
)
async def test_a_search_that_is_not_there_is_told_from_one_that_is_away(answer: Answer, error: type[Exception]) -> None:
    with rest_server(always(answer)) as server:
        async with ZeebeEngine(GatewayAddress(rest_url=server.url, transport="rest"), engine_id="test") as engine:
            with pytest.raises(error) as met:
                await engine.incidents()

    assert type(met.value) is error


async def test_a_state_that_a_later_version_adds_is_left_out() -> None:
    with strict_cluster("8.10") as cluster:
        fill(cluster)
        cluster.items.instances[1]["state"] = "FROZEN"
        async with engine_of(cluster) as engine:
            assert sorted(await engine.instance_states([1000, 1001, 1002])) == [1000, 1002]


async def test_without_wait_states_the_active_elements_are_told() -> None:
    with strict_cluster("8.10") as cluster:  # which has no such search here
        fill(cluster)
        async with engine_of(cluster) as engine:
            assert [one.element_id for one in await engine.waits(1000)] == ["g", "c"]
