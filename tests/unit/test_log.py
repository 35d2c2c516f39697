"""Log lines: one record a line, its fields by name, and nothing that must stay where it is."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from verbworker.app import logging as log
from verbworker.background.outages import ENGINE, POSTGRES, Outage
from verbworker.errors import StoreUnavailable
from verbworker.stores.database import Database

SECRET = "s3cr3t-w0rd-of-some-length"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was found."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.raiseExceptions)
    yield
    root.handlers[:], root.level, logging.raiseExceptions = before


def lines(*, as_json: bool = True, level: str = "info", **record: Any) -> str:
    """What one record of `verbworker.work` looks like."""
    stream = io.StringIO()
    log.set_up(as_json=as_json, level=level, stream=stream)
    logging.getLogger("verbworker.work").log(record.pop("at", logging.INFO), record.pop("message", "done"), **record)
    return stream.getvalue()


def test_a_record_is_one_json_object_with_its_fields() -> None:
    (line,) = lines(extra={"job_key": 7, "verb": "kyc.check", "entry": UUID(int=1), "late": None}).splitlines()
    told = json.loads(line)

    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "info",
        "logger": "verbworker.work",
        "message": "done",
        "job_key": 7,
        "verb": "kyc.check",
        "entry": str(UUID(int=1)),
        "late": None,
    }


def test_a_line_break_in_a_message_stays_inside_its_line() -> None:
    assert len(lines(message="one\ntwo").splitlines()) == 1


def test_a_field_cannot_pretend_to_be_the_level() -> None:
    told = json.loads(lines(extra={"level": "critical", "time": "never", "logger": "root"}))

    assert (told["level"], told["logger"]) == ("info", "verbworker.work")
    assert told["time"] != "never"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    ("message", "extra"),
    [
        (f"cannot reach postgresql://kyc:{SECRET}@db/cases", {}),
        ("failed", {"reason": f"https://client:{SECRET}@login/token refused"}),
        ("failed", {"reason": f"sent authorization: Bearer {SECRET}"}),
        ("failed", {"header": f"Basic {SECRET}"}),
        ("failed", {"password": SECRET}),
        (f"host=db user=kyc password={SECRET} dbname=cases", {}),
        (f"host=db password='{SECRET}' dbname=cases", {}),
        (f"grant_type=client_credentials&client_secret={SECRET}&scope=x", {}),
        (f'the body was {{"client_secret": "{SECRET}"}}', {}),
        (f"X-Api-Key: {SECRET}", {}),
        (f"headers {{'x-api-key': b'{SECRET}'}}", {}),
        (f"signed by whsec_{SECRET}", {}),
        (f"key vwk_{SECRET} is unknown", {}),
        ("failed", {"reason": f"PGPASSWORD={SECRET}"}),
        ("failed", {"reason": f"access_token = {SECRET}"}),
        ("failed", {"client_secret": SECRET}),
        ("failed", {"dsn": SECRET}),
        ("failed", {"access_token": SECRET}),
        ("failed", {"domain_payload": SECRET}),
        ("failed", {"variables": {"domain_payload": SECRET}}),
        ("failed", {"job": {"name": SECRET}}),
        ("failed", {"content": SECRET.encode()}),
        ("failed", {"rows": [SECRET]}),
    ],
)
def test_neither_secrets_nor_payloads_are_written(message: str, extra: dict[str, object], as_json: bool) -> None:
    assert SECRET not in lines(as_json=as_json, level="debug", message=message, extra=extra)


def test_a_long_text_is_cut() -> None:
    assert len(lines(extra={"reason": "x" * 100_000})) < 3_000


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """The error with the trace of somebody who raised it."""
    try:
        raise error from cause
    except Exception as caught:
        return caught


def test_an_unknown_error_is_told_by_its_type_and_places_alone() -> None:
    told = json.loads(lines(at=logging.ERROR, message="a bug", exc_info=raised(ValueError(SECRET))))

    assert told["error_type"] == "ValueError"
    assert told["error_trace"][0] == "ValueError"
    assert "test_log.py:" in told["error_trace"][1]
    assert SECRET not in json.dumps(told)


def test_an_error_of_ours_keeps_its_words() -> None:
    told = json.loads(lines(at=logging.ERROR, exc_info=raised(StoreUnavailable("the database is away"))))

    assert told["error_trace"][0] == "StoreUnavailable: the database is away"


def test_while_debugging_every_error_keeps_its_words() -> None:
    told = json.loads(lines(at=logging.ERROR, level="debug", exc_info=raised(ValueError("odd"))))

    assert told["error_trace"][0] == "ValueError: odd"


@pytest.mark.parametrize("as_json", [True, False])
def test_full_tracebacks_hold_the_message_if_they_are_wanted(as_json: bool) -> None:
    stream = io.StringIO()
    log.set_up(as_json=as_json, level="warning", has_tracebacks=True, stream=stream)
    error = raised(ValueError(f"odd, and postgresql://user:{SECRET}@host"))
    logging.getLogger("verbworker.work").error("run failed", exc_info=error)

    told = stream.getvalue()
    assert "Traceback (most recent call last):" in told
    assert "ValueError: odd, and postgresql://user:***@host" in told
    assert SECRET not in told


def test_the_cause_of_an_error_is_told_too() -> None:
    error = raised(StoreUnavailable("the database is away"), raised(OSError(SECRET)))

    trace = json.loads(lines(at=logging.ERROR, exc_info=error))["error_trace"]

    assert "OSError" in trace
    assert not any(SECRET in line for line in trace)


def test_the_members_of_a_group_are_told() -> None:
    group = ExceptionGroup("two", [raised(KeyError("a")), raised(TypeError("b"))])

    trace = json.loads(lines(at=logging.ERROR, exc_info=group))["error_trace"]

    assert {"KeyError", "TypeError"} <= set(trace)


def test_people_get_one_line_with_fields() -> None:
    line = lines(as_json=False, message="working", extra={"verb": "kyc.check"})

    assert line.endswith("INFO    working verb=kyc.check\n")


def test_people_get_the_trace_below_the_line() -> None:
    first, second, *places = lines(as_json=False, at=logging.ERROR, exc_info=raised(ValueError(SECRET))).splitlines()

    assert first.endswith("ERROR   done")
    assert second == "  ValueError"
    assert places[0].startswith("  at ")


def service_waits(service: str, error: str) -> None:
    said = {"service": service, "error": error, "reason": "refused", "failures": 1, "seconds": 0.0}
    logging.getLogger("verbworker.work").warning("service is waiting", extra=said)


def service_is_back(service: str) -> None:
    said = {"service": service, "failures": 1, "seconds": 2.0}
    logging.getLogger("verbworker.work").info("service is back", extra=said)


def messages(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["message"] for line in stream.getvalue().splitlines()]


def test_an_outage_is_one_sentence_however_many_services_and_jobs_wait() -> None:
    stream = io.StringIO()
    log.set_up(as_json=True, level="info", stream=stream)
    ours, theirs = logging.getLogger("verbworker.work"), logging.getLogger("asyncio")
    for service in ("sweep", "relay", "gates"):
        service_waits(service, "StoreUnavailable")
    ours.warning("database away, job given back", extra={"job_key": 7, "reason": "refused"})
    theirs.error("Future exception was never retrieved", exc_info=raised(ConnectionResetError("by peer")))
    for service in ("relay", "sweep", "gates"):
        POSTGRES.note_answer()
        service_is_back(service)
    service_waits("sweep", "StoreReadOnly")

    assert messages(stream) == [
        "Postgres does not answer; work continues when it does",
        "Postgres answers again",
        "service is waiting",
    ]
    first = json.loads(stream.getvalue().splitlines()[0])
    assert (first["reason"], "service" in first) == ("refused", False)


@pytest.mark.parametrize(
    ("error", "outage", "name"),
    [("EngineUnavailable", ENGINE, "The engine"), ("StoreUnavailable", POSTGRES, "Postgres")],
)
def test_an_outage_is_over_when_an_answer_came_and_not_when_a_service_had_nothing_to_ask(
    error: str, outage: Outage, name: str
) -> None:
    stream = io.StringIO()
    log.set_up(as_json=True, level="info", stream=stream)
    service_waits("starts", error)
    service_is_back("starts")  # nothing was due any more
    before = messages(stream)
    outage.note_answer()
    outage.note_answer()

    assert before == [f"{name} does not answer; work continues when it does"]
    assert messages(stream)[1:] == [f"{name} answers again"]


def test_an_outage_that_comes_and_goes_is_not_a_line_for_each_time() -> None:
    stream = io.StringIO()
    log.set_up(as_json=True, level="info", stream=stream)
    for _ in range(20):
        service_waits("starts", "StoreUnavailable")
        POSTGRES.note_answer()

    assert messages(stream) == ["Postgres does not answer; work continues when it does", "Postgres answers again"]


def test_what_is_below_the_level_is_not_written() -> None:
    assert lines(level="warning") == ""


def test_other_peoples_debug_lines_are_not_written() -> None:
    stream = io.StringIO()
    log.set_up(as_json=True, level="debug", stream=stream)

    logging.getLogger("grpc._channel").debug("header %s", SECRET)
    logging.getLogger("httpx").info("HTTP Request: POST https://login.test/%s", SECRET)

    assert stream.getvalue() == ""


def test_a_pool_that_cannot_connect_does_not_flood_the_log_of_any_program(caplog: pytest.LogCaptureFixture) -> None:
    assert Database.__name__  # what a client's program imports too; it need not set up our log

    logging.getLogger("asyncpg.pool").warning("Failed to restore the pool connection floor; retrying")

    assert caplog.records == []
