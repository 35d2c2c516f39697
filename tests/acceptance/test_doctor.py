"""`verbworker doctor`: what an operator reads before the first job, and when something is wrong."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from tests.support.command import verbworker
from tests.support.databases import empty_database, execute
from tests.support.doctor_app import EMBEDDED, Clinic, grants, report
from tests.support.embedded import EmbeddedPlace
from tests.support.engines import Gateway
from tests.support.models import one_task
from tests.support.ports import LOOPBACK, free_ports
from tests.support.postgres import ForeignPostgres, Postgres, run_apart
from tests.support.recorded_8_10 import answering, over_grpc
from tests.support.shop import make_shop
from tests.support.zeebe import Broker

SECRET = "s3cr3t-w0rd"
KEYS = json.dumps({"k1": "a-key-of-more-than-thirty-two-letters"})


@pytest.fixture
def clinic(tmp_path: Path, dsn: str, unique: Callable[[str], str]) -> Clinic:
    return Clinic(make_shop(tmp_path, unique("x").removeprefix("x-")), dsn)


def changed(dsn: str, **parts: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(**parts))


def test_where_all_is_well_every_line_says_so(clinic: Clinic) -> None:
    clinic.deploy()

    told = clinic.full()

    assert (told.said.code, told.of("warn", "wrong")) == (0, [])
    assert list(told.lines) == [
        *("database", "postgres version", "durability", "migrations", "role", "permissions", "clock"),
        *("engine id", "engine", "engine version", "streaming", "engine clock", "application", "keys"),
        *(f"model {clinic.shop.process}", "verbs"),
        *(
            "workers",
            "leases",
            "gates",
            "held frames",
            "endless runs",
            "dispatches",
            "decisions",
            "messages",
            "dead letters",
        ),
        *("stalled", "overdue backoffs", "overdue timers", "stalled messages"),
        *("quotas", "retention", "seals"),
    ]


def test_a_program_gets_the_same_as_json(clinic: Clinic) -> None:
    clinic.deploy()

    rows = clinic.json("doctor", "processes", "--app", "shop:registry")

    assert {row["verdict"] for row in rows} == {"ok"}
    assert all(row["check"] and row["found"] for row in rows)


def test_a_mistyped_setting_is_told_before_the_first_line(clinic: Clinic) -> None:
    said = clinic.run("doctor", VERBWORKER_ENGIN_TIMEOUT="5")

    words = "VERBWORKER_ENGIN_TIMEOUT is not a setting and is ignored; did you mean VERBWORKER_ENGINE_TIMEOUT?"
    assert said.err == f"verbworker: {words}\n"


def test_without_a_database_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    said = verbworker("doctor", directory=tmp_path, **EMBEDDED)

    assert said.code == 2
    assert said.sentence() == "verbworker: no database is set; set VERBWORKER_DSN or pass --dsn"


def test_what_stands_on_a_lost_database_is_not_called_well(clinic: Clinic) -> None:
    lost = f"postgresql://kyc:{SECRET}@{LOOPBACK}:{free_ports(1)[0]}/cases"

    told = clinic.full(VERBWORKER_DSN=lost)

    assert told.said.code == 1
    assert "cannot be reached" in told.lines["database"].found
    assert told.of("ok") == ["engine id", "application", "keys"]
    for name in ("migrations", "permissions", "clock", "models", "verbs", "gates", "dispatches"):
        assert told.lines[name].verdict == "warn"
        assert told.lines[name].found.startswith("not checked: ")
    assert SECRET not in told.said.out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_is_ever_shown(clinic: Clinic, form: tuple[str, ...]) -> None:
    secret = urlsplit(clinic.dsn).password or "no password at all"
    wrong_password = clinic.dsn.replace(secret, SECRET)
    unreadable = f"postgresql://kyc:{SECRET}/{SECRET}@{LOOPBACK}/cases"

    for dsn in (clinic.dsn, wrong_password, unreadable):
        said = clinic.run(
            *("doctor", "--app", "shop:registry", *form), VERBWORKER_DSN=dsn, VERBWORKER_INTEGRITY_KEYS=KEYS
        )

        assert "database" in said.out
        for word in (secret, SECRET, "a-key-of-more"):
            assert word not in said.out + said.err


def test_a_server_that_never_answers_costs_no_more_than_the_time_limit(clinic: Clinic) -> None:
    with socket.create_server((LOOPBACK, 0)) as deaf:
        address = f"postgresql://kyc:{SECRET}@{LOOPBACK}:{deaf.getsockname()[1]}/cases"
        told = clinic.doctor("--timeout", "0.3", VERBWORKER_DSN=address)

    assert told.said.code == 1
    assert told.lines["database"].found == "no answer within 0.3 s"


def test_a_database_that_was_never_migrated_says_what_to_run(
    clinic: Clinic, postgres: Postgres | ForeignPostgres
) -> None:
    with empty_database(postgres.dsn) as empty:
        told = clinic.doctor(VERBWORKER_DSN=empty)

    assert told.said.code == 1
    assert (told.lines["migrations"].verdict, told.lines["migrations"].fix) == ("wrong", "run: verbworker db migrate")
    assert told.lines["gates"].found == "not checked: migrations failed"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE verbworker.migration SET checksum = 'x' WHERE name LIKE '0001%'", "changed after it was applied"),
        ("INSERT INTO verbworker.migration (name, checksum) VALUES ('9999_later', 'x')", "does not know"),
        ("DELETE FROM verbworker.migration WHERE name LIKE '0008%'", "1 missing: 0008_embedded_engine"),
    ],
)
def test_a_schema_that_is_not_as_shipped_is_wrong(clinic: Clinic, statement: str, words: str) -> None:
    run_apart(execute(clinic.dsn, statement))

    told = clinic.doctor()

    assert (told.said.code, told.lines["migrations"].verdict) == (1, "wrong")
    assert words in told.lines["migrations"].found


@pytest.fixture
def role(dsn: str) -> Iterator[str]:
    """A role that may do what a worker does, and no more."""
    name = f"worker_{uuid4().hex[:8]}"
    run_apart(execute(dsn, f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'; {grants(name)}"))
    yield name
    run_apart(execute(dsn, f"DROP OWNED BY {name}; DROP ROLE {name}"))


def as_role(dsn: str, name: str) -> str:
    parts = urlsplit(dsn)
    return changed(dsn, netloc=f"{name}:{SECRET}@{parts.hostname}:{parts.port}")


def test_a_role_with_the_rights_of_a_worker_is_well(clinic: Clinic, role: str) -> None:
    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role))

    assert told.lines["permissions"].verdict == "ok"
    assert (told.of("wrong"), SECRET in told.said.out) == ([], False)


def test_a_role_that_may_not_tidy_up_is_told_how_to(clinic: Clinic, role: str) -> None:
    name = "verbworker.ensure_archive_month(timestamptz)"
    run_apart(execute(clinic.dsn, f"REVOKE EXECUTE ON FUNCTION {name} FROM verbworker_worker"))
    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role)).lines["permissions"]

    assert (told.verdict, name in told.found) == ("warn", True)
    assert told.fix == f'as an administrator: verbworker db roles, then GRANT verbworker_worker TO "{role}"'


_OLD_LETTER = """
INSERT INTO verbworker.dead_letter (tenant_id, code, reason, body, sent_by, state, resolved_at)
VALUES ('default', 'invalid', 'no JSON', 'x', 'portal', 'discarded', clock_timestamp() - interval '92 days')
"""


def test_rows_that_should_be_gone_are_a_warning_with_the_way_to_hear_why(clinic: Clinic) -> None:
    before = clinic.doctor().lines["retention"]
    run_apart(execute(clinic.dsn, _OLD_LETTER))
    told = clinic.doctor().lines["retention"]

    assert (before.verdict, before.found[:16]) == ("ok", "0 row(s) are due")
    assert "kept forever: runbook_entry" in before.found
    assert (told.verdict, told.fix) == ("warn", "check that a worker runs; for the reason: verbworker db retention")
    assert told.found == "1 of dead_letter are overdue by more than a day"


def test_a_table_that_grows_for_ever_is_a_warning_unless_it_is_meant(clinic: Clinic) -> None:
    run_apart(execute(clinic.dsn, "UPDATE pg_class SET reltuples = 2e6 WHERE relname = 'runbook_entry'"))
    told = clinic.doctor().lines["retention"]
    meant = clinic.doctor(VERBWORKER_KEEP_ENTRIES="forever").lines["retention"]

    assert (told.verdict, meant.verdict) == ("warn", "ok")
    assert told.found == "verbworker.runbook_entry has about 2,000,000 rows and is kept forever"
    assert told.fix == "set VERBWORKER_KEEP_ENTRIES, to forever if that is intended"


def test_seals_without_a_key_and_a_changed_one_are_reported(clinic: Clinic) -> None:
    sealed = clinic.run("runbook", "seal", "--json")
    signed = clinic.doctor().lines["seals"]
    unsigned = clinic.doctor(VERBWORKER_SEAL_KEYS="{}").lines["seals"]

    assert (sealed.code, signed.verdict, signed.found) == (0, "ok", "0 tenant(s), 0 seal(s), k1 signs")
    assert (unsigned.verdict, unsigned.fix) == ("warn", "set VERBWORKER_SEAL_KEYS")
    clinic.deploy()
    clinic.start_case()
    clinic.run("runbook", "seal")
    run_apart(
        execute(clinic.dsn, "SET session_replication_role = replica; UPDATE verbworker.runbook_seal SET at = now()")
    )
    changed = clinic.doctor().lines["seals"]
    assert (changed.verdict, changed.fix) == ("wrong", "verify it: verbworker runbook verify")


def test_an_export_directory_that_cannot_be_written_to_is_wrong(clinic: Clinic) -> None:
    told = clinic.doctor(VERBWORKER_EXPORT_DIR="/nowhere").lines["retention"]

    assert (told.verdict, "/nowhere is not a directory" in told.found) == ("wrong", True)


@pytest.mark.parametrize(
    ("taken", "named"),
    [
        ("UPDATE ON verbworker.job_frame", "UPDATE ON verbworker.job_frame"),
        ("USAGE ON SEQUENCE verbworker_engine.instance_number", "USAGE ON SEQUENCE verbworker_engine.instance_number"),
        ("USAGE ON SCHEMA verbworker_engine", "USAGE ON SCHEMA verbworker_engine"),
    ],
)
def test_a_right_that_is_missing_is_named_with_what_grants_it(
    clinic: Clinic, role: str, taken: str, named: str
) -> None:
    run_apart(execute(clinic.dsn, f"REVOKE {taken} FROM verbworker_worker"))

    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role))

    assert (told.said.code, told.lines["permissions"].verdict) == (1, "wrong")
    line = told.lines["permissions"]
    assert (named in line.found, line.fix) == (
        True,
        f'as an administrator: verbworker db roles, then GRANT verbworker_worker TO "{role}"',
    )


@pytest.mark.parametrize(("made", "words"), [("SUPERUSER", "a superuser"), ("BYPASSRLS", "exempt from row level")])
def test_a_login_that_no_right_holds_for_is_wrong_unless_it_is_meant(
    clinic: Clinic, role: str, made: str, words: str
) -> None:
    run_apart(execute(clinic.dsn, f"ALTER ROLE {role} {made}"))
    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role)).lines["role"]
    meant = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role), VERBWORKER_OWNER_LOGIN="allow").lines["role"]

    assert (told.verdict, words in told.found, meant.verdict) == ("wrong", True, "ok")
    assert told.fix.startswith("as an administrator: verbworker db roles, then GRANT verbworker_worker TO ")


def test_the_owner_of_the_tables_is_no_login_for_a_worker(clinic: Clinic, role: str) -> None:
    run_apart(execute(clinic.dsn, f"ALTER TABLE verbworker.runbook_entry OWNER TO {role}"))
    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, role))
    run_apart(execute(clinic.dsn, "ALTER TABLE verbworker.runbook_entry OWNER TO CURRENT_USER"))

    assert (told.said.code, told.lines["role"].verdict) == (1, "wrong")
    assert "is the owner of the tables: it may rewrite the record, and see all tenants" in told.lines["role"].found


def test_a_login_with_grants_by_hand_is_told_which_role_it_should_have(clinic: Clinic) -> None:
    name = f"byhand_{uuid4().hex[:8]}"
    words = f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'; GRANT USAGE ON SCHEMA verbworker TO {name};"
    run_apart(execute(clinic.dsn, words + f"GRANT SELECT ON ALL TABLES IN SCHEMA verbworker TO {name}"))
    told = clinic.doctor(VERBWORKER_DSN=as_role(clinic.dsn, name)).lines["role"]
    run_apart(execute(clinic.dsn, f"DROP OWNED BY {name}; DROP ROLE {name}"))

    assert (told.verdict, f'GRANT verbworker_worker TO "{name}"' in told.fix) == ("warn", True)


def test_a_clock_that_somebody_moved_is_seen(clinic: Clinic) -> None:
    EmbeddedPlace(clinic.dsn).advance(3600)

    told = clinic.doctor()

    assert told.lines["engine clock"].verdict == "wrong"
    assert "3600 s" in told.lines["engine clock"].found
    assert told.lines["clock"].verdict == "ok"


def test_a_model_that_is_not_deployed_is_wrong(clinic: Clinic) -> None:
    clinic.write_model()

    told = clinic.full()

    line = told.lines[f"model {clinic.shop.process}"]
    assert (told.said.code, line.verdict) == (1, "wrong")
    assert line.found == "processes/order/process.bpmn is not deployed"
    assert line.fix == "deploy it: verbworker deploy processes/order/process.bpmn --app shop:registry"


def test_a_model_that_was_edited_since_is_told_apart_from_what_runs(clinic: Clinic) -> None:
    clinic.deploy()
    clinic.write_model(one_task(clinic.shop.process, clinic.shop.verb).replace(b'id="end"', b'id="end" name="Done"'))

    told = clinic.full()

    line = told.lines[f"model {clinic.shop.process}"]
    assert (told.said.code, line.verdict) == (0, "warn")
    assert line.found.startswith("processes/order/process.bpmn differs from version 1, deployed ")


def test_a_workflow_verb_that_no_model_performs_is_wrong(clinic: Clinic) -> None:
    told = clinic.doctor("--app", "shop:registry")

    line = told.lines[f"model {clinic.shop.process}"]
    assert (told.said.code, line.verdict) == (1, "wrong")
    assert line.found == "shop.order cannot be started: its model is not deployed"


def test_a_job_that_no_verb_serves_is_found_in_what_is_deployed(clinic: Clinic) -> None:
    clinic.deploy()
    clinic.shop.rewrite(clinic.shop.verb, "shop.renamed", sleep="await asyncio.sleep(0.02)")

    told = clinic.doctor("--app", "shop:registry")

    line = told.lines[f"verb {clinic.shop.verb}"]
    assert (told.said.code, line.verdict) == (1, "wrong")
    assert line.found == f"no verb of this registry serves task of {clinic.shop.process}, version 1"


def test_an_application_that_cannot_be_imported_is_a_line_and_no_end(clinic: Clinic) -> None:
    told = clinic.doctor("--app", "nowhere:registry")

    assert told.said.code == 1
    assert told.lines["application"].verdict == "wrong"
    assert told.lines["verbs"].found == "not checked: application failed"
    assert told.lines["gates"].verdict == "ok"


def test_without_an_application_its_verbs_are_not_called_well(clinic: Clinic) -> None:
    told = clinic.doctor()

    assert told.said.code == 0
    assert told.of("warn") == ["application", "keys", "models", "verbs"]
    assert told.lines["application"].fix == "pass --app module:attribute"


def test_signed_payloads_without_a_key_are_wrong(tmp_path: Path, dsn: str, unique: Callable[[str], str]) -> None:
    clinic = Clinic(make_shop(tmp_path, unique("x").removeprefix("x-"), integrity="signed"), dsn)

    without = clinic.doctor("--app", "shop:registry")
    with_key = clinic.doctor("--app", "shop:registry", VERBWORKER_INTEGRITY_KEYS=KEYS)

    assert (without.lines["keys"].verdict, "VERBWORKER_INTEGRITY_KEYS" in without.lines["keys"].fix) == ("wrong", True)
    assert with_key.lines["keys"].found == "1 workflow verb(s) are signed; k1 signs, 1 key(s) verify"


def test_a_gate_that_waits_for_days_is_worth_a_look(clinic: Clinic) -> None:
    clinic.put_gate(hours=1)
    fresh = clinic.doctor().lines["gates"]
    clinic.put_gate(hours=48)
    late = clinic.doctor().lines["gates"]

    assert (fresh.verdict, fresh.found) == ("ok", "1 gate(s) wait for a person, the longest for 1 h")
    assert late.verdict == "warn"
    assert late.found == "2 gate(s) wait for a person, the longest for 2 d; 1 for more than 1 d"
    assert late.fix == "list them: verbworker gates list"


_BOOT = """
INSERT INTO verbworker.worker_boot (owner, name, host, pid, engine_id, seen_at, ended_at)
VALUES (gen_random_uuid(), 'w-1', 'host-1', 7, $1, clock_timestamp() - $2 * interval '1 minute', {})
"""


def test_open_cases_that_no_worker_serves_are_worth_a_look(clinic: Clinic) -> None:
    clinic.deploy()
    before = clinic.full().lines["workers"]
    clinic.start_case()
    never = clinic.full().lines["workers"]
    run_apart(execute(clinic.dsn, _BOOT.format("NULL"), "embedded", 180))
    run_apart(execute(clinic.dsn, _BOOT.format("clock_timestamp()"), "embedded", 0))
    run_apart(execute(clinic.dsn, _BOOT.format("NULL"), "another", 0))
    dead = clinic.full().lines["workers"]
    run_apart(execute(clinic.dsn, _BOOT.format("NULL"), "embedded", 1))
    alive = clinic.full().lines["workers"]

    assert (before.verdict, before.found) == ("ok", "no worker runs, and no case is open")
    assert (never.verdict, never.found) == ("warn", "no worker runs for embedded, but 1 case(s) are open")
    assert never.fix == "start one: verbworker worker --app shop:registry"
    assert dead.verdict == "warn"
    assert "1 case(s) are open; the last was w-1 on host-1, " in dead.found
    assert (alive.verdict, alive.found) == ("ok", "1 worker(s) run, 1 case(s) are open")


def test_a_start_that_nobody_took_is_stuck_with_the_reason(clinic: Clinic) -> None:
    clinic.deploy()
    clinic.start_case()
    run_apart(execute(clinic.dsn, "UPDATE verbworker.dispatch SET created_at = created_at - interval '1 hour'"))

    (row,) = clinic.entries("--stuck", "60")

    assert row["reason"].startswith("it waits to be started on the engine ")
    assert row["reason"].endswith("; no worker of that engine asked it, or it did not answer")
    assert clinic.entries("--stuck", "7200") == []
    assert "it waits to be started" in clinic.run("runbook", "list", "--stuck", "60").out


_MESSAGE = """
INSERT INTO verbworker.inbox_message (
  tenant_id, message_id, message_name, correlation_key, body_hash, sent_by, engine_id, ttl, expires_at, received_at,
  last_error
) VALUES (
  'default', gen_random_uuid()::text, 'paid', 'k', '', 'portal', 'embedded', '1 day', clock_timestamp() + '1 day',
  clock_timestamp() - $1 * interval '1 minute', 'no case has the key yet'
)
"""


def test_messages_that_wait_long_are_worth_a_look(clinic: Clinic) -> None:
    run_apart(execute(clinic.dsn, _MESSAGE, 1))
    fresh = clinic.doctor().lines["messages"]
    run_apart(execute(clinic.dsn, _MESSAGE, 60))
    late = clinic.doctor().lines["messages"]

    assert fresh.verdict == "ok"
    assert fresh.found.startswith("1 message(s) wait to be delivered, the longest for 1")
    assert late.verdict == "warn"
    assert late.found.endswith("; 1 for more than 5 min (no case has the key yet)")
    assert late.fix.startswith("see the lines workers and engine")


def test_with_the_broker_away_the_backlog_is_told_all_the_same(clinic: Clinic) -> None:
    away = {"VERBWORKER_ENGINE": "zeebe", "VERBWORKER_ENGINE_ID": "embedded", "VERBWORKER_STREAMING": "false"}
    clinic.deploy()
    clinic.start_case()
    run_apart(execute(clinic.dsn, _MESSAGE, 60))

    told = clinic.doctor("--timeout", "1", ZEEBE_ADDRESS=f"{LOOPBACK}:{free_ports(1)[0]}", **away)

    assert told.lines["engine"].verdict == "wrong"
    assert [told.lines[name].verdict for name in ("workers", "messages")] == ["warn", "warn"]


def test_what_is_held_or_undeliverable_is_worth_a_look(clinic: Clinic) -> None:
    clinic.put_held(7)
    clinic.put_letter()

    told = clinic.doctor()

    assert told.said.code == 0
    assert told.lines["held frames"].found.endswith("(shop.charge NoCustomer)")
    assert told.lines["dead letters"].found.endswith("(invalid)")
    assert (told.lines["held frames"].verdict, told.lines["dead letters"].verdict) == ("warn", "warn")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("job", "stalled"),
        ("backoff", "overdue backoffs"),
        ("timer", "overdue timers"),
        ("message", "stalled messages"),
    ],
)
def test_what_the_workers_named_as_standing_still_is_told_with_what_to_do(
    clinic: Clinic, kind: str, check: str
) -> None:
    clinic.put_stall(kind, minutes=5)
    entry = clinic.put_stall(kind, minutes=90)

    told = clinic.doctor()

    line = told.lines[check]
    assert (told.said.code, line.verdict) == (0, "warn")
    assert line.found.startswith("2 ")
    assert f"the longest for 1.5 h (entry {entry}): nothing came after it" in line.found
    assert line.fix == "restart the broker"


def test_a_start_that_nobody_brought_to_the_engine_is_worth_a_look(clinic: Clinic) -> None:
    asked = clinic.run("start", '(shop.order :item "a ring")', "--app", "shop:registry")
    assert asked.code == 0, asked.err
    run_apart(execute(clinic.dsn, "UPDATE verbworker.dispatch SET created_at = created_at - interval '5 minutes'"))

    line = clinic.doctor().lines["dispatches"]

    assert line.verdict == "warn"
    assert line.found.startswith("1 start(s) wait for the engine, the longest for 5")
    assert line.fix == "see the lines workers, engine and models"


def test_an_engine_without_a_name_stops_what_is_kept_under_it(clinic: Clinic) -> None:
    told = clinic.doctor(VERBWORKER_ENGINE="zeebe")

    assert (told.said.code, told.of("wrong")) == (1, ["engine id"])
    assert told.lines["engine"].found == "not checked: engine id failed"


def test_an_engine_that_nobody_serves_is_wrong(clinic: Clinic) -> None:
    away = f"{LOOPBACK}:{free_ports(1)[0]}"

    told = clinic.doctor("--timeout", "3", VERBWORKER_ENGINE="zeebe", VERBWORKER_ENGINE_ID="away", ZEEBE_ADDRESS=away)

    assert (told.said.code, told.of("wrong")) == (1, ["engine"])
    assert told.lines["streaming"].found == "not checked: engine failed"
    assert told.lines["migrations"].verdict == "ok"


@pytest.mark.zeebe
def test_a_real_broker_is_told_with_its_version_and_what_it_can_do(clinic: Clinic, broker: Gateway) -> None:
    settings = {"VERBWORKER_ENGINE": "zeebe", "VERBWORKER_ENGINE_ID": f"doctor-{uuid4().hex[:8]}"}
    settings["ZEEBE_ADDRESS"] = broker.address
    if isinstance(broker, Broker):
        settings["ZEEBE_REST_ADDRESS"] = broker.rest_address
    clinic.deploy(**settings)

    told = clinic.full(**settings)

    assert (told.said.code, told.of("wrong")) == (0, [])
    assert "grants access, 1 broker(s), 1 partition(s)" in told.lines["engine"].found
    assert told.lines["engine version"].found.startswith("Zeebe 8.6.0: execution listeners yes, cancel listeners no")
    assert told.lines["engine version"].fix == "upgrade the cluster to 8.8 or newer"
    assert told.lines["engine timeouts"].found.startswith("Zeebe 8.6.0 loses job timeouts")
    assert told.lines["streaming"].found == "the engine keeps a stream open"
    assert told.lines["engine clock"].verdict == "ok" or not isinstance(broker, Broker)
    assert told.lines[f"model {clinic.shop.process}"].verdict == "ok"
    if isinstance(broker, Broker):
        assert told.lines["engine APIs"].verdict == "ok"
        assert told.lines["engine APIs"].found.startswith(
            "gRPC yes, REST yes, search no (404 Not Found); off: incidents"
        )


@pytest.mark.zeebe
def test_a_broker_without_grpc_is_told_with_what_is_off(clinic: Clinic, broker: Gateway) -> None:
    if not isinstance(broker, Broker):
        pytest.skip("only a broker of our own has a REST address that is known here")
    settings = {"VERBWORKER_ENGINE": "zeebe", "VERBWORKER_ENGINE_ID": f"doctor-{uuid4().hex[:8]}"}
    settings |= {"ZEEBE_ADDRESS": f"{LOOPBACK}:{free_ports(1)[0]}", "ZEEBE_REST_ADDRESS": broker.rest_address}
    clinic.deploy(**settings)

    told = clinic.full(**settings)

    assert (told.said.code, told.of("wrong")) == (0, [])
    assert told.lines["engine APIs"].found.startswith("gRPC no (")
    assert "off: pushed jobs (they are polled)" in told.lines["engine APIs"].found
    assert told.lines["streaming"].found == "REST has no streams; jobs are polled"


_LEASING = """
INSERT INTO verbworker.worker_boot (owner, name, host, pid, engine_id, leases)
VALUES (gen_random_uuid(), $2, 'host-1', 7, $1, $3)
"""


async def test_workers_with_and_without_leases_are_worth_a_look(clinic: Clinic) -> None:
    topology = next(one for one in over_grpc("Topology"))
    async with answering(topology) as (address, _):
        settings = {"VERBWORKER_ENGINE": "zeebe", "VERBWORKER_ENGINE_ID": "leasing", "ZEEBE_ADDRESS": address}
        with_leases = {**settings, "VERBWORKER_ENGINE_LEASES": "on"}

        async def line(environment: dict[str, str]) -> Any:
            told = await asyncio.to_thread(lambda: clinic.doctor("--timeout", "60", **environment))
            return told.lines["leases"]

        off, on = await line(settings), await line(with_leases)
        await execute(clinic.dsn, _LEASING, "leasing", "new", True)
        forgotten = await line(settings)
        await execute(clinic.dsn, _LEASING, "leasing", "old", False)
        mixed = await line(with_leases)

    assert (off.verdict, on.verdict) == ("ok", "ok")
    assert on.found == "on: the engine refuses late workers; 0 worker(s) run with them"
    assert forgotten.verdict == "warn"
    assert forgotten.fix == "set VERBWORKER_ENGINE_LEASES=on here too"
    assert mixed.verdict == "warn"
    assert mixed.found.startswith("1 worker(s) take jobs without leases (old on host-1), and new on host-1 does;")
    assert mixed.fix == "set VERBWORKER_ENGINE_LEASES to the same for all workers of this cluster"


def test_an_unknown_option_is_no_traceback(tmp_path: Path) -> None:
    said = verbworker("doctor", "--colour", directory=tmp_path)

    assert said.code == 2
    assert "Traceback" not in said.err + said.out
    assert report(verbworker("doctor", directory=tmp_path, dsn="postgresql://x@127.0.0.1:9/x", **EMBEDDED)).of("wrong")
