"""Tasks in a real browser: keys, no scripts, and what the pages look like with few and many rows and long names."""

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.test_console_tasks import DATA, FIELDS, FORM, SHOW, open_task
from tests.support.apart import run_apart
from tests.support.browser import TIMEOUT_MS, opened_browser
from tests.support.databases import execute
from tests.support.site import TENANT, Site, parked, site
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

LOOK = "VERBWORKER_LOOK"
"""A folder for a picture of every page and state, for a person to look at."""

CJK = "株式会社北風商事の顧客確認案件に関する審査依頼および追加書類の提出についての確認事項一覧"
RTL = "فتح ملف العميل شركة الرياح الشمالية للتجارة والنقل البحري"
LONG = "Open KYC case for Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft mbH & Co. KG"
_elements = itertools.count(17_000)

# Words of a usual length whose letters are on more than one line, and how wide the page is.
BROKEN_WORDS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const words = /(?<![^\\s(])[\\p{Script=Latin}\\p{Script=Arabic}]{2,24}(?![^\\s.,:;)])/gu;
    for (const found of node.data.matchAll(words)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) broken.push(found[0]);
    }
  }
  return broken;
}"""
WIDTH = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def running(shared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("tasks"), shared, VERBWORKER_CONSOLE_FIELDS=json.dumps(FIELDS)) as opened:
        yield opened


@contextmanager
def person(browser: Browser, running: Site, name: str = "ann", **habits: Any) -> Iterator[Page]:
    """A page of somebody who is logged in."""
    context = browser.new_context(**habits)
    context.set_default_timeout(TIMEOUT_MS)
    cookies = running.visitor(name).cookies
    context.add_cookies([{"name": key, "value": value, "url": running.url} for key, value in cookies.items()])
    try:
        yield context.new_page()
    finally:
        context.close()


def look(page: Page, name: str) -> None:
    if folder := os.environ.get(LOOK):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('tr')?.id ?? ''"))


# ---- by keyboard ----------------------------------------------------------------------------------------------------


def test_keys_move_claim_and_open_and_can_be_switched_off(browser: Browser, running: Site, shared: str) -> None:
    gates = [parked(shared, element=next(_elements), sentence=f"Try keys {number}") for number in range(3)]
    ids = [f"gate-{gate.token_id}" for gate in gates]
    with person(browser, running) as page:
        page.goto(f"{running.url}/gates?q=Try+keys&sort=oldest")
        visited = []
        for key in "jjjk":
            page.keyboard.press(key)
            visited.append(focused(page))
        page.keyboard.press("c")
        expect(page.get_by_text("You claimed this task")).to_be_visible()
        first = page.locator("tr.task").first.get_attribute("id")
        page.get_by_label("Search").fill("j?c")
        page.keyboard.press("j")
        typed = page.get_by_label("Search").input_value()
        page.locator("h1").click()
        page.keyboard.press("?")
        expect(page.get_by_text("next and previous task")).to_be_visible()
        page.get_by_label("Use these keys in this browser").uncheck()
        page.reload()
        page.keyboard.press("j")
        off = focused(page)
        page.keyboard.press("?")
        page.get_by_label("Use these keys in this browser").check()
        page.locator("h1").click()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        opened = page.get_by_role("heading", level=1)
        expect(opened).to_have_text("Try keys 1")

    assert visited == [ids[0], ids[1], ids[2], ids[1]]
    assert (first, typed, off) == (ids[1], "j?cj", "")


def test_from_one_task_to_the_next_by_keyboard_alone(browser: Browser, running: Site, shared: str) -> None:
    for number in range(2):
        open_task(shared, DATA, show=SHOW, due=f"2030-01-0{number + 1}T12:00Z", audience=f"next-{number}")
    at = "document.activeElement"
    with person(browser, running) as page:
        page.goto(f"{running.url}/gates?q=Handle+claim")
        rows = page.locator("tr.task").count()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Facts")).to_be_visible()
        expect(page.locator("#keys")).to_be_visible()  # the script is there
        page.keyboard.press("c")
        expect(page.get_by_text("You claimed this task")).to_be_visible()
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(f"{at}.tagName") == "TEXTAREA":
                page.keyboard.type("by keyboard")
            if page.evaluate(f"{at}.value") == "approve":
                break
        page.keyboard.press("Enter")
        expect(page.get_by_text("Your decision is stored")).to_be_visible()
        told = page.locator("#standing").inner_text()
        page.get_by_role("link", name="Handle claim C-1").click()
        expect(page.get_by_role("button", name="approve")).to_be_visible()
        look(page, "task-next")

    assert rows >= 2
    assert "ann decided approve" in told, told
    assert "by keyboard" in told


def test_without_scripts_a_task_is_found_claimed_passed_on_and_decided(
    browser: Browser, running: Site, shared: str
) -> None:
    parked(shared, element=next(_elements), sentence="Plain page")
    with person(browser, running, java_script_enabled=False) as page:
        page.goto(f"{running.url}/gates")
        page.get_by_label("Search").fill("plain page")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("button", name="Claim Plain page").click()
        page.get_by_role("link", name="Plain page").click()
        hidden = page.locator("#keys").is_visible()
        page.get_by_text("Pass it on").click()
        page.get_by_label("Name of who gets it").fill("ann")
        page.get_by_role("button", name="Pass on").click()
        page.get_by_label("Reason").fill("no script")
        page.get_by_role("button", name="reject").click()
        told = page.locator("main").inner_text()

    assert hidden is False
    assert "ann decided reject" in told
    assert "There is no other task in this list." in told


# ---- what it looks like ---------------------------------------------------------------------------------------------


def _fill(dsn: str) -> None:
    """Names that are long, without spaces, from right to left; with and without a due date."""
    names = (LONG, CJK, RTL)
    for number, name in enumerate(names):
        detail = {"decisions": ["approve", "reject"], "audience": "reviewer", "due": f"20{25 + number}-12-01T12:00Z"}
        if number:
            detail["priority"] = str(30 * number + 20)
        parked(dsn, element=next(_elements), token={"detail": detail}, sentence=f"{name} Ω3", asked_by=name)


MANY = """
INSERT INTO verbworker.parked_token (
  tenant_id, entry_id, instance_uid, engine_id, instance_key, element_instance_key, element_id, kind, reason, gate,
  detail
)
SELECT
  tenant_id, entry_id, instance_uid, engine_id, instance_key, 900000 + number, element_id, kind, reason, gate, detail
FROM verbworker.parked_token, generate_series(1, $2::integer) AS number
WHERE token_id = $1
"""

PAGES = {
    "0": "/gates?q=no+such+thing",
    "3": "/gates?q=Ω3&view=all",
    "500": "/gates?q=Many+rows&view=all",
}


@pytest.fixture(scope="module")
def many(shared: str) -> dict[str, str]:
    """Pages with their addresses: lists of three sizes, and tasks with facts, with long ones, claimed and closed."""
    _fill(shared)
    first = parked(shared, element=next(_elements), sentence="Many rows", asked_by="ann")
    run_apart(execute(shared, MANY, first.token_id, 499))
    full = open_task(shared, DATA, show=SHOW, due="2026-01-01T12:00Z", priority="80")
    odd = {
        "claim": {"number": LONG},
        "papers": [CJK, RTL, "x" * 300],
        "amount": "1e30",
        "report": f"https://{'a' * 60}.example/{'b' * 300}",
    }
    long = open_task(shared, odd, show=SHOW)
    form = open_task(shared, DATA, show=SHOW, **FORM)
    closed = open_task(shared, DATA, show=SHOW, **FORM)
    given = {"limit": "1250.50", "second-look": "yes", "note": "seen twice"}
    run_apart(_decide(shared, closed.token_id, given))
    tasks = {"task": full, "task-long": long, "task-form": form, "task-decided": closed}
    return {**PAGES, **{name: f"/gates/{gate.token_id}" for name, gate in tasks.items()}}


async def _decide(dsn: str, token_id: UUID, given: dict[str, str]) -> None:
    async with Database(dsn, size=2) as database:
        await Gates(database).decide(token_id, "approve", inputs=given, by="ann", tenant_id=TENANT, reason=LONG)


def test_a_question_is_asked_before_a_decision_that_has_one(browser: Browser, running: Site, shared: str) -> None:
    gate = open_task(shared, DATA, show=SHOW, **FORM)
    with person(browser, running, java_script_enabled=False, viewport={"width": 390, "height": 800}) as page:
        page.goto(f"{running.url}/gates/{gate.token_id}")
        page.get_by_label("Amount paid in EUR").fill("12.5")
        page.get_by_label("Reason").fill("seen")
        page.get_by_role("button", name="Pay the claim").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Pay this claim for good?")
        asked = page.evaluate(WIDTH), page.locator("dl").inner_text().split()
        look(page, "confirm-phone-light")
        page.get_by_role("link", name="Back, without a decision").click()
        open_again = page.get_by_role("button", name="Refuse").count()
        page.get_by_label("Amount paid in EUR").fill("12.5")
        page.get_by_role("button", name="Pay the claim").click()
        page.get_by_role("button", name="Pay the claim").click()
        told = page.locator("#standing").inner_text()

    assert asked == (390, ["Amount", "paid", "12.50", "EUR", "Reason", "seen"])
    assert open_again == 1
    assert "12.50 EUR" in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "width"), [("desktop", 1280), ("phone", 390)])
def test_no_word_is_broken_and_no_page_scrolls_sideways(
    browser: Browser, running: Site, many: dict[str, str], name: str, width: int, scheme: Any
) -> None:
    found = {}
    with person(browser, running, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        for state, path in many.items():
            page.goto(f"{running.url}{path}")
            expect(page.get_by_role("heading", level=1)).to_have_text(
                "Handle claim C-1" if "task" in state else "Tasks"
            )
            found[state] = (page.evaluate(BROKEN_WORDS), page.evaluate(WIDTH))
            look(page, f"{state}-{name}-{scheme}")

    assert found == dict.fromkeys(many, ([], width))
