"""Checkpoints: the last seal of each tenant, written to a file that is kept away from the database."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from verbworker.payload.signature import KeyRing
from verbworker.runbook.record_seal import RecordSeal

FORMAT = "verbworker.checkpoint/1"
_PURPOSE = b"verbworker/checkpoint/v1"


@dataclass(frozen=True, slots=True)
class SealMark:
    """The number and the hash of one seal: with them everything up to it can be proven."""

    tenant_id: str
    number: int
    hash: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last seals when it was written, and a signature over all of it if there were keys."""

    at: datetime
    tenants: tuple[SealMark, ...]
    key_id: str | None = None
    signature: str | None = None

    @classmethod
    def make(cls, at: datetime, seals: list[RecordSeal], ring: KeyRing | None) -> "Checkpoint":
        """Return the checkpoint of the last seals, signed if there are keys."""
        marks = tuple(SealMark(seal.tenant_id, seal.number, seal.hash.hex(), seal.at) for seal in seals)
        if ring is None:
            return cls(at, marks)
        return cls(at, marks, ring.active, _sign(ring, ring.active, _content(at, marks)))

    def mark(self, tenant_id: str) -> SealMark | None:
        """Return the seal of a tenant, or None if it had none."""
        return next((mark for mark in self.tenants if mark.tenant_id == tenant_id), None)

    def is_signed(self, ring: KeyRing) -> bool | None:
        """Return whether its signature fits; None if it has none, or one of an unknown key."""
        if self.key_id is None or self.signature is None or self.key_id not in ring.secrets:
            return None
        made = _sign(ring, self.key_id, _content(self.at, self.tenants))
        return hmac.compare_digest(made, self.signature)

    def render(self) -> str:
        """Return it as JSON, for a file."""
        signed = {"key_id": self.key_id, "signature": self.signature}
        return json.dumps({"format": FORMAT, **_content(self.at, self.tenants), **signed}, indent=2) + "\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Read a checkpoint; raise ValueError for anything else."""
    try:
        read: Any = json.loads(text)
        if read["format"] != FORMAT:
            raise ValueError(f"the format is {read['format']!r}, not {FORMAT!r}")
        marks = tuple(
            SealMark(str(one["tenant"]), int(one["seal"]), str(one["hash"]), datetime.fromisoformat(one["at"]))
            for one in read["tenants"]
        )
        return Checkpoint(datetime.fromisoformat(read["at"]), marks, read["key_id"], read["signature"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not a checkpoint: {error!r}") from error


def _content(at: datetime, marks: tuple[SealMark, ...]) -> Mapping[str, Any]:
    tenants = [
        {"tenant": mark.tenant_id, "seal": mark.number, "hash": mark.hash, "at": mark.at.isoformat()} for mark in marks
    ]
    return {"at": at.isoformat(), "tenants": tenants}


def _sign(ring: KeyRing, key_id: str, content: Mapping[str, Any]) -> str:
    return ring.authenticate(key_id, _PURPOSE, json.dumps(content, sort_keys=True).encode()).hex()
