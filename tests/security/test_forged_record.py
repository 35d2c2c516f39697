"""`runbook verify` names the case whose payload of record or flags were changed in the database, and what is wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.security.test_forged_heads import (
    RING,
    Head,
    both,
    foreign,
    older,
    only_the_content,
    only_the_hash,
    registry_of,
)
from tests.security.test_sql_roles import session
from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, CaseSetup, case_setup
from tests.support.command import verbworker
from tests.support.engines import Gateway
from tests.support.hands import transaction_by_hand
from verbworker.payload.signature import KeyRing
from verbworker.stores.cases.payload_checks import PayloadReport, verify_payloads

pytestmark = pytest.mark.attack("payload")

ON = ("embedded",)


@pytest.fixture(params=["plain", "signed"])
async def setup(
    request: pytest.FixtureRequest, dsn: str, gateway: Gateway, unique: Callable[[str], str]
) -> AsyncIterator[CaseSetup]:
    domain = unique("record")
    async with case_setup(dsn, gateway.address, domain, registry_of(domain, request.param), ring=RING) as setup:
        yield setup


async def verified(setup: CaseSetup, ring: KeyRing | None = RING) -> PayloadReport:
    """The payloads of the tenant."""
    return await verify_payloads(setup.database, (await setup.entry(setup.entries[0])).tenant_id, ring=ring)


async def ended(setup: CaseSetup) -> Head:
    """A case that ended, and another one."""
    entry_id = await setup.start(models.line, "first", "second")
    await setup.serve("first", "second", COMPLETE)
    assert await setup.status(entry_id) == "completed"
    return Head(setup, await setup.uid(entry_id))


async def test_a_record_that_nobody_touched_has_no_finding(setup: CaseSetup) -> None:
    await ended(setup)
    await setup.ask("other")

    report = await verified(setup)

    assert (report.payloads, report.unverified, report.findings) == (2, 0, ())


HEADS: dict[str, tuple[Any, set[str]]] = {
    "content and hash": (both, {"payload.version"}),
    "the hash": (only_the_hash, {"payload.hash", "payload.version"}),
    "the content": (only_the_content, {"payload.hash"}),
    "an older one as a newer": (older, set()),
    "the head of another case": (foreign, {"payload.version"}),
}


@pytest.mark.parametrize(("how", "places"), HEADS.values(), ids=HEADS)
async def test_a_forged_head_is_found(setup: CaseSetup, how: Any, places: set[str]) -> None:
    head = await ended(setup)
    first = await head.read()
    if how is older:
        # Set back to the version before, as a whole.
        await head.write(past_triggers=True, version=0)
    else:
        await head.write(past_triggers=True, **await how(setup, first, first))

    findings = (await verified(setup)).findings

    assert {finding.entry_id for finding in findings} == {setup.entries[0]}
    assert places | ({"payload.version"} if how is older else set()) <= {finding.place for finding in findings}
    assert all("\n" not in finding.sentence for finding in findings)


CHANGES = {
    "the recorded flags": ("UPDATE verbworker.payload_head SET flags = '{\"orch_first\": false}'", "payload.flags"),
    "a recorded flag more": ("UPDATE verbworker.payload_head SET flags = flags || '{\"orch_x\": 1}'", "payload.flags"),
    "the flags of a version": (
        "UPDATE verbworker.payload_version SET flags = '{\"orch_first\": false}' WHERE version = 1",
        "payload.step",
    ),
    "the flags of a result": (
        "UPDATE verbworker.job_frame SET flags = '{\"orch_first\": false}' WHERE flags <> '{}'",
        "payload.step",
    ),
    "flags of head, version and result": (
        "WITH a AS (UPDATE verbworker.payload_head SET flags = '{\"orch_first\": false}'),"
        " b AS (UPDATE verbworker.payload_version SET flags = '{\"orch_first\": false}' WHERE version = 1)"
        " UPDATE verbworker.job_frame SET flags = '{\"orch_first\": false}' WHERE flags <> '{}'",
        "payload.flags",
    ),
    "the seal": ("UPDATE verbworker.payload_head SET seal = 'sha256:' || repeat('0', 64)", "payload.seal"),
    "the seal of a result": ("UPDATE verbworker.job_frame SET output_seal = 'sha256:0'", "payload.step"),
    "a version's hash": (
        "UPDATE verbworker.payload_version SET hash = sha256('forged') WHERE version = 1",
        "payload.step",
    ),
    "the version of a version": (
        "UPDATE verbworker.payload_version SET version = 1 WHERE version = 2",
        "payload.version",
    ),
    "the newest version is gone": ("DELETE FROM verbworker.payload_version WHERE version = 2", "payload.version"),
}


@pytest.mark.parametrize(("change", "place"), CHANGES.values(), ids=CHANGES)
async def test_whatever_else_was_changed_is_found(setup: CaseSetup, change: str, place: str) -> None:
    await ended(setup)
    async with transaction_by_hand(setup.database) as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(change)

    findings = (await verified(setup)).findings

    assert place in {finding.place for finding in findings}
    assert {finding.entry_id for finding in findings} == {setup.entries[0]}


INVENTED = {
    "of no job, before the first": (-1, None),
    "of no job, in between": (1, None),
    "of a job that stored nothing": (-1, 4711),
}


@pytest.mark.parametrize(("version", "job_key"), INVENTED.values(), ids=INVENTED)
async def test_a_value_that_no_step_set_is_found_though_it_looks_like_an_older_one(
    setup: CaseSetup, dsn: str, version: int, job_key: int | None
) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    await setup.serve("first")
    async with session(dsn, "console", (await setup.entry(entry_id)).tenant_id) as attacker:
        await attacker.execute(
            "INSERT INTO verbworker.payload_version (instance_uid, hash, version, job_key, created_at, flags)"
            " VALUES ($1, sha256('invented'), $2, $3, '2000-01-01', '{\"orch_first\": false}')",
            *(await setup.uid(entry_id), version, job_key),
        )

    findings = (await verified(setup)).findings

    assert "payload.step" in {finding.place for finding in findings}
    assert {finding.entry_id for finding in findings} == {entry_id}


async def test_a_signature_needs_its_key(setup: CaseSetup) -> None:
    head = await ended(setup)
    is_signed = (await head.read())["seal"].startswith("hmac-")

    without = await verified(setup, None)
    other = await verified(setup, KeyRing("k1", {"k1": b"another secret that is long enough"}))

    assert (without.unverified, without.findings) == (int(is_signed), ())
    assert [finding.what for finding in other.findings] == ["SealMismatch"] * is_signed


async def test_the_command_names_the_case_and_exits_1(setup: CaseSetup, dsn: str, tmp_path: Path) -> None:
    head = await ended(setup)
    tenant = (await setup.entry(setup.entries[0])).tenant_id
    verify = partial(verbworker, "runbook", "verify", "--tenant", tenant, directory=tmp_path, dsn=dsn)
    right = await asyncio.to_thread(verify)
    await head.write(past_triggers=True, content=b"{}")

    said = await asyncio.to_thread(verify)

    assert (right.code, said.code) == (0, 1)
    assert f"entry {setup.entries[0]}: the payload of record does not match its hash" in said.err
