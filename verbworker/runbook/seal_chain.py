"""Checks the seals of a tenant, one after the other."""

from collections.abc import Sequence

from verbworker.payload.signature import KeyRing
from verbworker.runbook.checkpoint import SealMark
from verbworker.runbook.record_check import RecordFinding
from verbworker.runbook.record_seal import RecordSeal, SealLine, hash_lines


class SealChain:
    """The seals of a tenant as they are read: what is wrong with them, and how many are signed.

    The hash of a seal is over the one before, so the last signature covers all seals before it: of a key that has left
    the ring, or from before there was one. Only the last seal must be signed with a key of the ring.
    """

    def __init__(self, ring: KeyRing | None, against: SealMark | None = None) -> None:
        self._ring = ring
        self._against = against
        self._last: RecordSeal | None = None
        self._is_last_verified = False
        self._marked: RecordSeal | None = None
        self._findings: list[RecordFinding] = []
        self.seals = 0
        self.signed = 0
        self.verified = 0

    @property
    def number(self) -> int:
        """The number of the last seal; 0 before the first."""
        return 0 if self._last is None else self._last.number

    def add(self, seal: RecordSeal, lines: Sequence[SealLine]) -> None:
        """Check the next seal with its lines."""
        self.seals += 1
        self.signed += seal.signature is not None
        due = self.number + 1
        if seal.number != due:
            gone = f"seal {due} is" if seal.number == due + 1 else f"seals {due} to {seal.number - 1} are"
            self._note(due, "missing", f"{gone} gone")
        elif seal.previous != (b"" if self._last is None else self._last.hash):
            self._note(seal.number, "previous", "it is not chained to the seal before")
        if not seal.is_right():
            self._note(seal.number, "content", "it is not what was written")
        elif (len(lines), hash_lines(lines)) != (seal.lines, seal.lines_hash):
            self._note(seal.number, "lines", "its lines are not what was written")
        self._check_signature(seal)
        if self._against is not None and seal.number == self._against.number:
            self._marked = seal
        self._last = seal

    def finish(self, stray: int | None) -> tuple[RecordFinding, ...]:
        """Return all findings, after the last seal; `stray` is a later seal of which only lines are there."""
        if stray is not None:
            self._note(
                self.number + 1, "missing", f"the seals {self.number + 1} to {stray} are gone, their lines are there"
            )
        if self._ring is not None and self._last is not None and not self._is_last_verified:
            self._note(self.number, "signature", "the last seal is not signed with a key of VERBWORKER_SEAL_KEYS")
        mark = self._against
        if mark is not None and self._marked is None:
            words = f"the checkpoint has seal {mark.number}, and the seals here end at {self.number}"
            self._note(mark.number, "checkpoint", words)
        elif mark is not None and self._marked is not None and self._marked.hash.hex() != mark.hash:
            self._note(mark.number, "checkpoint", "it is not the seal of the checkpoint: the chain was written anew")
        return tuple(self._findings)

    def _check_signature(self, seal: RecordSeal) -> None:
        is_signed = None if self._ring is None else seal.is_signed(self._ring)
        self.verified += is_signed is True
        self._is_last_verified = is_signed is True
        if is_signed is False:
            self._note(seal.number, "signature", f"its signature is not one of key {seal.key_id!r}")
        elif seal.signature is None and self._last is not None and self._last.signature is not None:
            self._note(seal.number, "signature", "it is not signed, and the seal before is")

    def _note(self, number: int, place: str, words: str) -> None:
        self._findings.append(RecordFinding(words, place, seal=number))
