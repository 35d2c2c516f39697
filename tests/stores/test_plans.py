"""The statements every job pays for, as Postgres plans them in a database that is too young to have statistics."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import plain
from verbworker.stores import sql
from verbworker.stores.access import pooled_connection

ALWAYS = ("open", "push", "pop_completed", "acknowledge", "heartbeat", "still_mine", "resume")
KEYS = {
    "job_frame": ("job_key", "instance_uid"),
    "payload_head": ("instance_uid",),
    "payload_version": ("instance_uid",),
    "workflow_instance": ("instance_uid",),
}


@pytest.mark.parametrize("name", ALWAYS)
async def test_a_statement_finds_its_rows_by_their_keys_even_where_the_tables_look_small(dsn: str, name: str) -> None:
    # A plan is made once per connection. One that reads a table as a whole gets slower with every job that follows.
    scans = [scan for scan in _scans(await _planned(dsn, name)) if scan["Relation Name"] in KEYS]

    assert scans
    assert [scan for scan in scans if not _is_keyed(scan)] == []


async def test_a_claim_looks_for_other_jobs_of_its_element_and_not_through_all_of_its_instance(dsn: str) -> None:
    scans = [scan for scan in _scans(await _planned(dsn, "open")) if scan.get("Alias") == "other"]

    assert scans
    assert [scan for scan in scans if "element_id" not in scan.get("Index Cond", "")] == []


async def test_no_function_that_plans_its_statements_anew_has_them_compiled(dsn: str) -> None:
    # Compiling takes a tenth of a second and more; the statements find their few rows in less than a thousandth.
    async with plain(dsn) as connection:
        rows = await connection.fetch(
            """
            SELECT proname
            FROM pg_catalog.pg_proc
            WHERE pronamespace = 'verbworker'::regnamespace
              AND prolang = (SELECT oid FROM pg_catalog.pg_language WHERE lanname = 'plpgsql')
              AND prosrc ~ 'EXECUTE' AND NOT coalesce(proconfig @> '{jit=off}', false)
            """
        )

    assert [row["proname"] for row in rows] == []


async def test_a_connection_knows_every_type_that_a_statement_passes_before_the_first_job(dsn: str) -> None:
    passed: set[str] = set()
    async with plain(dsn) as connection:
        known = set(await connection.fetchval("SELECT $1::text[]::regtype[]::text[]", list(pooled_connection.ARRAYS)))
        for store in sql.stores():
            for query in sql.queries(store).values():
                statement = await connection.prepare(query)
                types = (*statement.get_parameters(), *(column.type for column in statement.get_attributes()))
                passed |= {one.name.removesuffix("[]") for one in types if one.kind == "array"}
        spelled = set(await connection.fetchval("SELECT $1::text[]::regtype[]::text[]", sorted(passed)))

    assert spelled <= known


def _is_keyed(scan: dict[str, Any]) -> bool:
    return any(key in scan.get("Index Cond", "") for key in KEYS[scan["Relation Name"]])


async def _planned(dsn: str, name: str) -> dict[str, Any]:
    query = sql.query("frames", name)
    unknown = ", ".join(["NULL"] * max(map(int, re.findall(r"\$(\d+)", query))))
    async with plain(dsn) as connection:
        for setting in ("enable_seqscan", "enable_bitmapscan"):
            await connection.execute(f"SET {setting} = off")
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE planned AS {query}")
        told = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned ({unknown})")
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return plan


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Scan" in node["Node Type"] and "Relation Name" in node:
        yield node
    for below in node.get("Plans", []):
        yield from _scans(below)
