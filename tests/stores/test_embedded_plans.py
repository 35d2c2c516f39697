"""The embedded engine's statements as Postgres plans them while its tables are still empty."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import plain
from verbworker.stores import sql

KEYS = {
    "instance": "instance_key",
    "job": "job_key",
    "timer": "wait_key",
    "subscription": "wait_key",
    "message": "message_key",
    "incident": "incident_key",
    "job_frame": "job_key",
    "payload_head": "instance_uid",
    "workflow_instance": "instance_uid",
}
SETTINGS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")


@pytest.mark.parametrize("name", ["tokens.save", "tokens.save_plain", "tokens.load", "finishes.finish"])
async def test_a_step_finds_its_rows_by_their_keys_even_where_the_tables_are_empty(dsn: str, name: str) -> None:
    # A connection keeps the plan it made first, and an engine is first asked when there is nothing yet.
    scans = [scan for scan in _scans(await _planned(dsn, name)) if scan.get("Relation Name") in KEYS]

    assert scans
    assert [scan for scan in scans if KEYS[scan["Relation Name"]] not in scan.get("Index Cond", "")] == []


@pytest.mark.parametrize(("name", "walks"), [("tokens.activate", 0), ("tokens.activate_in_turn", 4)])
async def test_handing_out_jobs_reads_only_those_that_are_due(dsn: str, name: str, walks: int) -> None:
    scans = [scan for scan in _scans(await _planned(dsn, name)) if scan.get("Relation Name") in KEYS]

    asked = [scan.get("Index Cond", "") for scan in scans]

    keyed = [words for words in asked if any(name in words for name in ("job_key", "instance_key", "due_at"))]

    assert len(keyed) == 3 + walks // 2
    assert any("type" in words and "due_at" in words for words in keyed)
    # The rest is the walk from tenant to tenant, one row a step (`test_fair_pickup` counts them).
    assert all("type" in words and "tenant_id" in words for words in asked if words not in keyed)
    assert len(asked) == 3 + walks


async def _planned(dsn: str, name: str) -> dict[str, Any]:
    query = sql.query(*name.split("."))
    unknown = ", ".join(["NULL"] * max(map(int, re.findall(r"\$(\d+)", query))))
    async with plain(dsn) as connection:
        for setting in SETTINGS:
            await connection.execute(f"SET {setting} = off")
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE planned AS {query}")
        told = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned ({unknown})")
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return plan


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Scan" in node["Node Type"]:
        yield node
    for below in node.get("Plans", []):
        yield from _scans(below)
