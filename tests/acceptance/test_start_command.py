"""`verbworker start` and `verbworker runbook` as people meet them: a worker beside, and words on a terminal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.apart import run_apart
from tests.support.command import Said, verbworker
from tests.support.databases import execute
from tests.support.engines import Gateway
from tests.support.shop import ENGINE_ID, Shop, make_shop, open_orders, wait_until, worker_process

pytestmark = pytest.mark.zeebe

ORDER = '(shop.order :item "a ring")'


@pytest.fixture
def shop(tmp_path: Path, unique: Callable[[str], str]) -> Shop:
    return make_shop(tmp_path, unique("x").removeprefix("x-"))


class Terminal:
    """Somebody at a terminal in the shop's folder."""

    def __init__(self, shop: Shop, dsn: str) -> None:
        self._shop = shop
        self._dsn = dsn

    def say(self, *words: str, **settings: str) -> Said:
        given = {"VERBWORKER_ENGINE_ID": ENGINE_ID, **settings}
        return verbworker(*words, directory=self._shop.folder, dsn=self._dsn, **given)

    def start(self, invocation: str, *words: str) -> Said:
        return self.say("start", invocation, "--app", "shop:registry", *words)

    def listed(self, *words: str) -> Any:
        return self.json("runbook", "list", *words)["entries"]

    def json(self, *words: str) -> Any:
        said = self.say(*words, "--json")
        assert said.code == 0, said.err
        return json.loads(said.out)


@pytest.fixture
def terminal(shop: Shop, dsn: str) -> Terminal:
    return Terminal(shop, dsn)


@pytest.mark.parametrize("key", ["", " "])
def test_a_blank_request_key_is_refused(terminal: Terminal, key: str) -> None:
    said = terminal.start(ORDER, "--request-key", key)

    assert (said.code, "the request key is blank" in said.sentence()) == (1, True)
    assert terminal.listed() == []


@pytest.mark.req("REG-16", "COR-11", "EVT-17")
async def test_what_is_asked_for_is_carried_out_by_a_worker_and_told_in_order(
    shop: Shop, dsn: str, broker: Gateway, terminal: Terminal
) -> None:
    asked = json.loads(terminal.start(ORDER, "--json", "--by", "ann").out)
    async with open_orders(shop, dsn, broker.address):  # the model is deployed after it was asked for: it waits
        with worker_process(shop, dsn, broker.address) as worker:
            worker.until("/ready", 200)
            events = await_events(terminal, asked["entry_id"], 2)

    assert (asked["status"], asked["asked_by"]) == ("executing", "ann")
    assert [event["kind"] for event in events] == ["DurableTaskStarted", "StepCompleted"]
    (listed,) = terminal.listed()
    assert (listed["entry_id"], listed["process_version"]) == (asked["entry_id"], 1)
    assert terminal.say("runbook", "verify").out.startswith("2 events of 1 entries: 0 findings\n")


def await_events(terminal: Terminal, entry_id: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = terminal.json("runbook", "events", entry_id)
        return len(found) >= count

    wait_until(look, f"never {count} events")
    return found


def test_a_direct_verb_ends_at_once_and_says_what_came_of_it(terminal: Terminal, shop: Shop) -> None:
    said = terminal.start(f'({shop.verb} :item "a ring")')

    first, _, outcome = said.out.partition("\n")
    assert said.code == 0
    assert first.startswith("completed: Charge an order")
    assert json.loads(outcome)["item"] == "a ring"


def test_a_direct_verb_that_ends_badly_is_a_no(terminal: Terminal, shop: Shop) -> None:
    shop.put("refuse")

    said = terminal.start(f'({shop.verb} :item "a ring")')

    entry = said.out.rpartition("(entry ")[2].strip().removesuffix(")")
    assert said.code == 1
    assert said.sentence() == f"verbworker: the entry ended as failed; run: verbworker runbook show {entry}"
    assert "Failed: NoCustomer" in terminal.say("runbook", "events", entry).out


def test_the_same_request_key_is_the_same_entry(terminal: Terminal) -> None:
    first, second = (json.loads(terminal.start(ORDER, "--request-key", "r-1", "--json").out) for _ in range(2))

    assert first["entry_id"] == second["entry_id"]
    other = terminal.start('(shop.order :item "a crown")', "--request-key", "r-1")
    assert other.code == 1
    assert other.sentence().startswith("verbworker: the request key 'r-1' was used before for something else")


@pytest.mark.parametrize(
    ("invocation", "sentence"),
    [
        ("shop.order", "invocation, character 1: it begins with an opening parenthesis"),
        ("(shop.ordr)", "there is no verb shop.ordr; did you mean shop.order?"),
        ("(shop.order)", "shop.order: the argument item is missing"),
        ("(shop.order :item 7)", "shop.order: the argument item must be of type string"),
    ],
)
def test_what_cannot_be_asked_for_is_a_no_in_one_sentence(terminal: Terminal, invocation: str, sentence: str) -> None:
    said = terminal.start(invocation)

    assert (said.code, said.sentence()) == (1, f"verbworker: {sentence}")
    assert terminal.listed() == []


def test_another_tenants_entries_are_not_there(terminal: Terminal) -> None:
    entry = json.loads(terminal.start(ORDER, "--json").out)["entry_id"]

    assert terminal.json("runbook", "list", "--tenant", "others") == {"entries": [], "next": None}
    said = terminal.say("runbook", "show", entry, VERBWORKER_TENANT="others")
    assert (said.code, said.sentence()) == (1, f"verbworker: the tenant others has no entry {entry}")


def test_an_entry_nobody_knows_is_a_no(terminal: Terminal) -> None:
    unknown = str(uuid4())

    for command in ("show", "events"):
        said = terminal.say("runbook", command, unknown)
        assert (said.code, said.sentence()) == (1, f"verbworker: the tenant default has no entry {unknown}")


async def test_a_record_that_somebody_touched_is_found(terminal: Terminal, shop: Shop, dsn: str) -> None:
    entry = json.loads(terminal.start(f'({shop.verb} :item "a ring")', "--json").out)["entry_id"]
    await execute(dsn, "ALTER TABLE verbworker.runbook_event DISABLE TRIGGER events_are_final")
    await execute(dsn, "UPDATE verbworker.runbook_event SET detail = '{}' WHERE seq = 1")

    said = terminal.say("runbook", "verify")

    assert (said.code, said.sentence()) == (1, f"verbworker: entry {entry}: the chain breaks at event 1")


def test_without_a_database_nothing_is_asked_for(shop: Shop, tmp_path: Path) -> None:
    away = "postgresql://postgres@127.0.0.1:9/nowhere"

    said = verbworker("runbook", "list", directory=tmp_path, dsn=away)

    assert said.code == 2
    assert said.sentence().startswith("verbworker: the database at postgresql://postgres@127.0.0.1:9/nowhere cannot")


@pytest.mark.req("CMP-06")
def test_what_has_not_begun_is_cancelled_at_once_and_only_once(terminal: Terminal) -> None:
    entry = json.loads(terminal.start(ORDER, "--json").out)["entry_id"]

    first = terminal.say("runbook", "cancel", entry, "--reason", "ordered twice", "--by", "ann")
    second = terminal.say("runbook", "cancel", entry, "--reason", "ordered twice")

    assert (first.code, first.out) == (0, "cancelled\n")
    assert second.code == 1
    assert second.sentence().startswith("verbworker: ")
    assert terminal.json("runbook", "show", entry)["status"] == "cancelled"
    assert "ann requested cancellation: ordered twice" in terminal.say("runbook", "events", entry).out


def test_an_entry_says_how_far_it_is(terminal: Terminal) -> None:
    terminal.start(ORDER)

    assert [row["progress"] for row in terminal.listed()] == ["0 steps"]
    assert [row["progress"] for row in terminal.listed("--coarse")] == ["in progress"]
    assert terminal.listed("--stuck", "3600") == []


def test_an_entry_that_stands_still_is_told_with_what_to_do(terminal: Terminal, dsn: str) -> None:
    entry = json.loads(terminal.start(ORDER, "--json").out)["entry_id"]
    stall = (
        "INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)"
        " VALUES ($1, 'job', '', 'default', 'e', now(), 1, 'nothing came after it', 'restart the broker')"
    )
    run_apart(execute(dsn, stall, UUID(entry)))

    (listed,), shown = terminal.listed(), terminal.json("runbook", "show", entry)
    said = terminal.say("runbook", "show", entry).out

    assert f"args\t{json.dumps(shown['args'])}\n" in said
    assert listed["progress"] == "0 steps, stalled"
    assert [(one["kind"], one["reason"]) for one in listed["stalls"]] == [("job", "nothing came after it")]
    assert listed["stalls"] == shown["stalls"]
    assert "stalled\tnothing came after it\nwhat to do\trestart the broker\n" in said
