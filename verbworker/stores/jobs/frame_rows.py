"""Conversions of frames: deliveries and verdicts to columns, rows to values."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from uuid import UUID

from verbworker.job.frame import Claim, Delivery, Frame, FrameState, InstanceFacts
from verbworker.stores.database import Row
from verbworker.stores.rows import value_of

_NOTHING = "{}"


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A completed run to store in the frame: the payload it was based on, and its output."""

    claim: Claim
    instance_uid: UUID
    base_hash: bytes
    output: bytes
    output_hash: bytes
    seal: str
    flags: Mapping[str, object]
    correlation: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """A verdict the engine has not confirmed."""

    job_key: int
    verb: str
    outcome: str
    output: bytes | None
    output_seal: str | None
    flags: Mapping[str, object]
    correlation: Mapping[str, str]
    error_code: str | None
    fail_text: str | None


# The columns by attribute: of a job, of a kind of job (many deliveries share one), and of a single delivery.
_JOB = attrgetter(
    *("job.key", "job.process_instance_key", "job.element_instance_key", "instance_uid", "entry_id", "idempotency_key"),
    *("job.activated_ms", "input_hash"),
)
_KIND = attrgetter(
    *("job.type", "job.tenant_id", "job.process_id", "job.process_version", "job.element_id", "mode", "on_unknown"),
    *("max_runs", "idempotency_window", "retries"),
)
_DELIVERY = attrgetter(
    *("job.key", "job.process_instance_key", "job.element_instance_key", "job.type", "job.tenant_id", "instance_uid"),
    *("job.process_id", "job.process_version", "job.element_id", "entry_id", "mode", "on_unknown", "max_runs"),
    *("idempotency_window", "idempotency_key", "job.activated_ms", "retries", "input_hash"),
)
_VERDICT = attrgetter("claim.job_key", "claim.epoch", "instance_uid", "base_hash", "output", "output_hash", "seal")


def open_columns(deliveries: Iterable[Delivery]) -> tuple[Sequence[object], ...]:
    """Return the columns for `open`, given deliveries in key order: nine per job, then ten per kind of job."""
    kinds: dict[object, int] = {}
    rows = [(*_JOB(delivery), kinds.setdefault(_KIND(delivery), len(kinds) + 1)) for delivery in deliveries]
    return (*zip(*rows, strict=True), *zip(*kinds, strict=True))


def push_columns(deliveries: Sequence[Delivery]) -> list[tuple[object, ...]]:
    """Return the columns for `push`."""
    return list(zip(*map(_DELIVERY, deliveries), strict=True))


def pop_columns(verdicts: Sequence[VerdictRow]) -> list[tuple[object, ...]]:
    """Return the columns for `pop_completed`, given verdicts in key order."""
    return list(zip(*map(verdict_row, verdicts), strict=True))


def verdict_row(verdict: VerdictRow) -> tuple[object, ...]:
    """Return the columns of one verdict."""
    return (*_VERDICT(verdict), text_of(verdict.flags), text_of(verdict.correlation))


def text_of(values: Mapping[str, object]) -> str:
    """Return flags or correlation keys as text for a `jsonb` column."""
    return json.dumps(dict(values)) if values else _NOTHING


def new_claim(row: Row, delivery: Delivery, owner: UUID) -> Claim:
    """Return the claim on a frame that `open` created; fields missing in the row have a new frame's values."""
    return Claim(
        job_key=row["job_key"],
        epoch=1,
        owner=owner,
        claimed_from="new",
        runs=1,
        retries_left=delivery.retries,
        generation=0,
        idempotency_key=delivery.idempotency_key,
        first_run_at=row["first_run_at"],
        now=row["now"],
        lease_until=row["lease_until"],
        instance=_instance(row),
        input_version=row["input_version"],
        input_is_head=row["input_is_head"],
        may_have_twin=bool(row["has_twin"]) or not row["input_is_head"],
        is_element_visited=row["has_twin"] is not None,
        may_have_archived=bool(row["is_instance_old"]),
    )


def mark_twins(claims: dict[int, Claim], deliveries: Iterable[Delivery]) -> dict[int, Claim]:
    """Mark possible twins within one statement, which does not see its own rows: all but one job of an element."""
    groups: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        if delivery.instance_uid is not None and delivery.job.key in claims:
            groups.setdefault((delivery.instance_uid, delivery.job.element_id), []).append(delivery)
    if len(groups) == len(claims):
        return claims
    return claims | {
        claim.job_key: claim for group in groups.values() if len(group) > 1 for claim in _mark_twins(claims, group)
    }


def _mark_twins(claims: Mapping[int, Claim], group: list[Delivery]) -> Iterator[Claim]:
    latest, *others = sorted(group, key=lambda one: (one.job.activated_ms, one.job.key), reverse=True)
    inputs = {latest.input_hash}
    for delivery in others:
        claim = claims[delivery.job.key]
        has_twin = claim.may_have_twin or delivery.input_hash in inputs
        inputs.add(delivery.input_hash)
        yield replace(claim, may_have_twin=has_twin, is_element_visited=True)


def claim_of(row: Row) -> Claim:
    """Return the claim on a frame that already existed."""
    return value_of(Claim, row, instance=_instance(row), may_have_twin=True)


def _instance(row: Row) -> InstanceFacts | None:
    if not row["correlated"]:
        return None
    correlation = row["correlation"]
    return InstanceFacts(
        tenant_id=row["tenant_id"],
        entry_id=row["entry_id"],
        verb=row["workflow_verb"],
        verb_version=row["verb_version"],
        engine_id=row["instance_engine_id"],
        instance_key=row["instance_key"],
        correlation={} if correlation == _NOTHING else json.loads(correlation),
        status=row["instance_status"],
        definition_key=row["definition_key"],
        flags=None if row["flags"] is None else json.loads(row["flags"]),
        unversioned_until=row["unversioned_until"],
    )


def frame_of(row: Row) -> Frame:
    """Return a frame in its current state."""
    return value_of(Frame, row, state=FrameState(row["state"]), **_jsons(row))


def unacknowledged_of(row: Row) -> Unacknowledged:
    """Return a verdict to send again."""
    return value_of(Unacknowledged, row, **_jsons(row))


def _jsons(row: Row) -> dict[str, object]:
    return {name: json.loads(row[name] or _NOTHING) for name in ("flags", "correlation")}
