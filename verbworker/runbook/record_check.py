"""The result of verifying the record: what was read, and each place that is not as it was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

CHAIN = "event"
"""The place of a finding in the chain of events; any other names a field, a decision, or how an entry is gone."""


@dataclass(frozen=True, slots=True)
class RecordFinding:
    """One place where the record is not as it was written: of an entry, of a seal, or of both."""

    what: str
    place: str
    entry_id: UUID | None = None
    seq: int | None = None
    seal: int | None = None

    @property
    def sentence(self) -> str:
        """Say where it is and what is wrong, for people."""
        parts = [f"entry {self.entry_id}"] if self.entry_id else []
        parts += [f"seal {self.seal}"] if self.seal else []
        return f"{', '.join(parts) or 'record'}: {self.what}"


@dataclass(frozen=True, slots=True)
class SealCheck:
    """What was found of the seals of a tenant: how many, how many signed by a known key, and what they do not cover."""

    seals: int = 0
    signed: int = 0
    verified: int = 0
    has_keys: bool = False
    dropped: int = 0
    unsealed: tuple[UUID, ...] = ()
    unsealed_number: int = 0
    unsealed_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """The result of a verification. `older` entries are from before digests of what was asked: not covered.

    Of `erased` ones, what is left is verified.
    """

    entries: int
    events: int
    findings: tuple[RecordFinding, ...] = ()
    older: int = 0
    seals: SealCheck = field(default_factory=SealCheck)
    checkpoint: int | None = None
    erased: int = 0

    @property
    def broken(self) -> Mapping[UUID, int]:
        """Return the entries whose chain of events does not hold, and where each breaks."""
        return {one.entry_id: one.seq or 0 for one in self.findings if one.entry_id and one.place == CHAIN}


def note_chain(entry_id: UUID, seq: int) -> RecordFinding:
    """Return the finding of a chain that does not hold."""
    return RecordFinding(f"the chain breaks at event {seq}", CHAIN, entry_id, seq)


def note_field(entry_id: UUID, place: str, seq: int | None = None) -> RecordFinding:
    """Return the finding of a field whose value is not the one that was recorded."""
    after = f", as event {seq} records it" if seq else ""
    return RecordFinding(f"{place} is not what was written{after}", place, entry_id, seq)


_DECISIONS = {
    "missing": "the decision is gone",
    "without event": "the decision was never recorded",
}


def note_decision(entry_id: UUID, gate: str, place: str, seq: int | None) -> RecordFinding:
    """Return the finding of a decision whose row is not what its event says."""
    words = _DECISIONS.get(place, f"{place} of the decision is not what was written")
    where = f", as event {seq} records it" if seq else ""
    return RecordFinding(f"{words}, at gate {gate}{where}", f"decision.{place}", entry_id, seq)


def note_erasure(entry_id: UUID, seq: int) -> RecordFinding:
    """Return the finding of an erasure that no seal records."""
    what = f"event {seq} says that the entry was erased, and no seal records it: events before it may have been changed"
    return RecordFinding(what, "erasure", entry_id, seq)


_UNLIKE = {
    "deleted": "the entry was deleted; {seq} events of it are sealed",
    "truncated": "the end of the chain was removed: {seq} events are sealed",
    "changed": "the chain was written anew: event {seq} is not the one that was sealed",
    "dropped": "retention dropped this entry, and it is there again",
}


def note_seal(entry_id: UUID, place: str, seq: int, seal: int) -> RecordFinding:
    """Return the finding of an entry that is not as it was sealed."""
    return RecordFinding(_UNLIKE[place].format(seq=seq), place, entry_id, seq, seal)
