"""`verbworker db retention`: what is due, what went, and an export that anybody can check."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Said, verbworker
from tests.support.databases import value
from tests.support.postgres import run_apart
from tests.support.retention import LETTER, Past, days
from verbworker.stores.database import Database

KEEP = {"VERBWORKER_KEEP_ENTRIES": "365d"}


@pytest.fixture
def cases(dsn: str) -> list[str]:
    """An entry that is due, one that is young, one that is open; and a letter that is due."""

    async def seed() -> list[str]:
        async with Database(dsn, size=2) as database:
            past = Past(database)
            await database.execute(LETTER, "old", None, days(100))
            stored_entries = [await past.case(ended=age) for age in (days(400), days(1), None)]
            return [str(stored.entry_id) for stored in stored_entries]

    return run_apart(seed())


def run(dsn: str, place: Path, *words: str, **settings: str) -> Said:
    return verbworker("db", "retention", *words, dsn=dsn, directory=place, **settings)


def rules(said: Said) -> dict[str, dict[str, Any]]:
    return {rule["kind"]: rule for rule in json.loads(said.out)["rules"]}


def entries(dsn: str) -> int:
    return int(run_apart(value(dsn, "SELECT count(*) FROM verbworker.runbook_entry")))


def test_a_dry_run_shows_every_rule_and_drops_nothing(dsn: str, cases: list[str], tmp_path: Path) -> None:
    said = run(dsn, tmp_path, "--dry-run", "--json", VERBWORKER_EXPORT_DIR=str(tmp_path), **KEEP)
    told = rules(said)

    assert said.code == 0
    assert told["runbook_entry"]["setting"] == "VERBWORKER_KEEP_ENTRIES"
    assert {kind: rule["kept"] for kind, rule in told.items()} == {
        "archived_frame": "90d",
        "frame_event": "30d",
        "frame_conflict": "90d",
        "worker_boot": "90d",
        "payload": "7d",
        "inbox_message": "30d",
        "plain_incident": "90d",
        "console_session": "1d",
        "dead_letter": "90d",
        "runbook_entry": "365d",
    }
    assert {kind: rule["due"] for kind, rule in told.items() if rule["due"]} == {
        **{"payload": 1, "dead_letter": 1, "runbook_entry": 1}
    }
    assert {rule["dropped"] for rule in told.values()} == {0}
    assert (entries(dsn), list(tmp_path.glob("*.jsonl"))) == (3, [])


def test_what_is_due_is_exported_and_dropped_and_the_record_holds(dsn: str, cases: list[str], tmp_path: Path) -> None:
    said = run(dsn, tmp_path, "--json", VERBWORKER_EXPORT_DIR=str(tmp_path), **KEEP)
    again = run(dsn, tmp_path, "--json", VERBWORKER_EXPORT_DIR=str(tmp_path), **KEEP)
    (file,) = tmp_path.glob("*.jsonl")
    (line,) = file.read_text().splitlines()
    live = verbworker("runbook", "verify", dsn=dsn, directory=tmp_path)
    exported = verbworker("runbook", "verify", "--export", str(tmp_path), "--json", directory=tmp_path)

    assert (said.code, again.code) == (0, 0)
    assert {kind: rule["dropped"] for kind, rule in rules(said).items() if rule["dropped"]} == {
        **{"payload": 1, "dead_letter": 1, "runbook_entry": 1}
    }
    assert entries(dsn) == 2
    assert json.loads(line)["entry"]["entry_id"] == cases[0]
    assert file.stat().st_mode & 0o777 == 0o600
    assert (live.code, "0 findings" in live.out) == (0, True)
    assert exported.code == 0
    report = json.loads(exported.out)
    assert [report[name] for name in ("entries", "events", "broken", "findings", "not_covered")] == [1, 3, {}, [], 0]


@pytest.mark.parametrize("change", [("Waiting", "Hurrying"), ('"seq" : 2', '"seq" : 3'), ("Parked", "Resumed")])
def test_an_export_that_somebody_changed_is_found(
    dsn: str, cases: list[str], tmp_path: Path, change: tuple[str, str]
) -> None:
    run(dsn, tmp_path, VERBWORKER_EXPORT_DIR=str(tmp_path), **KEEP)
    (file,) = tmp_path.glob("*.jsonl")
    before = file.read_text()
    file.write_text(before.replace(*change))
    said = verbworker("runbook", "verify", "--export", str(file), directory=tmp_path)

    assert file.read_text() != before
    assert (said.code, f"entry {cases[0]}: the chain breaks at event 2" in said.err) == (1, True)


def test_a_file_that_is_no_export_cannot_be_checked(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"format": "something else"}\n')
    said = verbworker("runbook", "verify", "--export", str(tmp_path), directory=tmp_path)

    assert (said.code, "other.jsonl:1: the format is 'something else'" in said.err) == (2, True)


def test_entries_that_are_due_and_exported_nowhere_are_an_answer_of_no(
    dsn: str, cases: list[str], tmp_path: Path
) -> None:
    said = run(dsn, tmp_path, **KEEP)

    assert (said.code, entries(dsn)) == (1, 3)
    assert "1 ended entries are due, but no export directory is set; set VERBWORKER_EXPORT_DIR" in said.err


def test_why_ended_entries_are_kept_is_said(dsn: str, cases: list[str], tmp_path: Path) -> None:
    forever = rules(run(dsn, tmp_path, "--json"))["runbook_entry"]["why"]
    waiting = rules(run(dsn, tmp_path, "--json", **KEEP))["runbook_entry"]["why"]
    table = run(dsn, tmp_path, **KEEP).out
    after = rules(run(dsn, tmp_path, "--json", VERBWORKER_EXPORT_DIR=str(tmp_path), **KEEP))["runbook_entry"]["why"]

    assert forever == "2 ended: all are kept, VERBWORKER_KEEP_ENTRIES is not set or forever"
    young = "1 ended less than 365d ago (VERBWORKER_KEEP_ENTRIES)"
    assert waiting == f"2 ended: {young}, 1 wait for an export directory (VERBWORKER_EXPORT_DIR)"
    assert waiting in table
    assert after == f"1 ended: {young}"


def test_a_directory_that_cannot_be_written_to_keeps_the_entries(dsn: str, cases: list[str], tmp_path: Path) -> None:
    said = run(dsn, tmp_path, VERBWORKER_EXPORT_DIR=str(tmp_path / "nowhere"), **KEEP)

    assert (said.code, entries(dsn)) == (1, 3)
    assert "runbook_entry: export_dir: cannot write to" in said.err


def test_for_ever_is_for_ever(dsn: str, cases: list[str], tmp_path: Path) -> None:
    names = ("ENTRIES", "PAYLOADS", "DEAD_LETTERS")
    said = run(dsn, tmp_path, "--json", **{f"VERBWORKER_KEEP_{name}": "forever" for name in names})

    assert {rule["dropped"] for rule in rules(said).values()} == {0}
    assert rules(said)["payload"]["kept"] == "forever"
