"""A session on a real database: whatever is typed is answered by a sentence, and the session goes on."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.support.databases import value
from tests.support.kyc_provider import serve
from tests.support.kyc_world import opened_world
from tests.support.talking import Scripted, make_registry
from verbs import registry as example
from verbs.kyc.screening import URL
from verbworker.app.settings import Settings
from verbworker.client.client import Client
from verbworker.contract.registry import Registry
from verbworker.repl.session import ReplAnswer, ReplSession
from verbworker.repl.shapes import shapes_of
from verbworker.repl.status_line import StatusLine
from verbworker.runbook.event import Wait

BILL = ":customer Ann :amount 12"


@asynccontextmanager
async def opened(dsn: str, registry: Registry, person: Scripted) -> AsyncIterator[ReplSession]:
    settings = Settings.model_validate({"dsn": dsn, "engine": "embedded"})
    async with Client(settings, registry, by="ada") as client:
        yield ReplSession(client, shapes_of(registry), person, past=lambda: ["gates"])


async def talk(dsn: str, folder: Path, *lines: str, person: Scripted | None = None) -> list[ReplAnswer]:
    async with opened(dsn, make_registry(folder / "contracts"), person or Scripted()) as session:
        return [await session.evaluate(line) for line in lines]


@pytest.mark.req("REG-01", "REG-03")
async def test_a_verb_is_played_back_by_the_sentence_that_the_runbook_keeps(dsn: str, tmp_path: Path) -> None:
    person = Scripted()

    (answer,) = await talk(dsn, tmp_path, f"(shop.charge {BILL})", person=person)

    assert person.heard == ["You are about to: Charge 12 to Ann."]
    assert answer.lines[0] == "1 is done: Charge 12 to Ann"
    assert await value(dsn, "SELECT sentence FROM verbworker.runbook_entry") == "Charge 12 to Ann"


async def test_what_is_missing_is_asked_for_until_it_fits(dsn: str, tmp_path: Path) -> None:
    person = Scripted(["Ann", "much", "0", "12"])

    (answer,) = await talk(dsn, tmp_path, "(shop.charge)", person=person)

    assert person.heard == [
        "Who pays? (text)",
        "Which amount (In cents)? (whole number)",
        "amount must be a whole number, like 12. Which amount (In cents)? (whole number)",
        "amount does not fit: input should be greater than 0. Which amount (In cents)? (whole number)",
        "You are about to: Charge 12 to Ann.",
    ]
    assert answer.code == 0


@pytest.mark.parametrize("answers", [["cancel"], ["Ann", " Cancel "], [None]])
async def test_cancel_leaves_and_nothing_was_done(dsn: str, tmp_path: Path, answers: list[str | None]) -> None:
    (answer,) = await talk(dsn, tmp_path, "(shop.charge)", person=Scripted(answers))

    assert (answer.lines, answer.code) == (["Nothing was done."], 1)
    assert await value(dsn, "SELECT count(*) FROM verbworker.runbook_entry") == 0


async def test_who_does_not_agree_has_done_nothing(dsn: str, tmp_path: Path) -> None:
    (answer,) = await talk(dsn, tmp_path, f"(shop.charge {BILL})", person=Scripted(agrees=False))

    assert answer.lines == ["Nothing was done."]
    assert await value(dsn, "SELECT count(*) FROM verbworker.runbook_entry") == 0


async def test_a_verb_that_ends_badly_is_told_and_the_session_goes_on(dsn: str, tmp_path: Path) -> None:
    failed, events, listed = await talk(
        dsn, tmp_path, "(shop.refund :customer nobody :amount 1)", "events 1", "runbook"
    )

    assert (failed.lines, failed.code) == (["1 ended as failed: Pay a bill back; for the reason: events 1"], 1)
    assert "Failed" in events.lines[-1]
    assert listed.lines == ["1  failed  Pay a bill back.  0 steps, failed"]


async def test_the_words_of_the_repl_answer(dsn: str, tmp_path: Path) -> None:
    asked = ("help", "verbs", "verbs shop.refund", "gates", "runbook", "history", "", "QUIT")

    answers = await talk(dsn, tmp_path, *asked)

    assert [answer.complaint for answer in answers] == [None] * len(asked)
    assert answers[2].lines[0] == "shop.refund: Pay a bill back."
    assert answers[5].lines == ["gates"]
    assert [answer.leaves for answer in answers] == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("verbs no.such", "there is no verb 'no.such'; for a list: verbs"),
        ("events", "which entry? events <number>; for the numbers: runbook"),
        (f"runbook {UUID(int=7)}", None),
        ("decide x approve", "'x' is neither a number nor an id; for the numbers: runbook or gates"),
        ("\x1b[2J", "'\\x1b[2j' is neither a verb nor a command; type help for a list"),
        ('(shop.charge :customer "\\u0000x" :amount 1)', None),
    ],
)
async def test_what_cannot_be_done_is_told_in_one_sentence(
    dsn: str, tmp_path: Path, line: str, sentence: str | None
) -> None:
    (answer,) = await talk(dsn, tmp_path, line)

    assert answer.complaint
    assert "\n" not in answer.complaint
    assert sentence is None or answer.complaint == sentence


def random_lines(seed: int) -> list[str]:
    """Lines nobody meant: halves of verbs, letters that control, numbers without end, nests without bottom."""
    dice = random.Random(seed)
    words = [
        *("(", ")", '"', "\\", ":", ":customer", ":amount", "shop.charge", "shop.refund", "kyc.open-case"),
        *("decide", "runbook", "events", "gates", "verbs", "history", "1", "0", "-1", "1/review", "null", "true"),
        *("\x00", "\x1b[31m", "\x07", "\ud800", "\udcff", "\u202e", "\n", "\t", "é", "東", "9" * 400, "1e999", "'"),
        *("(" * 200, "(a " * 200, '"' + "\\u0000" * 3 + '"', "a" * 5000, str(uuid4()), "$1", ";--", "%s", "{entity}"),
    ]
    makers: list[Callable[[], str]] = [
        lambda: " ".join(dice.choices(words, k=dice.randint(1, 9))),
        lambda: "".join(dice.choices(words, k=dice.randint(1, 9))),
        lambda: "".join(chr(dice.randrange(0x110000)) for _ in range(dice.randint(1, 40))),
        lambda: f"(shop.refund :customer {dice.choice(words)} :amount {dice.choice(words)})",
        lambda: f"(kyc.open-case :entity {dice.choice(words)} :pages {dice.choice(words)} :case-type onboarding)",
        lambda: f"{dice.choice(['decide', 'events', 'runbook', 'verbs'])} {dice.choice(words)} {dice.choice(words)}",
    ]
    return [dice.choice(makers)() for _ in range(300)]


async def test_nothing_that_is_typed_ends_a_session(dsn: str, tmp_path: Path) -> None:
    lines = [line for line in random_lines(8) if line.strip().lower() not in ("quit", "exit")]
    answering = Scripted(random_lines(9), agrees=True)

    answers = await talk(dsn, tmp_path, *lines, "verbs", person=answering)

    told = [answer.complaint for answer in answers if answer.complaint is not None]
    assert len(answers) == 301
    assert [sentence for sentence in told if "\n" in sentence or "a bug" in sentence] == []
    assert len(told) > 200
    assert answers[-1].lines


async def test_a_mistake_of_ours_ends_one_line(dsn: str, tmp_path: Path) -> None:
    person = Scripted()

    async def mistaken(sentence: str) -> bool | None:
        raise ZeroDivisionError

    person.agrees = mistaken  # type: ignore[method-assign]  # a person who breaks the program

    answer, after = await talk(dsn, tmp_path, f"(shop.charge {BILL})", "gates", person=person)

    assert (answer.complaint, answer.code) == ("a bug ended this (ZeroDivisionError); --debug shows where", 2)
    assert after.lines == ["Nothing waits for a person."]


@pytest.mark.req("WAIT-02", "EVT-12", "EVT-18")
async def test_a_gate_is_listed_asked_for_its_decision_and_decided_once(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Scripted(["perhaps", "approve"])
    with serve() as provider:
        monkeypatch.setenv(URL, provider.url)
        async with opened_world(dsn, "", provider, engine="embedded") as world, world.working():
            entry_id = await world.ask("Acme")
            await world.waiting(entry_id, Wait.EXTERNAL_SIGNAL)
            await world.send(entry_id)
            await world.waiting(entry_id, Wait.HUMAN_GATE)
            client = Client(world.settings, resources=world.resources, by="ada")
            session = ReplSession(client, shapes_of(example), person, past=lambda: [])
            watch = StatusLine(client, session.numbers)
            watch.follow(entry_id)
            listed = await session.evaluate("gates")
            await watch.look()
            before, takes = watch.line, watch.takes
            decided = await session.evaluate("decide 1/review")
            again = await session.evaluate("decide 1 approve")
            await world.ended(entry_id)
            await watch.look()

    assert listed.lines == ["1  Open KYC case for Acme  Awaiting reviewer  takes approve | reject"]
    assert (before, takes) == ("parked: 1  |  1: 5 of 7, awaiting reviewer", {"1": ("approve", "reject")})
    assert person.heard == [
        "What do you decide at review? (approve | reject)",
        "the decision must be one of approve, reject. What do you decide at review? (approve | reject)",
        "You are about to: decide approve at review of 1, Open KYC case for Acme.",
    ]
    assert decided.lines == ["ada decided approve at review of 1; it continues."]
    assert again.complaint is not None
    assert "is decided: ada said 'approve'" in again.complaint
    assert watch.line.startswith("parked: 0  |  1: ")
    assert watch.line.endswith(", completed")
