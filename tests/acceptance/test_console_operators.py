"""What operators do in a real browser beyond cases: plain processes, flags, and claims that an engine answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.apart import run_apart
from tests.support.browser import TIMEOUT_MS, opened_browser
from tests.support.engine_cases import begin_case, find_no_way, without_a_way
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE
from tests.support.recorded_search import NATIVE, RecordedCluster, recorded_cluster, recorded_item
from tests.support.rest_replay import problem
from tests.support.site import Site, site
from verbworker.background.poll_loop import running
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource, Start
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.runbook.event import Wait
from verbworker.stores.database import Database
from verbworker.work.gates.decide import GateRelay

OPERATE, TASKLIST = "https://operate.example", "https://tasklist.example"
TASK = 2251799813685327  # the recorded native task
DEPLOY = """
INSERT INTO verbworker.process_deployment (
  engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven, woven_sha256, deployed_by)
VALUES ($1, $2, $3, 1, 'plain', 'r', sha256(''), '', sha256(''), 'tests')
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def console(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("console")
    with site(folder, shared, VERBWORKER_OPERATE_URL=OPERATE, VERBWORKER_TASKLIST_URL=TASKLIST) as opened:
        yield opened


@contextmanager
def at_browser(browser: Browser, console: Site, who: str = "ann") -> Iterator[Page]:
    """Somebody who is logged in, at a browser of their own."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    cookies = console.visitor(who).cookies
    context.add_cookies([{"name": name, "value": value, "url": console.url} for name, value in cookies.items()])
    try:
        yield context.new_page()
    finally:
        context.close()


@asynccontextmanager
async def embedded(dsn: str) -> AsyncIterator[tuple[Database, EmbeddedEngine]]:
    async with Database(dsn, size=4) as database, EmbeddedEngine(database, engine_id=ENGINE) as engine:
        yield database, engine


# ---- incidents ------------------------------------------------------------------------------------------------------


async def stop_plain(dsn: str) -> int:
    """An instance of a plain process that finds no way."""
    drawing = without_a_way()
    drawing.process = "parcel"
    async with embedded(dsn) as (database, engine):
        (made,) = await engine.deploy([Resource("p.bpmn", drawing.xml())])
        await database.execute(DEPLOY, ENGINE, made.definition_key, drawing.process)
        key = (await engine.start(Start(drawing.process, {}))).instance_key
        await find_no_way(engine)
        return key


async def stop_case(dsn: str) -> UUID:
    """A case that finds no way."""
    drawing = without_a_way()
    drawing.process = "way"
    async with embedded(dsn) as (database, engine):
        stored, _ = await begin_case(database, engine, drawing)
        await find_no_way(engine)
        return stored.entry_id


async def jobs_of(dsn: str, kind: str) -> int:
    async with Database(dsn, size=1) as database:
        row = await database.fetchrow("SELECT count(*) AS jobs FROM verbworker_engine.job WHERE type = $1", kind)
        assert row is not None
        return int(row["jobs"])


def test_a_plain_process_that_found_no_way_is_named_and_set_going_by_clicking(
    browser: Browser, console: Site, shared: str
) -> None:
    with at_browser(browser, console) as page:
        page.goto(f"{console.url}/incidents")
        expect(page.locator("body")).to_have_attribute("data-live", "yes")
        key = run_apart(stop_plain(shared))
        # It has no entry, and appears all the same without a reload.
        page.get_by_role("link", name="Waiting for an operator: which of the plain process parcel").click()
        words = page.locator("main").inner_text()
        link = page.get_by_role("link", name="Open in Operate").get_attribute("href")
        page.get_by_label("Reason, stored with the case").fill("it may go")
        page.get_by_role("button", name="Resolve").click()
        still = page.locator("#sentence").inner_text()
        page.goto(f"{console.url}/incidents")
        page.get_by_role("link", name="of the plain process parcel").click()
        page.get_by_label("Reason, stored with the case").fill("it may go")
        page.get_by_label("Flags to set before").fill("orch_way=true")
        page.get_by_role("button", name="Resolve").click()
        said = page.locator("#sentence").inner_text()

    assert f"Plain process parcel, instance {key}: it has no case." in words
    assert "CONDITION_ERROR" in words
    assert link == f"{OPERATE}/processes/{key}"
    assert still.startswith("It tried again and stopped at which once more: ")
    assert said == "The incident is resolved; the case tries again."
    assert run_apart(jobs_of(shared, "left")) == 1


def test_a_case_that_found_no_way_leads_to_its_incident_and_goes_on(
    browser: Browser, console: Site, shared: str
) -> None:
    entry_id = run_apart(stop_case(shared))
    with at_browser(browser, console) as page:
        page.goto(f"{console.url}/entries/{entry_id}")
        page.locator("#waits").get_by_role("link", name="Waiting for an operator: which").click()
        page.get_by_label("Reason, stored with the case").fill("left it is")
        page.get_by_label("Flags to set before").fill("orch_way=true")
        page.get_by_role("button", name="Resolve").click()
        page.goto(f"{console.url}/entries/{entry_id}")
        history = page.locator("#timeline").inner_text()

    assert "ann let it continue after it had stopped: left it is (orch_way = true)" in history
    assert "which may continue" in history


# ---- claims ---------------------------------------------------------------------------------------------------------


async def park_native(dsn: str) -> UUID:
    """An entry at a native user task, with all that its model asks."""
    async with Database(dsn, size=2) as database:
        stored = await StoredEntry.open(database, sentence="Review a native task")
        await stored.start(NATIVE)
        detail = {"groups": ["reviewers", "leads"], "due": "2030-01-31T12:00Z", "priority": "70", "form": "review-form"}
        await stored.park(stored.token(7, Wait.HUMAN_GATE, gate="review", instance_key=NATIVE, detail=detail))
        await database.execute("UPDATE verbworker.parked_token SET user_task_key = $1 WHERE gate = 'review'", TASK)
        return stored.entry_id


@contextmanager
def mirroring(dsn: str, cluster: RecordedCluster) -> Iterator[None]:
    """The part of a worker that mirrors claims, in a thread."""
    is_over = Event()

    async def mirror() -> None:
        assert cluster.server is not None
        address = GatewayAddress(rest_url=cluster.server.url, transport="rest", call_timeout_s=2.0)
        async with (
            Database(dsn, size=2) as database,
            ZeebeEngine(address, engine_id=ENGINE) as engine,
            running([GateRelay(database, engine, every=0.1).service], asyncio.Event()),
        ):
            await asyncio.to_thread(is_over.wait)

    thread = Thread(target=lambda: asyncio.run(mirror()))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)


def test_a_claim_that_the_engine_refuses_or_does_not_answer_is_explained(
    browser: Browser, console: Site, shared: str
) -> None:
    run_apart(park_native(shared))
    with recorded_cluster() as cluster, at_browser(browser, console) as page, mirroring(shared, cluster):
        cluster.user_tasks.append({**recorded_item("search user tasks of an instance"), "assignee": "carl"})
        cluster.refusal = None
        page.goto(f"{console.url}/gates")
        page.get_by_role("link", name="Review a native task").click()
        page.get_by_role("heading", level=1, name="Review a native task").wait_for()
        task, card = page.url, page.locator("main")
        asked = card.inner_text()
        links = [
            card.get_by_role("link", name=name).get_attribute("href")
            for name in ("Open in Tasklist", "Open in Operate")
        ]
        card.get_by_role("button", name="Claim").click()  # recorded: taken the first time
        expect(page.get_by_text("You claimed this task. Nobody else")).to_be_visible()
        card.get_by_role("button", name="Release").click()
        expect(page.get_by_text("You released this task.")).to_be_visible()
        with page.expect_navigation() as sent:
            card.get_by_role("button", name="Claim").click()  # recorded: assigned to another person
        status, words = sent.value.status if sent.value else None, page.locator("main").inner_text()
        cluster.refusal = problem(503, "UNAVAILABLE", "the partition has no leader")
        page.goto(task)
        card.get_by_role("button", name="Claim").click()
        expect(page.get_by_text("does not have that yet; it is sent again")).to_be_visible()
        later = card.inner_text()

    for name, value in (("Groups", "reviewers, leads"), ("Due", "31 January 2030, 12:00 UTC"), ("Priority", "70")):
        assert (name in asked, value in asked) == (True, True)
    assert links == [f"{TASKLIST}/{TASK}", f"{OPERATE}/processes/{NATIVE}"]
    assert status == 409
    assert (
        "cannot be claimed: the engine's task list refuses, because carl has it there; release it there first" in words
    )
    assert "Claimed by ann" in later
    assert "the partition has no leader" in later
