"""Ways around the rights of a role that need no right: shadows, leaks, settings, arguments of functions."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from tests.security.test_sql_roles import session
from tests.support import foreign
from tests.support.apart import run_apart
from tests.support.databases import execute, plain
from tests.support.logins import ROLES

pytestmark = pytest.mark.attack("SQL role")

LEAK = """
CREATE FUNCTION pg_temp.leak(word text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
$$ BEGIN RAISE NOTICE 'leaked %', word; RETURN true; END $$
"""
REFUSED = {
    "policies switched off": "SET row_security = off; SELECT sentence FROM verbworker.runbook_entry",
    "triggers switched off": "SET session_replication_role = replica",
    "another login": "SET SESSION AUTHORIZATION postgres",
    "another login of the tests": "SET ROLE vw_test_owner",
    "a role beside": "SET ROLE {other}",
    "a role given to oneself": "GRANT {other} TO CURRENT_USER",
    "a login that is exempt": "ALTER ROLE CURRENT_USER BYPASSRLS",
    "a login that is a superuser": "ALTER ROLE CURRENT_USER SUPERUSER",
    "a login of one's own": "CREATE ROLE mine LOGIN",
    "a setting for everyone": "ALTER DATABASE {database} SET verbworker.tenant = '*'",
    "a file read": "SELECT pg_read_file('/etc/passwd')",
    "a file of rows": "COPY public.mine FROM '/etc/passwd'",
    "a file written": "COPY (SELECT 1) TO '/tmp/written-by-an-attack'",
    "a program": "COPY (SELECT 1) TO PROGRAM 'touch /tmp/run-by-an-attack'",
    "a large object to a file": "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/exported-by-an-attack')",
    "a file as a large object": "SELECT lo_import('/etc/passwd')",
    "rows copied in": "COPY verbworker.runbook_event FROM STDIN",
    "a heir of a table": "CREATE TEMP TABLE mine () INHERITS (verbworker.runbook_entry)",
    "a partition": "CREATE TABLE public.mine PARTITION OF verbworker.job_frame_archive DEFAULT",
    "a rule": "CREATE RULE mine AS ON INSERT TO verbworker.runbook_event DO INSTEAD NOTHING",
    "an index with a function": "CREATE INDEX ON verbworker.runbook_entry (length(sentence))",
    "a key into a table": "CREATE TABLE public.mine (entry_id uuid REFERENCES verbworker.runbook_entry)",
    "statistics": "CREATE STATISTICS public.mine ON verb, sentence FROM verbworker.runbook_entry",
    "a comment": "COMMENT ON TABLE verbworker.runbook_event IS 'nothing to see'",
    "an event trigger": "CREATE EVENT TRIGGER mine ON ddl_command_start EXECUTE FUNCTION verbworker.cover_entry()",
    "a subscription": "CREATE PUBLICATION mine FOR ALL TABLES",
    "a replication slot": "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')",
    "a library": "LOAD '/tmp/mine.so'",
    "an extension": "CREATE EXTENSION dblink",
    "a language": "CREATE FUNCTION pg_temp.mine() RETURNS void LANGUAGE c AS '/tmp/mine.so', 'mine'",
    "a sequence set back": "SELECT setval('verbworker_engine.instance_number', 1)",
    "a function of the owner replaced": "CREATE OR REPLACE FUNCTION verbworker.sees_every_tenant() RETURNS boolean"
    " LANGUAGE sql AS 'SELECT true'",
    "a function made the owner's": "ALTER FUNCTION verbworker.append_event(uuid, text, text, jsonb) SECURITY DEFINER",
    "what the owner gives later": "ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT ALL ON TABLES TO PUBLIC",
    "the owner's session ended": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'",
    "a table locked": "LOCK TABLE verbworker.runbook_seal IN ACCESS EXCLUSIVE MODE",
    "a vacuum": "CLUSTER verbworker.runbook_entry",
    "owned things": "REASSIGN OWNED BY postgres TO CURRENT_USER",
    "a schema": "CREATE SCHEMA mine",
    "a security label": "SECURITY LABEL ON TABLE verbworker.runbook_entry IS 'x'",
}
_ERRORS = (
    *(asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError, asyncpg.UndefinedObjectError),
    *(asyncpg.InvalidParameterValueError, asyncpg.WrongObjectTypeError, asyncpg.InvalidObjectDefinitionError),
)


@pytest.fixture(scope="module")
def shared(database_template: Any) -> Iterator[str]:
    """A database with a case of another tenant."""
    with database_template.clone() as address:
        run_apart(execute(address, foreign.ROWS))
        yield address


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("role", ROLES)
async def test_no_role_gets_around_its_rights(shared: str, role: str, what: str) -> None:
    other = next(f"verbworker_{one}" for one in ROLES if one != role)
    async with session(shared, role, "default") as attacker:
        database = await attacker.fetchval("SELECT quote_ident(current_database())")
        statement = REFUSED[what].replace("{other}", other).replace("{database}", database)
        transaction = attacker.transaction()
        await transaction.start()
        try:
            with pytest.raises(_ERRORS):
                await attacker.execute(statement)
        finally:
            await transaction.rollback()


READS = {
    "a cheap function first": "SELECT sentence FROM verbworker.runbook_entry WHERE pg_temp.leak(sentence)",
    "a cheap function behind a view": "SELECT reason FROM verbworker.standstill WHERE pg_temp.leak(reason)",
    "an error with the value": "SELECT sentence FROM verbworker.runbook_entry WHERE sentence::int = 1",
    "a division by what is there": "SELECT 1 / (length(sentence) - length(sentence)) FROM verbworker.runbook_entry",
    "statistics of columns": "SELECT most_common_vals::text, histogram_bounds::text FROM pg_stats"
    " WHERE schemaname LIKE 'verbworker%' AND tablename NOT LIKE '%migration%'",
    "a copy": "SELECT * FROM (TABLE verbworker.runbook_event) AS copied",
    "a view of one's own": "SELECT * FROM pg_temp.mine",
    "a merge": "SELECT * FROM verbworker.dead_letter WHERE letter_id IN (SELECT letter_id FROM verbworker.dead_letter)",
    "rows as they lie": "SELECT ctid, sentence FROM verbworker.runbook_entry WHERE ctid = '(0,1)'",
    "a sample": "SELECT sentence FROM verbworker.runbook_entry TABLESAMPLE SYSTEM (100)",
    "only the table": "SELECT sentence FROM ONLY verbworker.runbook_entry",
    "partitions by name": "SELECT output FROM verbworker.job_frame_archive",
    "a whole row as text": "SELECT entry::text FROM verbworker.runbook_entry AS entry",
    "the table as XML": "SELECT table_to_xml('verbworker.runbook_entry', true, false, '')::text",
    "a query as XML": "SELECT query_to_xml('SELECT * FROM verbworker.runbook_entry', true, false, '')::text",
}


@pytest.mark.parametrize("tenant", ["default", "default,globex"])
@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("role", ROLES)
async def test_nothing_tells_of_another_tenant(shared: str, role: str, what: str, tenant: str) -> None:
    told: list[str] = []
    async with session(shared, role, tenant) as attacker:
        attacker.add_log_listener(lambda _, message: told.append(str(message)))
        await attacker.execute(LEAK)
        await attacker.execute("CREATE TEMP VIEW mine AS SELECT sentence, asked_by FROM verbworker.runbook_entry")
        try:
            told += [str(tuple(row.values())) for row in await attacker.fetch(READS[what])]
        except asyncpg.PostgresError as error:
            told.append(f"{error} {error.detail}")

    assert not [words for words in told if foreign.WORD in words]


WRITES = {
    "onto the row of another": "INSERT INTO verbworker.runbook_entry (entry_id, tenant_id, request_hash, verb,"
    f" verb_version, mode, sentence, invocation, args, asked_by) VALUES ('{foreign.ENTRY}', 'default', '', 'v', '1',"
    " 'sync', 's', 'i', '', 'me') ON CONFLICT (entry_id) DO UPDATE SET outcome = 'x'",
    "a status": "UPDATE verbworker.runbook_entry SET updated_at = now() RETURNING sentence",
    "a decision": "UPDATE verbworker.gate_decision SET acked_at = now() RETURNING reason",
    "a merge": f"MERGE INTO verbworker.runbook_entry AS entry USING (SELECT '{foreign.ENTRY}'::uuid AS id) AS mine"
    " ON entry.entry_id = mine.id WHEN MATCHED THEN UPDATE SET outcome = 'x'",
    "a lock": "SELECT sentence FROM verbworker.runbook_entry FOR UPDATE",
    "an event": f"SELECT verbworker.append_event('{foreign.ENTRY}', 'Cancelled', 'x', '{{}}')",
}


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("role", ["worker", "console", "ingress"])
async def test_nothing_is_written_for_another_tenant(shared: str, role: str, what: str) -> None:
    async with plain(shared) as owner:
        before = await owner.fetch("SELECT outcome, updated_at, last_seq FROM verbworker.runbook_entry")
        async with session(shared, role, "default") as attacker:
            try:
                rows = await attacker.fetch(WRITES[what])
            except asyncpg.PostgresError as error:
                rows = [{"error": str(error)}]

        assert not [row for row in rows if foreign.WORD in str(tuple(row.values()))]
        assert await owner.fetch("SELECT outcome, updated_at, last_seq FROM verbworker.runbook_entry") == before


ARGUMENTS = {
    "a table without a rule": "SELECT verbworker.drop_retired('runbook_entry', 'infinity', 100)",
    "payloads one by one": "SELECT verbworker.drop_retired('payload', 'infinity', 100)",
    "two statements": "SELECT verbworker.drop_retired('dead_letter; DELETE FROM verbworker.runbook_event', now(), 1)",
    "a name with a quote": "SELECT verbworker.drop_retired('x\" USING verbworker.\"runbook_event', now(), 1)",
    "a view of one's own": "SELECT verbworker.drop_retired('mine', 'infinity', 100)",
    "what is counted": "SELECT verbworker.count_retired('x'' OR true --', now(), 1)",
    "an open entry": "SELECT verbworker.drop_entries("
    f"ARRAY['{foreign.ENTRY}'::uuid], ARRAY['\\x01'::bytea], 'infinity')",
    "payloads of an open case": "SELECT verbworker.drop_payloads('infinity', 100)",
    "every frame": "SELECT verbworker.archive_frames('-1000 years', 100)",
    "every copy": "SELECT verbworker.prune_frames('-1000 years', -1)",
    "archived frames of an open case": "SELECT verbworker.drop_archived_frames('2300-01-01', 100)",
    "a running frame": f"SELECT verbworker.displace_frame('{foreign.ENGINE}', {foreign.KEY}, 0)",
    "a month without end": "SELECT verbworker.ensure_archive_month('infinity')",
    "a month before all": "SELECT verbworker.ensure_archive_month('-infinity')",
}
# What a function of the owner must leave: every row of an open case.
_LEFT = """
SELECT (SELECT count(*) FROM verbworker.runbook_entry), (SELECT count(*) FROM verbworker.runbook_event),
  (SELECT count(*) FROM verbworker.payload_head), (SELECT count(*) FROM verbworker.job_frame),
  (SELECT count(*) FROM verbworker.job_frame_archive WHERE instance_uid IS NOT NULL),
  (SELECT count(*) FROM pg_inherits WHERE inhparent = 'verbworker.job_frame_archive'::regclass)
"""


@pytest.mark.parametrize("what", ARGUMENTS)
async def test_no_argument_makes_a_function_of_the_owner_do_more(shared: str, what: str) -> None:
    async with plain(shared) as owner:
        before = await owner.fetchrow(_LEFT)
        async with session(shared, "worker", "*") as attacker:
            await attacker.execute(
                "CREATE TEMP VIEW retired_mine AS SELECT ctid AS place, now() AS since FROM pg_class"
            )
            await attacker.execute("CREATE TEMP TABLE mine (x text); SET search_path = pg_temp, verbworker, public")
            with suppress(asyncpg.PostgresError):
                await attacker.execute(ARGUMENTS[what])

        assert await owner.fetchrow(_LEFT) == before


SHADOWS = {
    "a table of the same name": "CREATE TEMP TABLE runbook_entry (LIKE verbworker.runbook_entry);"
    " CREATE TEMP TABLE workflow_instance (LIKE verbworker.workflow_instance)",
    "functions of the same name": "CREATE FUNCTION pg_temp.sees_every_tenant() RETURNS boolean LANGUAGE sql"
    " AS 'SELECT true'; CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql"
    " AS 'SELECT true'",
    "a setting of the same name": "SET LOCAL verbworker.tenant = '*'",
    "roles of the same name": "CREATE TEMP VIEW pg_roles AS"
    " SELECT 'verbworker_worker'::name AS rolname, oid FROM pg_database LIMIT 1",
}


@pytest.mark.parametrize("what", SHADOWS)
@pytest.mark.parametrize("role", ["console", "ingress"])
async def test_a_shadow_on_the_search_path_opens_no_function_of_the_owner(shared: str, role: str, what: str) -> None:
    async with session(shared, role, "default") as attacker:
        transaction = attacker.transaction()
        await transaction.start()
        try:
            await attacker.execute("SET LOCAL search_path = pg_temp, public, pg_catalog")
            try:
                async with attacker.transaction():
                    await attacker.execute(SHADOWS[what])
            except asyncpg.InsufficientPrivilegeError:
                pass
            found = await attacker.fetch(
                "SELECT * FROM verbworker.find_addressees($1, $2, $3, $4)",
                *(foreign.ENGINE, foreign.WORD, [foreign.WORD], ["k"]),
            )
        finally:
            await transaction.rollback()

    # That another tenant has the key is told, and nothing of its case.
    assert [(row["tenant_id"], row["entry_id"].int) for row in found] == [("", 0)]
