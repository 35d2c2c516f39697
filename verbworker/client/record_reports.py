"""Verifying and sealing the record for a client, a command or a program."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from verbworker.client.resources import Resources
from verbworker.errors import CannotRun
from verbworker.runbook.checkpoint import Checkpoint, parse_checkpoint
from verbworker.runbook.record_check import RecordCheck, RecordFinding
from verbworker.stores.access.tenancy import EVERY_TENANT, tenant_scope
from verbworker.stores.cases.payload_checks import PayloadFinding, PayloadReport, verify_payloads
from verbworker.stores.cases.record_verifier import RecordVerifier
from verbworker.stores.cases.seals import Seals

_LOOK = ConfigDict(frozen=True, from_attributes=True)
_BATCH = 5000  # lines of one seal and entries of one page, as the worker takes them


class FindingRecord(BaseModel):
    """One place where the record is not as it was written."""

    model_config = _LOOK

    entry_id: UUID | None
    seq: int | None = Field(default=None, description="the event that is wrong, or that records what the field was")
    seal: int | None = None
    place: str = Field(
        description="the field, `event` (the chain), `decision.reason`, `payload.flags`, `erasure`, `deleted`"
    )
    what: str
    sentence: str

    @classmethod
    def of_payload(cls, found: PayloadFinding) -> "FindingRecord":
        """Return the record of a finding about a payload of record."""
        sentence = f"entry {found.entry_id}: {found.sentence}"
        return cls(entry_id=found.entry_id, place=found.place, what=found.what, sentence=sentence)


class SealReport(BaseModel):
    """The seals over the record, and what they do not cover."""

    model_config = _LOOK

    seals: int
    signed: int
    verified: int = Field(description="how many are signed with a key that was given to this verification")
    has_keys: bool
    dropped: int = Field(description="entries that retention dropped, as a seal says")
    unsealed: tuple[UUID, ...] = Field(description="entries with something not sealed yet, at most 100")
    unsealed_number: int
    unsealed_since: datetime | None


class RecordReport(BaseModel):
    """The result of verifying the record: whole if there is no finding."""

    model_config = _LOOK

    entries: int
    events: int
    broken: dict[UUID, int] = Field(description="entries whose chain of events breaks, and at which event")
    findings: tuple[FindingRecord, ...]
    not_covered: int = Field(description="entries from before digests: only their events were verified")
    seals: SealReport
    payloads: int = Field(default=0, description="payloads of record that were verified, with their flags")
    unverified_payloads: int = Field(default=0, description="how many are signed with a key that was not given")
    checkpoint: int | None = Field(default=None, description="the seal of the checkpoint that was verified against")
    erased: int = Field(default=0, description="entries that were erased: what is left of them was verified")

    @classmethod
    def of(cls, check: RecordCheck, payloads: PayloadReport, *more: RecordFinding) -> "RecordReport":
        """Return the report of a check."""
        found = tuple(FindingRecord.model_validate(one) for one in (*check.findings, *more))
        found += tuple(FindingRecord.of_payload(one) for one in payloads.findings)
        seals, broken = SealReport.model_validate(check.seals), dict(check.broken)
        rest: dict[str, Any] = {"not_covered": check.older, "checkpoint": check.checkpoint, "seals": seals}
        rest |= {"payloads": payloads.payloads, "unverified_payloads": payloads.unverified}
        rest |= {"erased": check.erased}
        return cls(entries=check.entries, events=check.events, broken=broken, findings=found, **rest)


async def verify_record(
    resources: Resources, tenant: str, entry_id: UUID | None, against: str | None = None
) -> RecordReport:
    """Verify the record of a tenant or of one entry, against the text of a checkpoint if one is given."""
    ring = resources.settings.seal_ring()
    verifier = RecordVerifier(resources.database, ring)
    if against is None:
        check = await verifier.verify(tenant, entry_id)
        return RecordReport.of(check, await _verify_payloads(resources, tenant, entry_id))
    try:
        checkpoint = parse_checkpoint(against)
    except ValueError as error:
        raise CannotRun(f"the checkpoint cannot be read: {error}") from error
    mark = checkpoint.mark(tenant)
    if mark is None:
        raise CannotRun(f"the checkpoint has no seal of tenant {tenant!a}; nothing can be verified against it")
    found = []
    if ring is not None and checkpoint.is_signed(ring) is False:
        found.append(RecordFinding("the signature of the checkpoint does not fit: the file was changed", "checkpoint"))
    check = await verifier.verify(tenant, entry_id, against=mark)
    return RecordReport.of(check, await _verify_payloads(resources, tenant, entry_id), *found)


async def _verify_payloads(resources: Resources, tenant: str, entry_id: UUID | None) -> PayloadReport:
    return await verify_payloads(resources.database, tenant, entry_id, ring=resources.settings.key_ring())


async def seal_record(resources: Resources) -> Checkpoint:
    """Seal what is not sealed yet, of all tenants, and return a checkpoint of it."""
    with tenant_scope(EVERY_TENANT):
        return await _seal_record(resources)


async def _seal_record(resources: Resources) -> Checkpoint:
    ring = resources.settings.seal_ring()
    seals = Seals(resources.database, ring)
    await seals.require_write()
    await seals.sign_last()
    while (batch := await seals.seal_moves(limit=_BATCH)) is None or batch.is_more:
        pass
    after = None
    while (page := await seals.seal_page(after, limit=_BATCH)) is None or page.after is not None:
        after = after if page is None else page.after
    return Checkpoint.make(await seals.now(), await seals.last(), ring)
