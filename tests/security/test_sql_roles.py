"""The roles of the database: what each may not change, and the rows of another tenant that it may not see."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.support import foreign
from tests.support.apart import run_apart
from tests.support.databases import execute, plain
from tests.support.logins import ROLES, as_owner, login
from verbworker.stores import sql
from verbworker.stores.access import roles
from verbworker.stores.migrations import migrate

pytestmark = pytest.mark.attack("SQL role")

V, E = "verbworker", "verbworker_engine"
REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.IntegrityConstraintViolationError)

# What people read, what is the record, and what decides who may do what: nobody but the owner changes it.
_RECORD = {
    f"{V}.runbook_entry": (
        "entry_id = gen_random_uuid()",
        *("tenant_id = 'x'", "request_key = 'x'", "request_hash = 'x'", "verb = 'x'", "verb_version = 'x'"),
        *("mode = 'sync'", "sentence = 'x'", "invocation = 'x'", "args = 'x'", "asked_by = 'x'", "provenance = '{}'"),
        *("asked_by_id = gen_random_uuid()", "created_at = now()", "traceparent = 'x'", "process_id = 'x'"),
    ),
    f"{V}.runbook_event": (
        *("entry_id = gen_random_uuid()", "seq = 9", "at = now()", "kind = 'x'", "once = 'x'", "detail = '{}'"),
        *("status = 'x'", "hash = 'x'"),
    ),
    f"{V}.gate_decision": (
        *("token_id = gen_random_uuid()", "tenant_id = 'x'", "entry_id = gen_random_uuid()", "gate = 'x'"),
        *("instance_uid = gen_random_uuid()", "decision = 'x'", "reason = 'x'", "decided_by = 'x'"),
        *("decided_at = now()", "decided_by_id = gen_random_uuid()"),
    ),
    f"{V}.parked_token": (
        *("token_id = gen_random_uuid()", "tenant_id = 'x'", "entry_id = gen_random_uuid()", "gate = 'x'"),
        *("instance_uid = gen_random_uuid()", "kind = 'timer'", "message_name = 'x'", "correlation_key = 'x'"),
    ),
    f"{V}.workflow_instance": (
        *("instance_uid = gen_random_uuid()", "tenant_id = 'x'", "entry_id = gen_random_uuid()", "verb = 'x'"),
        *("verb_version = 'x'", "payload_schema = 'x'", "business_key = 'x'", "payload_dropped_at = now()"),
    ),
    f"{V}.job_frame": (
        *("engine_id = 'x'", "job_key = 1", "process_instance_key = 1", "element_instance_key = 1", "verb = 'x'"),
        *("tenant_id = 'x'", "instance_uid = gen_random_uuid()", "entry_id = gen_random_uuid()"),
    ),
    f"{V}.job_frame_archive": ("tenant_id = 'x'", "output = 'x'", "archived_at = now()"),
    f"{V}.frame_event": ("detail = 'x'", "kind = 'x'"),
    f"{V}.frame_conflict": ("frame = '{}'", "delivery = '{}'"),
    f"{V}.payload_head": ("instance_uid = gen_random_uuid()",),
    f"{V}.payload_version": ("hash = 'x'", "version = 9", "instance_uid = gen_random_uuid()"),
    f"{V}.inbox_message": (
        *("tenant_id = 'x'", "message_id = 'x'", "message_name = 'x'", "body_hash = 'x'", "payload = 'x'"),
        *("sent_by = 'x'", "received_at = now()", "entry_id = gen_random_uuid()"),
    ),
    f"{V}.dead_letter": ("tenant_id = 'x'", "reason = 'x'", "body = 'x'", "code = 'ended'", "sent_by = 'x'"),
    f"{V}.compensation_record": ("tenant_id = 'x'", "verb = 'x'", "undo = 'x'", "step_seq = 9"),
    f"{V}.person": ("tenant_id = 'x'", "person_id = gen_random_uuid()", "issuer = 'x'", "subject = 'x'"),
    f"{V}.process_terms": ("ir = '{}'", "policies = '{}'", "digest = 'sha256:x'"),
    f"{V}.migration": ("checksum = 'x'", "name = 'x'"),
    f"{E}.definition": ("content = 'x'", "process_id = 'x'"),
    f"{E}.identity": ("engine_id = 'x'",),
    f"{E}.instance": ("tenant_id = 'x'", "instance_key = 1", "process_id = 'x'"),
    f"{E}.job": ("tenant_id = 'x'", "type = 'x'", "instance_key = 1", "headers = 'x'"),
}
_KEPT = (
    *("runbook_entry", "runbook_event", "gate_decision", "parked_token", "workflow_instance", "job_frame", "dispatch"),
    *("job_frame_archive", "frame_event", "frame_conflict", "payload_head", "payload_version", "inbox_message"),
    *("dead_letter", "compensation_record", "person", "process_deployment", "process_terms", "deployment_request"),
    *("plain_incident", "worker_boot", "upkeep_turn", "console_session", "migration"),
)
_DIRECT = (
    "CREATE TABLE verbworker.mine (x text)",
    "CREATE FUNCTION verbworker.mine() RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "CREATE TRIGGER mine BEFORE UPDATE ON verbworker.runbook_event FOR EACH ROW EXECUTE FUNCTION"
    " verbworker.refuse_event_change()",
    "ALTER TABLE verbworker.runbook_event DISABLE TRIGGER ALL",
    "ALTER TABLE verbworker.runbook_entry DISABLE ROW LEVEL SECURITY",
    "ALTER FUNCTION verbworker.append_event(uuid, text, text, jsonb) RENAME TO other",
    "DROP POLICY own_tenant ON verbworker.runbook_entry",
    "CREATE POLICY mine ON verbworker.runbook_entry USING (true)",
    "DROP TABLE verbworker.runbook_event",
    "DROP TRIGGER decision_is_final ON verbworker.gate_decision",
    "SET session_replication_role = replica",
    "SET ROLE postgres",
    "INSERT INTO verbworker.job_frame_archive SELECT now(), frame.* FROM verbworker.job_frame AS frame",
    "INSERT INTO verbworker.migration (name, checksum) VALUES ('x', 'x')",
)
_OTHERS = (
    "SELECT verbworker.drop_entries('{}', '{}', now())",
    "SELECT verbworker.drop_payloads(now(), 1)",
    "SELECT verbworker.drop_archived_frames(now(), 1)",
    "SELECT verbworker.drop_retired('frame_event', now(), 1)",
    "SELECT verbworker.count_retired('frame_event', now(), 1)",
    "SELECT verbworker.archive_frames('0', 1)",
    "SELECT verbworker.prune_frames('0', 1)",
    "SELECT verbworker.displace_frame('x', 1, 1)",
    "SELECT verbworker.ensure_archive_month(now())",
    "UPDATE verbworker.payload_head SET content = 'x'",
    "UPDATE verbworker.job_frame SET output = 'x'",
    "INSERT INTO verbworker.process_deployment SELECT * FROM verbworker.process_deployment",
    "DELETE FROM verbworker.stall",
)


def _attacks() -> list[tuple[str, str]]:
    by_all = [f"UPDATE {table} SET {change}" for table, changes in _RECORD.items() for change in changes]
    by_all += [f"DELETE FROM {V}.{table}" for table in _KEPT]
    by_all += [f"TRUNCATE {V}.{table} CASCADE" for table in _KEPT]
    by_all += _DIRECT
    attacks = [(role, statement) for role in ROLES for statement in by_all]
    attacks += [(role, statement) for role in ROLES if role != "worker" for statement in _OTHERS]
    attacks += [(role, f"SELECT * FROM {V}.console_session") for role in ROLES if role != "console"]
    # A reader writes nothing at all.
    attacks += [("reader", f"INSERT INTO {V}.{table} DEFAULT VALUES") for table in _KEPT]
    return attacks


@pytest.fixture(scope="module")
def shared(database_template: Any) -> Any:
    """One database with a case of one tenant, and logins of every role."""
    with database_template.clone() as address:
        run_apart(execute(address, foreign.ROWS))
        yield address


@asynccontextmanager
async def session(dsn: str, role: str, tenant: str | None) -> AsyncIterator[Any]:
    """A session of a login of a role, as any program that has its password opens one."""
    settings = {} if tenant is None else {"verbworker.tenant": tenant}
    connection = await asyncpg.connect(login(dsn, role), server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("role", ROLES)
async def test_each_forbidden_change_is_refused(shared: str, role: str) -> None:
    statements = [statement for by, statement in _attacks() if by == role]
    got_through = []
    # In the tenant itself: the policies let it see these rows.
    async with session(shared, role, "*" if role == "worker" else foreign.TENANT) as attacker:
        for statement in statements:
            try:
                async with attacker.transaction():
                    await attacker.execute(statement)
            except REFUSED:
                continue
            except asyncpg.PostgresError as error:
                got_through.append(f"{statement}: {type(error).__name__}: {error}")
            else:
                got_through.append(statement)

    assert got_through == []
    assert len(statements) > 100


FINAL = {
    "a decision": ("UPDATE verbworker.gate_decision SET decision = 'x'", "is final"),
    "who decided": ("UPDATE verbworker.gate_decision SET decided_by = 'x'", "is final"),
    "why it was decided": ("UPDATE verbworker.gate_decision SET reason = 'x'", "is final"),
    "the id of who decided": ("UPDATE verbworker.gate_decision SET decided_by_id = gen_random_uuid()", "is final"),
    "an outcome": ("UPDATE verbworker.runbook_entry SET outcome = 'x'", "has ended"),
    "a status": ("UPDATE verbworker.runbook_entry SET status = 'failed'", "has ended"),
    "an end": ("UPDATE verbworker.runbook_entry SET ended_at = NULL, status = 'parked'", "has ended"),
    "when it ended": ("UPDATE verbworker.runbook_entry SET ended_at = now() - interval '1 year'", "has ended"),
    "an outcome, as if it was erased": ("UPDATE verbworker.runbook_entry SET outcome = '{}'", "has ended"),
    "no outcome": ("UPDATE verbworker.runbook_entry SET outcome = NULL", "has ended"),
    "an event": ("UPDATE verbworker.runbook_event SET kind = 'x'", "never changed"),
}


@pytest.mark.parametrize("what", FINAL)
async def test_what_is_final_is_final_for_the_owner_too(dsn: str, what: str) -> None:
    statement, words = FINAL[what]
    await execute(dsn, foreign.ROWS)
    await execute(dsn, "UPDATE verbworker.runbook_entry SET ended_at = now(), status = 'completed'")

    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=words):
        await execute(dsn, statement)


@pytest.mark.parametrize("role", ["worker", "console", "ingress"])
@pytest.mark.parametrize("what", [what for what, (_, words) in FINAL.items() if words == "has ended"])
async def test_no_role_changes_how_an_entry_ended(dsn: str, what: str, role: str) -> None:
    await execute(dsn, foreign.ROWS)
    await execute(dsn, "UPDATE verbworker.runbook_entry SET ended_at = now(), status = 'completed'")

    async with session(dsn, role, foreign.TENANT) as worker:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="has ended"):
            await worker.execute(FINAL[what][0])


# ---- rows of another tenant -----------------------------------------------------------------------------------------

LINE = re.compile(r"^\s+\('(?P<table>verbworker(?:_engine)?\.[a-z_]+)', '(?P<rows>[a-z_]+)',$", re.MULTILINE)
DECIDED = dict(LINE.findall(sql.roles()))
OF_TENANTS = sorted(table for table, rows in DECIDED.items() if rows != "all")
# Whoever sends the embedded engine something moves tokens of many cases at once, and sees its tables whole.
OF_ENGINE = [table for table in OF_TENANTS if DECIDED[table] == "engine"]


def moved_by(role: str) -> list[str]:
    """The tables that a role sees whole, because it moves tokens."""
    return [] if role == "reader" else OF_ENGINE


async def count(connection: Any, relation: str) -> int:
    number: int = await connection.fetchval(f"SELECT count(*) FROM {relation}")
    return number


async def test_every_table_of_tenants_has_a_row_of_the_other_tenant(shared: str) -> None:
    async with plain(shared) as owner:
        assert [table for table in OF_TENANTS if not await count(owner, table)] == []


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tenant", ["default", None, "", "%", "globex ", "GLOBEX"])
async def test_no_role_sees_a_row_of_another_tenant(shared: str, role: str, tenant: str | None) -> None:
    async with session(shared, role, tenant) as attacker:
        seen = {table: await count(attacker, table) for table in OF_TENANTS if table not in moved_by(role)}
        views = await attacker.fetch(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'v' AND relname LIKE $1"
            " AND relnamespace = 'verbworker'::regnamespace",
            "%",
        )
        seen |= {row[0]: await count(attacker, row[0]) for row in views if "session" not in row[0]}

    assert {name: number for name, number in seen.items() if number} == {}


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_sees_the_rows_of_its_tenant(shared: str, role: str) -> None:
    async with session(shared, role, foreign.TENANT) as own:
        assert [table for table in OF_TENANTS if not await count(own, table)] == []


_OF_NO_CASE = """
INSERT INTO verbworker.job_frame
SELECT (jsonb_populate_record(frame, jsonb_build_object('job_key', job_key + more.number, 'instance_uid', more.uid))).*
FROM verbworker.job_frame AS frame
CROSS JOIN (VALUES (2, NULL), (3, gen_random_uuid())) AS more (number, uid)
"""


@pytest.mark.parametrize("role", ROLES)
async def test_held_jobs_of_no_case_are_seen_in_every_tenant_by_who_resolves_them(dsn: str, role: str) -> None:
    async with plain(dsn) as owner:
        await owner.execute(foreign.ROWS)
        await owner.execute(f"SET session_replication_role = replica; {_OF_NO_CASE}")

    async with session(dsn, role, "default") as asking:
        seen = await asking.fetch("SELECT job_key - $1 AS key FROM verbworker.job_frame ORDER BY key", foreign.KEY)

    assert [row["key"] for row in seen] == ([] if role == "reader" else [2, 3])


@pytest.mark.parametrize("role", ROLES)
async def test_only_a_worker_sees_all_tenants(shared: str, role: str) -> None:
    async with session(shared, role, "*") as asking:
        seen = [table for table in OF_TENANTS if await count(asking, table)]

    assert seen == (OF_TENANTS if role == "worker" else moved_by(role))


@pytest.mark.parametrize("role", ["worker", "console", "ingress"])
async def test_no_role_writes_a_row_into_another_tenant(shared: str, role: str) -> None:
    async with session(shared, role, "default") as attacker:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await attacker.execute(
                "INSERT INTO verbworker.dead_letter (tenant_id, code, reason, sent_by, body)"
                " VALUES ($1, 'invalid', 'x', 'x', 'x')",
                foreign.TENANT,
            )
        for table in ("verbworker.runbook_event (entry_id, seq, at, kind, once, detail, status, hash)",):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await attacker.execute(
                    f"INSERT INTO {table} VALUES ($1, 9, now(), 'x', 'x', '{{}}', 'x', 'x')", foreign.ENTRY
                )


# ---- the statements of the product ----------------------------------------------------------------------------------

TENANT_CLAUSE = re.compile(r"\b(?:[a-z_]+\.)?tenant_id = (?:(\$\d+)|[a-z_]+\.tenant_id)")
# Run by the owner, by whoever tests an application, or by the doctor, who asks for the catalogue.
NOT_ROWS = ("migrations", "roles", "testing", "erasure", "checkup", "durability", "database", "pooled_connection")
NOW = datetime.now(UTC)
GIVEN: dict[str, Any] = {
    "uuid": foreign.ENTRY, "text": foreign.WORD, "int8": foreign.KEY, "int4": 100, "bool": True, "bytea": b"\x01",
    "interval": timedelta(0), "timestamptz": NOW, "jsonb": '{"k": "foreign-word"}', "float8": 1.0,
}  # fmt: skip


def given(kind: str) -> Any:
    """Something for a parameter, from the other tenant's case."""
    return [GIVEN[kind.removesuffix("[]")]] if kind.endswith("[]") else GIVEN[kind]


def without_tenant(statement: str) -> str:
    """A statement as a mistake would leave it: it asks for rows of all tenants. Its parameters stay."""
    return TENANT_CLAUSE.sub(lambda found: f"{found[1]}::text IS NOT NULL" if found[1] else "true", statement)


UUIDS = (foreign.ENTRY, foreign.INSTANCE, foreign.TOKEN, foreign.LETTER, foreign.OWNER)
MARKS = (*(str(uuid) for uuid in UUIDS), foreign.WORD, foreign.TENANT)


async def answers(connection: Any, statement: str, uuid: UUID) -> str:
    """What a statement says when it is given parts of the other tenant's case; nothing of it stays."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        prepared = await connection.prepare(statement)
        kinds = [kind.name for kind in prepared.get_parameters()]
        values = [uuid if kind == "uuid" else [uuid] if kind == "uuid[]" else given(kind) for kind in kinds]
        rows = await prepared.fetch(*values)
        return " ".join(repr(tuple(row.values())) for row in rows) + f" {prepared.get_statusmsg()}"
    except asyncpg.InsufficientPrivilegeError as error:
        return "" if "row-level security" in str(error) else f"refused: {error}"
    except asyncpg.PostgresError:
        return ""
    finally:
        await transaction.rollback()


def queries(role: str) -> list[tuple[str, str]]:
    return [
        (f"{store}.{name}", statement)
        for store in sql.stores()
        if store not in NOT_ROWS
        for name, statement in sql.queries(store).items()
        # The engine's tables are seen whole by whoever moves tokens.
        if role == "reader" or "verbworker_engine." not in statement
    ]


async def leaks(dsn: str, role: str, statements: list[tuple[str, str]], tenant: str) -> dict[str, str]:
    """The statements by which a session gets to see something of the other tenant, or changes it."""
    found = {}
    async with session(dsn, role, tenant) as connection:
        for name, statement in statements:
            for uuid in UUIDS:
                said = await answers(connection, statement, uuid)
                echoed = "unnest" in statement or "VALUES" in statement
                if any(mark in said for mark in MARKS) and not (echoed and "foreign" not in said):
                    found[name] = said
    return found


@pytest.mark.parametrize("role", ROLES)
async def test_no_query_without_its_tenant_clause_returns_another_tenants_rows(shared: str, role: str) -> None:
    open_ones = [(name, without_tenant(text)) for name, text in queries(role)]

    assert await leaks(shared, role, open_ones, "default") == {}


async def test_without_the_policies_they_would(shared: str) -> None:
    open_ones = [(name, without_tenant(text)) for name, text in queries("worker") if TENANT_CLAUSE.search(text)]
    everything = await leaks(shared, "worker", open_ones, "*")

    # Enough of them to make the test above one.
    assert len(everything) >= 15, sorted(everything)


# ---- every table is decided -----------------------------------------------------------------------------------------

TABLES = """
SELECT oid::regclass::text AS name, relrowsecurity AS is_closed
FROM pg_class
WHERE relnamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace) AND relkind IN ('r', 'p')
  AND NOT relispartition
"""


async def test_every_table_has_a_line_in_roles_sql(dsn: str) -> None:
    async with plain(dsn) as owner:
        there = {row["name"]: row["is_closed"] for row in await owner.fetch(TABLES)}

    assert there == {table: rows != "all" for table, rows in DECIDED.items()}


async def test_a_table_that_nobody_decided_about_is_closed(dsn: str) -> None:
    await execute(
        dsn, "CREATE TABLE verbworker.added (tenant_id text); INSERT INTO verbworker.added VALUES ('default')"
    )
    async with plain(dsn) as owner:
        assert await roles.reapply_in(owner)
    for role in ROLES:
        async with session(dsn, role, "default") as attacker:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await attacker.fetch("SELECT * FROM verbworker.added")


RIGHTS = """
SELECT grantee, table_schema || '.' || table_name, column_name, privilege_type
FROM information_schema.column_privileges
WHERE grantee LIKE 'verbworker\\_%' AND table_schema LIKE 'verbworker%'
"""


async def test_a_migration_gives_the_grants_anew(dsn: str) -> None:
    async with plain(dsn) as owner:
        before = {tuple(row) for row in await owner.fetch(RIGHTS)}
        await owner.execute(
            "REVOKE ALL ON ALL TABLES IN SCHEMA verbworker FROM verbworker_worker;"
            "GRANT ALL ON verbworker.runbook_event TO verbworker_reader;"
            "DROP POLICY own_tenant ON verbworker.dispatch"
        )
    await migrate(as_owner(dsn))

    async with plain(dsn) as owner:
        assert {tuple(row) for row in await owner.fetch(RIGHTS)} == before
        assert await owner.fetchval("SELECT count(*) FROM pg_policy WHERE polname = 'own_tenant'") == len(OF_TENANTS)


async def test_what_runs_as_the_owner_has_a_fixed_path_and_is_closed_to_public(dsn: str) -> None:
    async with plain(dsn) as owner:
        open_ones = await owner.fetch(
            """
            SELECT oid::regprocedure::text
            FROM pg_proc
            WHERE prosecdef AND pronamespace IN ('verbworker'::regnamespace, 'verbworker_engine'::regnamespace) AND (
              NOT 'search_path=pg_catalog, pg_temp' = ANY (proconfig)
              OR has_function_privilege('public', oid, 'EXECUTE')
              OR has_function_privilege('verbworker_reader', oid, 'EXECUTE')
            )
            """
        )

    assert [row[0] for row in open_ones] == []
