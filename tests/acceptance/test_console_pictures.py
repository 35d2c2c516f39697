"""The process as a picture in the console: where a case is, how a process does, and who may see what."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import TIMEOUT_MS, opened_browser
from tests.support.frames import ENGINE
from tests.support.living import opened_living
from tests.support.pictured import Flags, Step, Waiting, stored
from tests.support.postgres import Template
from tests.support.site import KEYS, Site, site
from verbworker.runbook.event import Wait

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "processes/kyc-open-case/process.bpmn").read_bytes()
PROCESS = "kyc-open-case"
SCREENSHOTS = "VERBWORKER_SCREENSHOTS"
DAY = 86_400.0
BEFORE = (Step("create", 9000, 8990), Step("request", 8980, 8977.5))
LONG_AGO = tuple(Step(one.element, one.began + 3 * DAY, (one.ended or 0) + 3 * DAY) for one in BEFORE)
CAME = (*BEFORE, Waiting("await_documents", Wait.EXTERNAL_SIGNAL, 8970, 5400), Step("receive", 5390, 5389))
SCREENED = (*CAME, Step("screen", 8980, 8500, runs=2), Step("assign", 5300, 5299))
REVIEWED = (*SCREENED, Waiting("review", Wait.HUMAN_GATE, 5200, 700, "decided", "Awaiting reviewer", "review"))
APPROVED = {"orch_review_outcome": "approved"}
CASES: tuple[tuple[tuple[Step | Waiting, ...], Flags], ...] = (
    ((*LONG_AGO, Waiting("await_documents", Wait.EXTERNAL_SIGNAL, 3 * DAY)), None),
    (
        (*CAME, Step("screen", 4000), Waiting("screen", Wait.INCIDENT, 3600, reason="Waiting for an operator: screen")),
        None,
    ),
    ((*SCREENED, Waiting("review", Wait.HUMAN_GATE, 5200, reason="Awaiting reviewer", gate="review")), None),
    ((*REVIEWED, Step("record", 690, 689.7)), APPROVED),
    ((Step("create", 100, 99), Step("screen", 90, 80, outcome="bpmn_error"), Step("undo", 70)), None),
)
ODD = "</title></svg><script>window.pwned=1</script>\"'&lt; \u202e 漢字漢字漢字漢字 שלום עולם " + "x" * 200


@dataclass(frozen=True, slots=True)
class Pictured:
    """A console over a database with cases of the example's model."""

    site: Site
    cases: list[UUID]


@pytest.fixture(scope="module")
def pictured(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pictured]:
    with database_template.clone() as dsn:
        cases = stored(dsn, MODEL, CASES, PROCESS)
        with site(tmp_path_factory.mktemp("console"), dsn) as running:
            yield Pictured(running, cases)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


def groups(text: str) -> dict[str, tuple[set[str], str]]:
    """The elements of a page's picture: classes and title, by id."""
    (svg,) = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    root = ElementTree.fromstring(svg)
    return {
        group.get("data-element-id", ""): (set(group.get("class", "").split()), group[0].text or "")
        for group in root.iter("{http://www.w3.org/2000/svg}g")
        if group.get("data-element-id")
    }


def states(text: str, state: str) -> set[str]:
    return {id for id, (classes, _) in groups(text).items() if f"is-{state}" in classes}


def entry_page(pictured: Pictured, number: int, who: str = "ann") -> str:
    return pictured.site.visitor(who).get(f"/entries/{pictured.cases[number]}").text


def process_page(pictured: Pictured, more: str = "", who: str = "ann") -> Any:
    return pictured.site.visitor(who).get(f"/processes/one?engine={ENGINE}&process={PROCESS}{more}")


# ---- one case -------------------------------------------------------------------------------------------------------


def test_a_case_shows_its_way_and_what_it_waits_for(pictured: Pictured) -> None:
    text = entry_page(pictured, 0)
    shown = groups(text)

    assert states(text, "done") == {"create", "request"}
    assert states(text, "waiting") == {"await_documents"}
    assert states(text, "taken") == {
        *("asked", "to_create", "to_evidence", "evidence_begins", "to_fork", "fork", "to_request", "to_await")
    }
    assert "Awaiting documents, for 3 d, since " in shown["await_documents"][1]
    assert "10.0 s spent here" in shown["create"][1]
    assert "2.5 s spent here" in text[text.index('id="picture-lines"') :]


def test_an_incident_is_marked_as_one(pictured: Pictured) -> None:
    text = entry_page(pictured, 1)

    assert states(text, "incident") == {"screen"}
    assert "Waiting for an operator: screen, for 1 h" in groups(text)["screen"][1]
    assert "receive" in states(text, "done")
    assert "from_receive" not in states(text, "taken")


def test_a_case_that_is_over_came_to_an_end(pictured: Pictured) -> None:
    text = entry_page(pictured, 3)

    assert states(text, "waiting") | states(text, "incident") | states(text, "active") == set()
    assert {"from_receive", "from_screen", "to_assign", "to_reviewing", "to_record"} <= states(text, "taken")
    assert {"to_outcome", "outcome", "to_approved", "approved"} <= states(text, "taken")
    assert {"to_undo", "turned_down"} & states(text, "taken") == set()


def test_a_thrown_error_takes_its_boundary_event(pictured: Pictured) -> None:
    text = entry_page(pictured, 4)

    assert states(text, "active") == {"undo"}
    assert {"sanctions_hit", "from_hit"} <= states(text, "taken")


def test_a_case_without_a_stored_model_has_no_picture(dsn: str, tmp_path: Path) -> None:
    (case,) = stored(dsn, None, CASES[:1], PROCESS)
    with site(tmp_path, dsn) as running:
        answer = running.visitor("ann").get(f"/entries/{case}")

    assert answer.status == 200
    assert "<svg" not in answer.text


# ---- a process ------------------------------------------------------------------------------------------------------


def test_a_process_shows_counts_times_and_what_waits(pictured: Pictured) -> None:
    text = process_page(pictured).text
    shown = groups(text)

    assert "Figures of the newest 5 cases of this version" in text
    assert "5 visits, median 10.0 s" in shown["create"][1]
    assert "1 waiting, the longest for 3 d" in shown["await_documents"][1]
    assert states(text, "incident") == {"screen"}
    assert states(text, "waiting") == {"await_documents", "review"}
    hottest = {id for id, (classes, _) in shown.items() if "is-heat-5" in classes}
    assert "review" in hottest
    assert re.search(
        r'<th scope="row" data-name="Element">Ask for documents</th>\s*<td class="number" [^>]*>4</td>', text
    )


def test_heat_is_chosen_in_the_address(pictured: Pictured) -> None:
    failures, none = process_page(pictured, "&heat=failures").text, process_page(pictured, "&heat=none").text
    hot = {id for id, (classes, _) in groups(failures).items() if any("heat" in name for name in classes)}

    assert hot == {"screen"}
    assert "is-heat" not in none
    assert process_page(pictured, "&heat=<b>&version=99").status == 200


def test_the_list_of_processes_leads_to_them(pictured: Pictured) -> None:
    text = pictured.site.visitor("ann").get("/processes").text

    assert f'href="/processes/one?engine={ENGINE}&amp;process={PROCESS}"' in text


def test_another_tenant_sees_neither_the_process_nor_its_figures(pictured: Pictured) -> None:
    eve = pictured.site.visitor("eve")

    assert PROCESS not in eve.get("/processes").text
    assert process_page(pictured, who="eve").status == 404
    assert eve.get(f"/entries/{pictured.cases[0]}").status == 404


def test_an_unknown_process_is_not_found(pictured: Pictured) -> None:
    answer = pictured.site.visitor("ann").get("/processes/one?engine=x&process=y")

    assert answer.status == 404


def test_nobody_sees_it_without_a_login(pictured: Pictured) -> None:
    for path in ("/processes", "/processes/one?engine=a&process=b", "/bpmn.css"):
        assert pictured.site.visitor().get(path).status == 303


# ---- in a browser ---------------------------------------------------------------------------------------------------


def log_in(browser: Browser, running: Site, **habits: Any) -> Page:
    page = browser.new_context(**habits).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(f"{running.url}/login")
    page.get_by_label("Your API key").fill(KEYS["ann"])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1, name="Cases")).to_be_visible()
    return page


def snap(page: Page, name: str) -> None:
    if folder := os.environ.get(SCREENSHOTS):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_pictures_fit_every_screen(browser: Browser, pictured: Pictured, scheme: Any, width: int) -> None:
    wide = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
    page = log_in(browser, pictured.site, color_scheme=scheme, viewport={"width": width, "height": 800})
    broken: list[str] = []
    page.on("console", lambda message: broken.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: broken.append(str(error)))
    paths = {f"entry-{number}": f"/entries/{case}" for number, case in enumerate(pictured.cases)}
    paths |= {"processes": "/processes"} | {
        f"process-{heat}": f"/processes/one?engine={ENGINE}&process={PROCESS}&heat={heat}"
        for heat in ("time", "failures")
    }
    widths = {}
    for name, path in paths.items():
        page.goto(f"{pictured.site.url}{path}", wait_until="load")
        widths[name] = page.evaluate(wide)
        snap(page, f"{name}-{width}-{scheme}")
    page.context.close()

    assert widths == dict.fromkeys(paths, width)
    assert broken == []


def test_the_place_where_a_case_waits_is_in_view(browser: Browser, pictured: Pictured) -> None:
    page = log_in(browser, pictured.site, viewport={"width": 360, "height": 740})
    page.goto(f"{pictured.site.url}/entries/{pictured.cases[2]}")
    view, here = page.locator(".picture-view").bounding_box(), page.locator(".is-waiting").bounding_box()
    page.context.close()

    assert view is not None
    assert here is not None
    assert view["x"] <= here["x"]
    assert here["x"] + here["width"] <= view["x"] + view["width"]


def test_the_size_is_changed_by_keyboard_and_mouse_and_survives_an_update(browser: Browser, pictured: Pictured) -> None:
    size = "Number(document.querySelector('#picture svg').getAttribute('width'))"
    page = log_in(browser, pictured.site)
    page.goto(f"{pictured.site.url}/entries/{pictured.cases[0]}")
    first = page.evaluate(size)
    page.locator(".picture-view").focus()
    page.keyboard.press("+")
    larger = page.evaluate(size)
    page.get_by_role("button", name="Whole picture").click()
    whole = page.evaluate(size)
    page.get_by_role("button", name="Original size").click()
    original = page.evaluate(size)
    box = page.locator(".picture-view").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    place = "document.querySelector('.picture-view').scrollLeft"
    page.evaluate("document.querySelector('.picture-view').scrollLeft = 300")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 80, box["y"] + box["height"] / 2)
    page.mouse.up()
    moved = page.evaluate(place)
    page.evaluate("(() => { const at = document.querySelector('#picture'); at.innerHTML += ' '; })()")
    page.get_by_role("button", name="Larger").click()
    kept = page.evaluate(size)
    page.context.close()

    assert larger == pytest.approx(first * 1.25, abs=2)
    assert whole < first
    assert (moved, kept) == (380, pytest.approx(original * 1.25, abs=2))


def test_two_fingers_make_it_larger(browser: Browser, pictured: Pictured) -> None:
    page = log_in(browser, pictured.site, viewport={"width": 360, "height": 740}, has_touch=True)
    page.goto(f"{pictured.site.url}/entries/{pictured.cases[0]}")
    size = "Number(document.querySelector('#picture svg').getAttribute('width'))"
    first = page.evaluate(size)
    page.locator(".picture-view").scroll_into_view_if_needed()
    box = page.locator(".picture-view").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 30), ("touchMove", 60), ("touchEnd", 0)):
        fingers = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    larger, page_scale = page.evaluate(size), page.evaluate("visualViewport.scale")
    page.context.close()

    assert larger == pytest.approx(first * 2, rel=0.05)
    assert page_scale == 1


def test_hover_and_focus_tell_what_is_known_of_an_element(browser: Browser, pictured: Pictured) -> None:
    page = log_in(browser, pictured.site)
    page.goto(f"{pictured.site.url}/entries/{pictured.cases[0]}")
    words = page.locator("[data-picture-words]")
    page.locator("[data-element-id=await_documents]").focus()
    expect(words).to_contain_text("Awaiting documents, for 3 d")
    page.locator("[data-element-id=create]").hover()
    expect(words).to_contain_text("10.0 s spent here")
    name = page.locator("[role=graphics-symbol]").first.get_attribute("data-element-id")
    page.context.close()

    assert name == "create"


def test_without_scripts_the_picture_can_be_seen_and_scrolled(browser: Browser, pictured: Pictured) -> None:
    page = log_in(browser, pictured.site, java_script_enabled=False, viewport={"width": 360, "height": 740})
    page.goto(f"{pictured.site.url}/entries/{pictured.cases[0]}")
    expect(page.locator("#picture svg")).to_be_visible()
    expect(page.locator("[data-picture-tools]")).to_be_hidden()
    page.get_by_text("The same as a list").click()
    listed = page.locator("#picture-lines").inner_text()
    page.context.close()

    assert "Awaiting documents, for 3 d" in listed


def test_a_model_cannot_bring_markup_into_a_page(browser: Browser, dsn: str, tmp_path: Path) -> None:
    quoted = ODD.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    content = MODEL.replace(b'name="Open the case record"', f'name="{quoted}"'.encode())
    (case,) = stored(dsn, content, [((*BEFORE, Waiting("await_documents", Wait.TIMER, 60, reason=ODD)), None)], PROCESS)
    with site(tmp_path, dsn) as running:
        page = log_in(browser, running)
        for path in (f"/entries/{case}", f"/processes/one?engine={ENGINE}&process={PROCESS}"):
            page.goto(f"{running.url}{path}")
            expect(page.locator("[data-element-id=create]")).to_be_visible()
            assert page.locator("main script").count() == 0
            assert page.evaluate("window.pwned") is None
            snap(page, f"odd{'-process' if 'one' in path else ''}")
        page.context.close()


def test_a_living_case_is_followed_on_its_picture(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened_living(tmp_path_factory.mktemp("dev")) as living:
        entry_id = living.start("Nordwind AG")
        page = browser.new_context(viewport={"width": 1100, "height": 760}).new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"{living.home}/entries/{entry_id}")
        element = "#picture [data-element-id={}]"
        expect(page.locator(element.format("await_documents"))).to_have_class(re.compile("is-waiting"))
        page.locator("#picture-list summary").click()
        # As a page is that was opened before the case was started, when there was no picture yet.
        early = page.context.new_page()
        early.goto(page.url)
        early.locator("section[aria-labelledby=h-picture]").evaluate("section => section.remove()")
        living.send_papers(entry_id)
        expect(early.locator(element.format("review"))).to_have_class(re.compile("is-waiting"))
        expect(page.locator(element.format("review"))).to_have_class(re.compile("is-waiting"))
        expect(page.locator(element.format("to_reviewing"))).to_have_class(re.compile("is-taken"))
        done = {id for id in ("create", "request", "receive", "screen", "assign") if _is_done(page, id)}
        still_open = page.locator("#picture-lines").is_visible()
        snap(page, "living")
        page.get_by_role("button", name="approve").click()
        expect(page.locator("#standing .badge")).to_have_text("completed")
        page.locator("section[aria-labelledby=h-picture] a").click()
        expect(page.locator(element.format("review"))).to_be_visible()
        told = page.locator("#scope").inner_text()
        snap(page, "living-process")
        page.context.close()

    assert done == {"create", "request", "receive", "screen", "assign"}
    assert still_open
    assert "newest 1 case of this version" in told


def _is_done(page: Page, id: str) -> bool:
    return "is-done" in (page.locator(f"#picture [data-element-id={id}]").get_attribute("class") or "")
