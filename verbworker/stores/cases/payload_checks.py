"""Verifies the payloads of record and their flags against what steps, people and ends recorded."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from verbworker.errors import PayloadIntegrityError
from verbworker.payload.signature import KeyRing, Seal, SealedPlace
from verbworker.stores.database import Database, Row
from verbworker.stores.sql import query

_PAGE = 200  # signed payloads are read whole, a mebibyte each at most


@dataclass(frozen=True, slots=True)
class PayloadFinding:
    """One place where a payload of record is not as it was written."""

    entry_id: UUID
    place: str  # `payload.hash`, `payload.seal`, `payload.version`, `payload.flags` or `payload.step`
    what: str
    sentence: str


@dataclass(frozen=True, slots=True)
class PayloadReport:
    """What was verified, and what was found. A signature is verified only with its key."""

    payloads: int
    unverified: int
    findings: tuple[PayloadFinding, ...]


async def verify_payloads(
    database: Database, tenant_id: str, entry_id: UUID | None = None, *, ring: KeyRing | None = None
) -> PayloadReport:
    """Verify the payloads of record of a tenant, or of one entry; with the workers' keys also their signatures."""
    findings: list[PayloadFinding] = []
    count, unverified = 0, 0
    last: UUID | None = None
    while rows := await database.fetch(query("payload_checks", "heads"), tenant_id, entry_id, last, _PAGE):
        for row in rows:
            findings += _check_head(row)
            findings += _check_flags(row)
            if row["signed"] is not None and ring is not None:
                findings += _check_signature(row, ring)
            unverified += row["signed"] is not None and ring is None
        count, last = count + len(rows), rows[-1]["instance_uid"]
    for row in await database.fetch(query("payload_checks", "steps"), tenant_id, entry_id):
        findings += _check_step(row)
    return PayloadReport(count, unverified, tuple(findings))


def _check_head(row: Row) -> Iterator[PayloadFinding]:
    entry_id, version = row["entry_id"], row["version"]
    if not row["is_hashed"]:
        yield PayloadFinding(entry_id, "payload.hash", "changed", "the payload of record does not match its hash")
    if row["is_other_seal"]:
        yield PayloadFinding(entry_id, "payload.seal", "changed", "the payload of record does not match its seal")
    if not row["is_known"]:
        words = f"the payload of record, version {version}, is none that a step stored"
        yield PayloadFinding(entry_id, "payload.version", "unknown", words)
    if row["newest"] is not None and row["newest"] > version:
        words = f"the payload of record was set back to version {version}: version {row['newest']} was stored"
        yield PayloadFinding(entry_id, "payload.version", "set back", words)
    if row["twice"] is not None:
        words = f"version {row['twice']} of the payload was stored twice: the payload of record was set back in between"
        yield PayloadFinding(entry_id, "payload.version", "stored twice", words)


def _check_flags(row: Row) -> Iterator[PayloadFinding]:
    if row["flags"] is None:
        return
    flags: Mapping[str, object] = json.loads(row["flags"])
    written: Mapping[str, object] = json.loads(row["written"] or "{}")
    if changed := _name_differences(flags, written):
        words = f"the recorded flags are not what steps and people set: {changed}"
        yield PayloadFinding(row["entry_id"], "payload.flags", "changed", words)
    told: Mapping[str, object] = json.loads(row["at_the_end"] or "{}")
    if changed := _name_differences({name: flags.get(name) for name in told}, told):
        words = f"the recorded flags are not those that the case ended with: {changed}"
        yield PayloadFinding(row["entry_id"], "payload.flags", "changed after the end", words)


def _check_signature(row: Row, ring: KeyRing) -> Iterator[PayloadFinding]:
    place = SealedPlace(row["tenant_id"], str(row["instance_uid"]), row["version"], row["unversioned_until"])
    try:
        Seal.from_ring(ring).check(row["signed"], row["seal"], place)
    except PayloadIntegrityError as error:
        words = f"the payload of record is not proven by its signature: {error}"
        yield PayloadFinding(row["entry_id"], "payload.seal", error.code, words)


def _check_step(row: Row) -> Iterator[PayloadFinding]:
    if row["is_payload"] is None:
        words = f"version {row['version']} is none that a step stored"
        yield PayloadFinding(row["entry_id"], "payload.step", "unknown", words)
        return
    parts = {"payload": row["is_payload"], "seal": row["is_seal"], "flags": row["is_flags"]}
    wrong = ", ".join(name for name, is_right in parts.items() if not is_right)
    words = f"version {row['version']} is not what job {row['job_key']} stored: {wrong} differ"
    yield PayloadFinding(row["entry_id"], "payload.step", "changed", words)


def _name_differences(left: Mapping[str, object], right: Mapping[str, object]) -> str:
    names = left.keys() | right.keys()
    return ", ".join(sorted(name for name in names if json.dumps(left.get(name)) != json.dumps(right.get(name))))
