"""Words on the command line and in its environment that mean something elsewhere: here they are text, or a refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.apart import run_apart
from tests.support.command import verbworker
from tests.support.gate_people import decisions, park
from verbworker.stores.database import Database

pytestmark = pytest.mark.attack("CLI")

ID = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"

REFUSED: dict[str, list[str]] = {
    "a query for an id": ["gates", "decide", "' OR '1'='1", "approve"],
    "a star for an id": ["gates", "decide", "*", "approve"],
    "a percent sign for an id": ["gates", "decide", "%", "approve"],
    "an empty id": ["gates", "decide", "", "approve"],
    "an id of another script": ["runbook", "show", "\u0661\u0662\u0663\u0664"],
    "an id that is a path": ["runbook", "show", "../../etc/passwd"],
    "an id that is an option": ["runbook", "show", "--dsn"],
    "half of a surrogate pair": ["gates", "decide", ID, "\udcff"],
    "a name of control letters": ["gates", "decide", ID, "approve", "--by", "a\x1b[2Jb"],
    "a name without end": ["gates", "decide", ID, "approve", "--by", "a" * 10_000],
    "a reason without end": ["gates", "decide", ID, "approve", "--reason", "a" * 100_000],
    "a payload from a file that is none": ["message", "send", "x", "--key", "k", "--payload", "@/nonexistent"],
    "a payload from a device": ["message", "send", "x", "--key", "k", "--payload", "@/dev/null"],
    "a payload that is no JSON": ["message", "send", "x", "--key", "k", "--payload", "{a:1}"],
    "a payload with a key twice": ["message", "send", "x", "--key", "k", "--payload", '{"a":1,"a":2}'],
    "a limit below one": ["gates", "list", "--limit", "0"],
    "a limit beyond all": ["gates", "list", "--limit", "999999999999999999999"],
    "a wait that is not a number": ["gates", "claim", ID, "--wait", "nan"],
    "a wait without end": ["gates", "claim", ID, "--wait", "inf"],
    "an address of another protocol": ["gates", "list", "--dsn", "file:///etc/passwd"],
    "an address with a command": ["gates", "list", "--dsn", "postgresql://x/?options=-c%20log_statement=all;x"],
    "an app that is a path": ["verbs", "list", "--app", "../../evil:registry"],
    "an app that is code": ["verbs", "list", "--app", "os:system('touch made')"],
    "a model that is a folder of the system": ["lint", "/proc/self/mem"],
    "a model without end": ["lint", "/dev/zero"],
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_word_that_means_something_elsewhere_is_refused(shared: str, tmp_path: Path, words: list[str]) -> None:
    said = verbworker(*words, directory=tmp_path, dsn=shared, VERBWORKER_ENGINE="embedded")

    assert said.code in (1, 2), said
    assert "Traceback" not in said.out + said.err
    assert "\x1b[2J" not in said.out + said.err
    assert len(said.err) < 5_000
    assert list(tmp_path.iterdir()) == []


SETTINGS: dict[str, dict[str, str]] = {
    "an unknown engine": {"VERBWORKER_ENGINE": "evil"},
    "an unknown rule for roles": {"VERBWORKER_UNKNOWN_ROLES": "maybe"},
    "roles by a wrong name": {"VERBWORKER_ROLE": "reader"},
    "a rule for roles by a wrong name": {"VERBWORKER_UNKNOWN_ROLE": "refuse"},
    "a database of another protocol": {"VERBWORKER_DSN": "http://127.0.0.1:1/"},
    "an empty tenant": {"VERBWORKER_TENANT": ""},
    "a file of the database that is a folder": {"VERBWORKER_DSN": "", "VERBWORKER_DSN_FILE": "/"},
    "a lease that is negative": {"VERBWORKER_LEASE": "-1"},
    "an address that is a script": {"VERBWORKER_OPERATE_URL": "javascript:alert(1)"},
}


@pytest.mark.parametrize("given", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_that_is_wrong_stops_the_command(shared: str, tmp_path: Path, given: dict[str, str]) -> None:
    settings: dict[str, Any] = {"VERBWORKER_ENGINE": "embedded", **given}
    dsn = None if "VERBWORKER_DSN" in given else shared
    said = verbworker("gates", "list", directory=tmp_path, dsn=dsn, **settings)

    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert said.out == ""


async def test_a_checkpoint_is_not_written_through_a_link_of_another_user(shared: str, tmp_path: Path) -> None:
    place, other = tmp_path / "shared", tmp_path / "other.txt"
    place.mkdir()
    other.write_text("of another")
    for name in (".checkpoint.json.part", "checkpoint.json"):
        (place / name).symlink_to(other)
    said = verbworker("runbook", "seal", "--out", str(place / "checkpoint.json"), directory=tmp_path, dsn=shared)

    assert said.code == 0, said
    assert other.read_text() == "of another"
    assert not (place / "checkpoint.json").is_symlink()
    assert sorted(one.name for one in place.iterdir()) == [".checkpoint.json.part", "checkpoint.json"]


def test_roles_of_no_words_are_no_roles(shared: str, tmp_path: Path) -> None:
    async def make() -> str:
        async with Database(shared, size=2) as database:
            return str((await park(database, element=7_001, audience=["reviewer"]))[1])

    async def count() -> int:
        async with Database(shared, size=2) as database:
            return await decisions(database)

    gate = run_apart(make())
    said = [
        verbworker("gates", "decide", gate, "approve", directory=tmp_path, dsn=shared, VERBWORKER_ROLES=roles)
        for roles in (",", " ", "reviewers", "Reviewer", json.dumps(["reviewer"]))
    ]

    assert [one.code for one in said] == [1] * 5
    assert run_apart(count()) == 0
