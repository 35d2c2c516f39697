"""`runbook verify` and `runbook seal` as a person types them: what is found, the exit codes, and a checkpoint."""

import json
from pathlib import Path

import pytest

from tests.support.apart import run_apart
from tests.support.command import Said, verbworker
from tests.support.databases import execute
from tests.support.doctor_app import EMBEDDED, SEALING
from tests.support.entries import StoredEntry
from verbworker.runbook.event import Kind
from verbworker.stores.database import Database

FORGED = "SET session_replication_role = replica; UPDATE verbworker.runbook_entry SET sentence = 'x'"


async def write(dsn: str) -> str:
    """An entry with one event."""
    async with Database(dsn, size=2) as database:
        stored = await StoredEntry.open(database)
        await stored.runbook.append(stored.entry_id, Kind.TIMER_FIRED, once="t", detail={"name": "t"})
        return str(stored.entry_id)


@pytest.fixture
def entry(dsn: str) -> str:
    return run_apart(write(dsn))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def runbook(place: Path, dsn: str, *words: str, **settings: str) -> Said:
    return verbworker("runbook", *words, dsn=dsn, directory=place, **{**EMBEDDED, **SEALING, **settings})


def test_a_record_is_sealed_verified_and_proven_by_a_checkpoint(place: Path, dsn: str, entry: str) -> None:
    before = runbook(place, dsn, "verify")
    sealed = runbook(place, dsn, "seal", "--out", "checkpoint.json")
    after = runbook(place, dsn, "verify", "--against", "checkpoint.json")
    bare = runbook(place, dsn, "verify", "--against", "checkpoint.json", VERBWORKER_SEAL_KEYS="{}")

    assert (before.code, sealed.code, after.code, bare.code) == (0, 0, 0, 0)
    assert "1 entries are not sealed yet, the first since" in before.out
    assert entry in before.out
    assert sealed.out == "1 tenant(s) sealed; the checkpoint is in checkpoint.json\n"
    assert after.out == (
        "1 events of 1 entries: 0 findings\n1 seals, 1 signed: 1 by a key that is set\n"
        "everything up to seal 1 of the checkpoint is as it was\n"
        "1 payloads of record\n"
    )
    assert "1 seals, 1 signed: not verified, because no key is set" in bare.out


def test_a_forged_sentence_is_named_and_ends_with_1(place: Path, dsn: str, entry: str) -> None:
    run_apart(execute(dsn, FORGED))
    said = runbook(place, dsn, "verify")
    report = json.loads(runbook(place, dsn, "verify", "--json").out)

    assert (said.code, said.err) == (1, f"verbworker: entry {entry}: sentence is not what was written\n")
    assert [(one["entry_id"], one["place"]) for one in report["findings"]] == [(entry, "sentence")]
    assert report["broken"] == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read checkpoint.json: No such file or directory"),
        ("{", "the checkpoint cannot be read: "),
        (
            '{"format": "verbworker.checkpoint/1", "at": "2026-01-01", "tenants": [], "key_id": null,'
            ' "signature": null}',
            "the checkpoint has no seal of tenant 'default'",
        ),
    ],
)
def test_a_checkpoint_that_proves_nothing_ends_with_2(
    place: Path, dsn: str, entry: str, content: str | None, words: str
) -> None:
    if content is not None:
        (place / "checkpoint.json").write_text(content)
    said = runbook(place, dsn, "verify", "--against", "checkpoint.json")

    assert (said.code, words in said.sentence()) == (2, True)


def test_a_checkpoint_that_was_changed_is_a_finding(place: Path, dsn: str, entry: str) -> None:
    runbook(place, dsn, "seal", "--out", "checkpoint.json")
    file = place / "checkpoint.json"
    read = json.loads(file.read_text())
    file.write_text(json.dumps({**read, "at": "2026-01-01T00:00:00+00:00"}))
    said = runbook(place, dsn, "verify", "--against", "checkpoint.json")

    assert (said.code, "the signature of the checkpoint does not fit" in said.sentence()) == (1, True)
