"""The console in a real browser: a case decided by clicking, and everything that must not happen."""

import itertools
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.apart import run_apart
from tests.support.browser import TIMEOUT_MS, opened_browser
from tests.support.frames import claimed, make_delivery, make_instance, make_job, working
from tests.support.issuer import CLIENT, SECRET, issuer
from tests.support.living import Living, opened_living
from tests.support.mail import HOUR, make_message, open_inbox
from tests.support.site import KEYS, TENANT, Site, credentials, parked, site
from verbworker.job.outcome import Incident
from verbworker.runbook.event import Kind
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database

ROOT = Path(__file__).parents[2]
SCREENSHOTS = "VERBWORKER_SCREENSHOTS"
EVIL = """<script>window.pwned=1</script><img src=x onerror="window.pwned=2">"'`--></title>{{7*7}}${1}"""
_elements = itertools.count(500)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def running(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = {"VERBWORKER_CONSOLE_CREDENTIALS": credentials(**{EVIL[:200]: "a-key-of-an-odd-name"})}
    folder = tmp_path_factory.mktemp("console")
    with site(folder, shared, "--app", "verbs:registry", directory=ROOT, **settings) as opened:
        yield opened


@pytest.fixture
def gate(shared: str) -> HumanGate:
    return parked(shared, element=next(_elements))


@contextmanager
def somebody(browser: Browser, site: Site, key: str = KEYS["ann"], **habits: Any) -> Iterator[Page]:
    """Somebody at a browser of their own, logged in by clicking."""
    with somewhere(browser, **habits) as context:
        page = context.new_page()
        page.goto(f"{site.url}/login")
        page.get_by_label("Your API key").fill(key)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1, name="Cases")).to_be_visible()
        page.wait_for_load_state()  # the heading may be there before the colours
        yield page


@contextmanager
def somewhere(browser: Browser, **habits: Any) -> Iterator[BrowserContext]:
    """A browser profile that shares nothing with another."""
    context = browser.new_context(**habits)
    context.set_default_timeout(TIMEOUT_MS)
    try:
        yield context
    finally:
        context.close()


def picture(page: Page, name: str) -> None:
    """A picture for the README, when somebody wants them; they are small."""
    if folder := os.environ.get(SCREENSHOTS):
        place = Path(folder) / f"{name}.png"
        page.screenshot(path=place)
        assert place.stat().st_size < 150_000


def row(page: Page, gate: HumanGate) -> Any:
    return page.locator(f"#gate-{gate.token_id}")


# ---- the whole story ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with opened_living(tmp_path_factory.mktemp("dev")) as opened:
        yield opened


@pytest.mark.req("REG-01", "WAIT-02", "EVT-12", "EVT-13", "EVT-17", "EVT-18")
def test_a_case_is_seen_decided_and_finished_by_clicking(browser: Browser, living: Living) -> None:
    with somewhere(browser, viewport={"width": 1100, "height": 760}) as context:
        page, watching = context.new_page(), context.new_page()
        page.goto(living.home)
        living.start("Nordwind AG")
        entry_id = living.start("Allianz GmbH")
        # The list, the gates and the entry change by themselves; nothing here is loaded again.
        page.get_by_role("link", name="Open KYC case for Allianz GmbH").wait_for()
        watching.goto(f"{living.home}/entries/{entry_id}")
        watching.evaluate("window.stayed = true")
        expect(watching.locator("#waits")).to_contain_text("Awaiting documents")
        page.get_by_role("link", name="Tasks").click()
        expect(page.locator("body")).to_have_attribute("data-live", "yes")
        living.send_papers(entry_id)
        page.get_by_role("link", name="Open KYC case for Allianz GmbH").click()
        expect(page.locator("#facts")).to_contain_text("Customer")
        page.get_by_label("Reason, stored with the decision").fill("all is in order")
        progress = watching.locator("#progress")
        expect(progress).to_have_text(re.compile(r"^\d of \d+, awaiting reviewer"))
        picture(watching, "entry")
        page.get_by_role("button", name="approve").click()
        expect(page.get_by_text("Your decision is stored")).to_be_visible()
        expect(watching.locator("#standing .badge")).to_have_text("completed")
        told = watching.locator("#timeline").inner_text()
        stayed = watching.evaluate("window.stayed")
        page.get_by_role("link", name="Cases").click()
        expect(page.locator("#entries .is-completed")).to_have_count(1)
        picture(page, "runbook")
        page.get_by_role("link", name="Verbs").click()
        verbs = page.locator("main").inner_text()

    assert stayed is True
    assert "Completed" in told
    assert "decided approve at review: all is in order" in told
    assert "Open KYC case for {entity}" in verbs
    assert "Traceback" not in living.session.said


@pytest.mark.req("EVT-14", "EVT-16")
def test_a_case_that_stopped_is_understood_and_released_by_clicking(browser: Browser, living: Living) -> None:
    living.provider.answers.append((403, b"{}"))
    entry_id = living.start("Hafen KG")
    with somewhere(browser) as context:
        page = context.new_page()
        page.goto(f"{living.home}/entries/{entry_id}")
        expect(page.locator("#waits")).to_contain_text("Awaiting documents")
        living.send_papers(entry_id)
        expect(page.locator("#waits")).to_contain_text("Waiting for an operator")
        page.get_by_role("link", name="Incidents").click()
        page.get_by_role("link", name="Waiting for an operator: kyc.screen-sanctions").click()
        story = page.locator("main").inner_text()
        page.get_by_label("Reason, stored with the case").fill("the provider knows us again")
        page.get_by_role("button", name="Resolve").click()
        said = page.locator("#sentence").inner_text()
        page.goto(f"{living.home}/entries/{entry_id}")
        expect(page.locator("#waits")).to_contain_text("Awaiting reviewer")

    assert "ScreeningRefused: the screening provider refused with 403" in story
    assert said.startswith("The frame is released and its incident is resolved")


def test_somebody_logs_in_at_the_issuer_and_is_back_where_they_wanted_to_be(
    browser: Browser, shared: str, tmp_path: Path
) -> None:
    with issuer() as known:
        known.claims |= {"tenant_id": TENANT, "preferred_username": "ada"}
        logins = {"issuer": known.url, "client_id": CLIENT, "client_secret": SECRET}
        credentials = json.dumps({"oidc": logins})
        with (
            site(tmp_path, shared, VERBWORKER_CONSOLE_CREDENTIALS=credentials) as opened,
            somewhere(browser) as context,
        ):
            page = context.new_page()
            page.goto(f"{opened.url}/dead-letters")
            page.get_by_role("link", name="Log in with your organisation").click()
            expect(page.get_by_role("heading", level=1, name="Dead letters")).to_be_visible()
            who = page.locator(".who").inner_text()
            page.get_by_role("button", name="Log out").click()
            page.goto(f"{opened.url}/dead-letters")
            asked = page.get_by_role("heading", level=1).inner_text()

    assert "ada" in who
    assert asked == "Log in"


# ---- people ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("WAIT-02", "PRX-34")
def test_of_two_who_decide_at_once_one_hears_who_was_faster(browser: Browser, running: Site, gate: HumanGate) -> None:
    with somebody(browser, running) as ann, somebody(browser, running, KEYS["bob"]) as bob:
        for page in (ann, bob):
            page.goto(f"{running.url}/gates/{gate.token_id}")
            page.get_by_label("Reason").fill("I looked at it")
        ann.get_by_role("button", name="approve").click()
        expect(ann.get_by_text("Your decision is stored")).to_be_visible()
        # What bob has begun to type is not taken from him; he is told that the page has changed.
        expect(bob.get_by_text("This page has changed")).to_be_visible()
        with bob.expect_navigation() as sent:
            bob.get_by_role("button", name="reject").click()
        status, words = sent.value.status if sent.value else None, bob.locator("main").inner_text()

    assert status == 409
    assert "Already changed" in words
    assert re.search(r"is decided: ann said 'approve' at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", words)


def test_a_gate_that_somebody_takes_is_shown_to_everybody(browser: Browser, running: Site, gate: HumanGate) -> None:
    with somebody(browser, running) as ann, somebody(browser, running, KEYS["bob"]) as bob:
        for page in (ann, bob):
            page.goto(f"{running.url}/gates?view=all&sort=newest")
            expect(page.locator("body")).to_have_attribute("data-live", "yes")
        row(ann, gate).get_by_role("button", name="Claim").click()
        expect(row(bob, gate).locator("td").last).to_have_text("ann")
        bob.goto(f"{running.url}/gates/{gate.token_id}?view=all&sort=newest")
        bob.get_by_role("button", name="Release").click()
        bob.get_by_role("link", name="Back to the tasks").click()
        expect(row(bob, gate).locator("td").last).not_to_contain_text("ann")
        offered = row(bob, gate).get_by_role("button", name="Claim").count()

    assert offered == 1


def test_the_keyboard_alone_decides(browser: Browser, running: Site, gate: HumanGate) -> None:
    at = "document.activeElement"
    with somebody(browser, running) as page:
        page.goto(f"{running.url}/entries/{gate.entry_id}")
        page.keyboard.press("Tab")
        first = page.evaluate(f"{at}.textContent")
        page.keyboard.press("Enter")
        is_past = page.evaluate(f"{at}.id")
        outlines = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            outlines.add(page.evaluate(f"getComputedStyle({at}).outlineStyle"))
            if page.evaluate(f"{at}.tagName") == "TEXTAREA":
                page.keyboard.type("by keyboard")
            if page.evaluate(f"{at}.value") == "approve":
                break
        page.keyboard.press("Enter")
        expect(page.get_by_text("Your decision is stored")).to_be_visible()
        told = page.locator("#timeline").inner_text()

    assert (first, is_past) == ("Skip to content", "main")
    assert outlines == {"solid"}
    assert "ann decided approve at review: by keyboard" in told


def test_without_scripts_everything_can_be_read_and_decided(browser: Browser, running: Site, gate: HumanGate) -> None:
    with somebody(browser, running, java_script_enabled=False) as page:
        titles = []
        for name in ("Cases", "Tasks", "Incidents", "Dead letters", "Verbs", "Load"):
            page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
            titles.append(page.get_by_role("heading", level=1).inner_text())
        page.goto(f"{running.url}/gates/{gate.token_id}")
        page.get_by_label("Reason").fill("without a script")
        page.get_by_role("button", name="reject").click()
        told = page.locator("main").inner_text()

    assert titles == ["Cases", "Tasks", "Incidents", "Dead letters", "Verbs", "Load"]
    assert "ann decided reject at review: without a script" in told


# ---- what it looks like ---------------------------------------------------------------------------------------------


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, running: Site, shared: str) -> None:
    long = "x" * 300
    gate = parked(shared, element=next(_elements), sentence=f"Open {long}", asked_by=long, request_key=long)
    case, task = f"/entries/{gate.entry_id}", f"/gates/{gate.token_id}"
    paths = ("/", "/gates", task, case, "/incidents", "/dead-letters", "/verbs", "/load", "/nowhere")
    wide = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
    with somebody(browser, running, viewport={"width": 360, "height": 740}) as page:
        widths = {path: page.goto(f"{running.url}{path}") and page.evaluate(wide) for path in paths}

    assert widths == dict.fromkeys(paths, 360)


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 29)")])
def test_it_is_light_or_dark_as_the_person_likes_it(browser: Browser, running: Site, scheme: Any, ground: str) -> None:
    with somebody(browser, running, color_scheme=scheme) as page:
        found = page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert found == ground


def test_every_field_has_a_name_every_id_one_thing_and_headings_skip_no_level(
    browser: Browser, running: Site, gate: HumanGate
) -> None:
    nameless = """[...document.querySelectorAll("input:not([type=hidden]), textarea, select")]
        .filter((one) => one.labels.length === 0).map((one) => one.outerHTML)"""
    doubled = """[...document.querySelectorAll("[id]")].map((one) => one.id)
        .filter((id, place, all) => all.indexOf(id) !== place)"""
    headings = """[...document.querySelectorAll("h1, h2, h3, h4")].map((one) => one.tagName)"""
    with somebody(browser, running) as page:
        task = f"/gates/{gate.token_id}"
        for path in ("/", "/gates", task, f"/entries/{gate.entry_id}", "/dead-letters", "/incidents", "/load"):
            page.goto(f"{running.url}{path}")
            assert (path, page.evaluate(nameless), page.evaluate(doubled)) == (path, [], [])
            levels = [int(name[1]) for name in page.evaluate(headings)]
            assert levels.count(1) == 1
            assert [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1] == []


# ---- what must not happen -------------------------------------------------------------------------------------------


async def _poisoned(dsn: str, gate: HumanGate, job_key: int) -> None:
    """Everything else that a person or a message may write, with markup in it."""
    async with Database(dsn, size=4) as database:
        runbook = Runbook(database)
        for number, kind in enumerate(Kind):
            if kind not in (Kind.RESULT, Kind.CANCELLED):
                names = (
                    "reason",
                    "by",
                    "gate",
                    "decision",
                    "verb",
                    "undoes",
                    "message_name",
                    "code",
                    "name",
                    "outcome",
                )
                await runbook.append(gate.entry_id, kind, once=f"evil:{number}", detail=dict.fromkeys(names, EVIL))
        instance = make_instance(instance_uid=gate.instance_uid, entry_id=gate.entry_id)
        job = make_job(job_key, process_instance_key=gate.element_instance_key, element_id=EVIL)
        async with working(database) as frames:
            await frames.boot(name=EVIL, host=EVIL, pid=1)
            evil = Incident(kind="PermanentContract", code=EVIL, message=EVIL)
            await frames.pop_incident(await claimed(frames, make_delivery(job, instance)), evil)
    async with open_inbox(dsn) as setup:
        await setup.inbox.receive(
            make_message(tenant_id=TENANT, message_id=EVIL, message_name=EVIL, correlation_key=EVIL),
            sent_by=EVIL,
            ttl=HOUR,
        )
        await setup.message_delivery.drain()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_markup_in_every_field_is_shown_as_text(browser: Browser, running: Site, shared: str, scripts: bool) -> None:
    element = next(_elements)
    detail = {"decisions": [EVIL, "no"], "audience": EVIL, "groups": [EVIL]}
    gate = parked(
        shared,
        element=element,
        token={"gate": EVIL, "reason": EVIL, "detail": detail},
        sentence=EVIL,
        asked_by=EVIL,
        verb=EVIL,
        verb_version=EVIL,
        request_key=f"{EVIL}{scripts}",
        process_id=EVIL,
    )
    job = next(_elements)
    run_apart(_poisoned(shared, gate, job))
    seen: list[str] = []
    with somebody(browser, running, "a-key-of-an-odd-name", java_script_enabled=scripts) as page:
        # Unless somebody listens, Playwright dismisses a dialog by itself.
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.on("request", lambda request: seen.append(request.url) if request.url.endswith("/x") else None)
        texts = {}
        for path in ("/", "/gates", f"/entries/{gate.entry_id}", "/incidents", "/dead-letters", "/load"):
            page.goto(f"{running.url}{path}")
            texts[path] = page.locator("main").inner_text()
            assert page.locator("img, main script").count() == 0, path
            if scripts:
                assert page.evaluate("window.pwned") is None
        page.goto(f"{running.url}/incidents/one?id={job}")
        texts["job"] = page.locator("main").inner_text()
        page.goto(f"{running.url}/gates/{gate.token_id}")
        assert page.locator("img, main script").count() == 0
        page.get_by_label("Reason").fill(EVIL)
        page.locator(".decide button").first.click()
        texts["decided"] = page.locator("main").inner_text()
        page.goto(f"{running.url}/gates/{gate.token_id}/decide")
        name = page.locator(".who").inner_text()
        if scripts:
            assert page.evaluate("window.pwned") is None

    head = EVIL[:28]
    assert [path for path, text in texts.items() if path != "/load" and head not in text] == []
    assert head in name
    assert "{{7*7}}" in texts["/gates"]
    assert seen == []


def test_no_page_breaks_its_own_policy(browser: Browser, running: Site, gate: HumanGate) -> None:
    broken: list[str] = []
    with somebody(browser, running) as page:
        page.on("console", lambda message: broken.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: broken.append(str(error)))
        case, task = f"/entries/{gate.entry_id}", f"/gates/{gate.token_id}"
        for path in ("/", "/gates", task, case, "/incidents", "/dead-letters", "/verbs", "/load"):
            page.goto(f"{running.url}{path}")
        strangers = page.evaluate(
            "performance.getEntriesByType('resource').filter((one) => !one.name.startsWith(location.origin)).length"
        )

    assert (broken, strangers) == ([], 0)
