"""Seals and checkpoints as values: what a chain of seals proves, with keys and without."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from verbworker.payload.signature import KeyRing
from verbworker.runbook.checkpoint import Checkpoint, SealMark, parse_checkpoint
from verbworker.runbook.record_check import (
    RecordCheck,
    RecordFinding,
    note_chain,
    note_decision,
    note_field,
    note_seal,
)
from verbworker.runbook.record_seal import RecordSeal, SealLine, hash_lines, make_seal
from verbworker.runbook.seal_chain import SealChain

AT = datetime(2026, 11, 18, 20, 0, 0, 123456, tzinfo=UTC)
RING = KeyRing("k1", {"k1": b"a secret that the database has not"})
OTHER = KeyRing("k1", {"k1": b"a secret that somebody else made up"})
NEXT = KeyRing("k2", {"k2": b"the secret that comes after the first"})
ENTRY = UUID(int=7)
LINES = [SealLine(UUID(int=2), 3, b"b" * 32), SealLine(UUID(int=1), 0, b"", dropped=True)]


def seals(*rings: KeyRing | None) -> list[RecordSeal]:
    """A chain of seals, each made with one of the rings."""
    made: list[RecordSeal] = []
    for ring in rings:
        made.append(make_seal("default", made[-1] if made else None, AT, LINES, ring))
    return made


def places(
    chain: list[RecordSeal], ring: KeyRing | None = RING, against: SealMark | None = None, stray: int | None = None
) -> list[tuple[int | None, str]]:
    """Where a chain is wrong."""
    checked = SealChain(ring, against)
    for seal in chain:
        checked.add(seal, LINES)
    return [(one.seal, one.place) for one in checked.finish(stray)]


def test_lines_are_digested_in_any_order_and_each_part_counts() -> None:
    one = LINES[0]

    assert hash_lines(LINES) == hash_lines(LINES[::-1])
    others = (replace(one, seq=4), replace(one, hash=b"c"), replace(one, dropped=True), replace(one, entry_id=ENTRY))
    assert len({hash_lines([line]) for line in (one, *others)}) == 5


def test_a_whole_chain_has_no_finding_with_and_without_keys() -> None:
    assert [places(seals(RING, RING), ring) for ring in (RING, None)] == [[], []]
    assert places([], RING) == places([], None) == []


def test_the_last_signature_covers_seals_from_before_keys_and_of_keys_that_are_gone() -> None:
    chain = seals(None, RING, NEXT)
    checked = SealChain(NEXT)
    for seal in chain:
        checked.add(seal, LINES)

    assert (checked.finish(None), checked.seals, checked.signed, checked.verified) == ((), 3, 2, 1)


@pytest.mark.parametrize("change", [{"number": 3}, {"at": AT.replace(year=2025)}, {"lines": 1}, {"tenant_id": "x"}])
def test_a_seal_is_over_each_of_its_parts(change: dict[str, object]) -> None:
    (seal,) = seals(None)

    assert (seal.is_right(), replace(seal, **change).is_right()) == (True, False)  # type: ignore[arg-type]  # by name


def test_what_was_forged_is_named() -> None:
    first, second, third = seals(RING, RING, RING)

    assert places([first, third]) == [(2, "missing")]
    assert places([third]) == [(1, "missing")]
    assert places([first, replace(second, previous=b"x"), third])[:2] == [(2, "previous"), (2, "content")]
    assert places([replace(first, lines=9), second, third]) == [(1, "content")]
    assert places([first, replace(second, signature=b"x"), third]) == [(2, "signature")]
    assert places([first, replace(second, key_id=None, signature=None), third]) == [(2, "signature")]
    assert places([first, second], stray=3) == [(3, "missing")]
    assert places(seals(OTHER)) == [(1, "signature"), (1, "signature")]
    assert places(seals(None)) == places(seals(NEXT)) == [(1, "signature")]


def test_lines_that_are_not_those_of_their_seal_are_named() -> None:
    checked = SealChain(None)
    checked.add(seals(None)[0], LINES[:1])

    assert [(one.seal, one.place) for one in checked.finish(None)] == [(1, "lines")]


def test_a_checkpoint_finds_a_chain_that_is_another_or_shorter() -> None:
    chain = seals(RING, RING)
    mark = Checkpoint.make(AT, [chain[1]], RING).mark("default")

    assert mark is not None
    assert places(chain, None, mark) == []
    assert places(chain[:1], None, mark) == [(2, "checkpoint")]
    assert places(seals(OTHER, None), None, replace(mark, hash="00"))[-1] == (2, "checkpoint")


@pytest.mark.parametrize("ring", [RING, None])
def test_a_checkpoint_comes_back_from_its_file(ring: KeyRing | None) -> None:
    made = Checkpoint.make(AT, seals(ring), ring)
    read = parse_checkpoint(made.render())

    assert read == made
    assert read.is_signed(RING) is (None if ring is None else True)
    assert read.is_signed(NEXT) is None
    assert read.mark("other") is None


def test_a_changed_checkpoint_does_not_fit_its_signature() -> None:
    made = Checkpoint.make(AT, seals(RING), RING)

    assert replace(made, tenants=()).is_signed(RING) is False


@pytest.mark.parametrize(
    ("text", "words"),
    [("[]", "it is not a checkpoint"), ("{", "Expecting"), ('{"format": "x"}', "the format is 'x'")],
)
def test_another_file_is_no_checkpoint(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_checkpoint(text)


def test_findings_name_their_place() -> None:
    found = (
        note_chain(ENTRY, 3),
        note_field(ENTRY, "sentence"),
        note_field(ENTRY, "outcome", 4),
        note_decision(ENTRY, "review", "reason", 2),
        note_decision(ENTRY, "review", "missing", None),
        note_seal(ENTRY, "deleted", 5, 9),
        RecordFinding("the file was changed", "checkpoint"),
    )

    assert [one.sentence.replace(str(ENTRY), "E") for one in found] == [
        "entry E: the chain breaks at event 3",
        "entry E: sentence is not what was written",
        "entry E: outcome is not what was written, as event 4 records it",
        "entry E: reason of the decision is not what was written, at gate review, as event 2 records it",
        "entry E: the decision is gone, at gate review",
        "entry E, seal 9: the entry was deleted; 5 events of it are sealed",
        "record: the file was changed",
    ]
    assert RecordCheck(1, 5, found).broken == {ENTRY: 3}
