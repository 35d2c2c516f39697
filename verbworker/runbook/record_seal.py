"""Seals of the record: each chains where the entries of a tenant were to the seal before, and may be signed.

A seal is hashed over its lines and the hash of the seal before, so the last one pins all of them. Its signature is an
HMAC of that hash with a key that the database does not have: its owner can write a chain anew, but not sign it.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from verbworker.payload.signature import KeyRing

# A signature made for this purpose is invalid for any other, even with the same key.
_HASH_PURPOSE = b"verbworker/runbook-seal/v1"
_SIGN_PURPOSE = b"verbworker/runbook-seal-signature/v1"
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class SealLine:
    """Where the chain of an entry was when it was sealed, dropped by retention, or erased."""

    entry_id: UUID
    seq: int
    hash: bytes
    dropped: bool = False
    erased: bool = False


@dataclass(frozen=True, slots=True)
class RecordSeal:
    """A seal without its lines, of which it holds the number and the digest."""

    tenant_id: str
    number: int
    at: datetime
    lines: int
    lines_hash: bytes
    previous: bytes
    hash: bytes
    key_id: str | None = None
    signature: bytes | None = None

    def is_right(self) -> bool:
        """Return whether its hash is that of its content."""
        made = _hash(self.tenant_id, self.number, self.at, self.lines, self.lines_hash, self.previous)
        return hmac.compare_digest(made, self.hash)

    def is_signed(self, ring: KeyRing) -> bool | None:
        """Return whether its signature fits; None if it has none, or one of an unknown key."""
        if self.key_id is None or self.signature is None or self.key_id not in ring.secrets:
            return None
        return hmac.compare_digest(_sign(ring, self.key_id, self.tenant_id, self.hash), self.signature)


def make_seal(
    tenant_id: str, after: RecordSeal | None, at: datetime, lines: Sequence[SealLine], ring: KeyRing | None
) -> RecordSeal:
    """Return the seal of some lines, chained to the one before and signed if there are keys."""
    number, previous = (1, b"") if after is None else (after.number + 1, after.hash)
    lines_hash = hash_lines(lines)
    made = _hash(tenant_id, number, at, len(lines), lines_hash, previous)
    key_id = None if ring is None else ring.active
    signature = None if ring is None else _sign(ring, ring.active, tenant_id, made)
    return RecordSeal(tenant_id, number, at, len(lines), lines_hash, previous, made, key_id, signature)


def hash_lines(lines: Iterable[SealLine]) -> bytes:
    """Return the digest of the lines of a seal, in whatever order they come."""
    made = sha256()
    for line in sorted(lines, key=lambda line: line.entry_id.bytes):
        what = line.dropped | line.erased << 1
        made.update(line.entry_id.bytes + line.seq.to_bytes(8, "big") + bytes([what, len(line.hash)]))
        made.update(line.hash)
    return made.digest()


def _hash(tenant_id: str, number: int, at: datetime, lines: int, lines_hash: bytes, previous: bytes) -> bytes:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    made = sha256()
    numbers = [value.to_bytes(8, "big") for value in (number, micros, lines)]
    for part in (_HASH_PURPOSE, tenant_id.encode(), *numbers, lines_hash, previous):
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()


def _sign(ring: KeyRing, key_id: str, tenant_id: str, made: bytes) -> bytes:
    return ring.authenticate(key_id, _SIGN_PURPOSE, tenant_id.encode(), made)
