"""The domain payload: its envelope on the wire, its trail, its budget."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import rfc8785

from tests.support import hostile
from verblint.contracts.contract import DEFAULT_BUDGET
from verbworker.errors import PayloadIntegrityError, PermanentContract
from verbworker.payload.canonical import MAX_DEPTH
from verbworker.payload.envelope import (
    HARD_LIMIT,
    DomainPayload,
    instant,
    pack,
    payload_bytes,
    unpack,
)
from verbworker.payload.signature import digest
from verbworker.payload.upgrade import Upgrades

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def make_payload(data: dict[str, Any] | None = None, **changed: Any) -> DomainPayload:
    return pack("kyc.open-case/v1", {"case": "c-1"} if data is None else data, by="kyc.open-case", at=NOON, **changed)


def make_envelope(**changed: Any) -> dict[str, Any]:
    data = changed.pop("data", {"case": "c-1"})
    envelope = {
        "schema": "kyc.open-case/v1",
        "schema_hash": digest(rfc8785.dumps(data)),
        "created_at": "2026-01-02T12:00:00Z",
        "last_modified_by": "kyc.open-case",
        "data": data,
        "sub_verb_trail": [],
        **changed,
    }
    return {name: value for name, value in envelope.items() if value is not ...}


def refusal(content: bytes) -> PermanentContract:
    with pytest.raises(PermanentContract) as caught:
        unpack(content)
    return caught.value


@pytest.mark.req("PAY-01", "PAY-04", "PAY-05", "PAY-17", "X-02", "X-03", "X-04")
def test_the_envelope_is_canonical_json_with_the_hash_of_its_data() -> None:
    content = make_payload(trail_ref="runbook_entry:1/events").to_bytes()

    assert content == rfc8785.dumps(make_envelope(trail_ref="runbook_entry:1/events"))


@pytest.mark.parametrize("trail_ref", [None, "runbook_entry:1/events"])
@pytest.mark.req("PAY-15")
def test_a_payload_comes_back_as_it_was(trail_ref: str | None) -> None:
    tricky = {"a": ',"data":', "b": [{',"last_modified_by":': '"}'}], "data": {"data": 1.5}, "last_modified_by": "x"}
    payload = make_payload(tricky, trail_ref=trail_ref).with_step(tricky, verb="kyc.x", at=NOON, outcome="completed")

    assert unpack(payload.to_bytes()) == payload


@pytest.mark.req("PAY-10", "PAY-11", "X-40")
def test_a_step_replaces_the_data_and_is_remembered() -> None:
    later = make_payload().with_step({"case": "c-2"}, verb="kyc.screen", at=NOON, outcome="completed")

    envelope = make_envelope(
        data={"case": "c-2"},
        last_modified_by="kyc.screen",
        sub_verb_trail=[{"verb": "kyc.screen", "at": "2026-01-02T12:00:00Z", "outcome": "completed"}],
    )
    assert later.to_bytes() == rfc8785.dumps(envelope)


@pytest.mark.req("PAY-11", "TST-03")
def test_the_trail_keeps_the_twenty_newest_steps() -> None:
    payload = make_payload()
    for number in range(25):
        payload = payload.with_step({}, verb=f"kyc.step{number}", at=NOON, outcome="completed")

    trail = unpack(payload.to_bytes()).sub_verb_trail

    assert [step.verb for step in trail] == [f"kyc.step{number}" for number in range(5, 25)]


@pytest.mark.req("PAY-13", "PAY-14")
def test_a_payload_over_its_budget_is_refused_on_the_way_out_and_on_the_way_in() -> None:
    payload = make_payload({"blob": "x" * DEFAULT_BUDGET})
    content = payload.to_bytes(budget=HARD_LIMIT)

    with pytest.raises(PermanentContract) as leaving:
        payload.to_bytes()

    assert leaving.value.code == refusal(content).code == "PayloadTooLarge"


@pytest.mark.req("PAY-14")
def test_no_budget_goes_beyond_the_hard_limit() -> None:
    payload = make_payload({"blob": "x" * HARD_LIMIT})

    with pytest.raises(PermanentContract) as leaving:
        payload.to_bytes(budget=10 * HARD_LIMIT)
    with pytest.raises(PermanentContract) as arriving:
        unpack(b" " * (HARD_LIMIT + 1), budget=10 * HARD_LIMIT)

    assert leaving.value.code == arriving.value.code == "PayloadTooLarge"


@pytest.mark.req("PAY-05", "PAY-08")
def test_data_that_does_not_match_its_hash_is_an_integrity_error() -> None:
    failure = refusal(rfc8785.dumps(make_envelope(schema_hash=digest(b"{}"))))

    assert isinstance(failure, PayloadIntegrityError)
    assert failure.code == "DataHashMismatch"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"extra": 1}, "unknown field 'extra'"),
        ({"schema": ...}, "lacks the field 'schema'"),
        ({"data": []}, "'data' is not an object"),
        ({"schema": "kyc.open-case"}, "'schema' is malformed"),
        ({"schema": "kyc.open-case/v0"}, "'schema' is malformed"),
        ({"schema": 1}, "'schema' is malformed"),
        ({"schema_hash": "sha256:x"}, "'schema_hash' is malformed"),
        ({"created_at": "2026-01-02T12:00:00+01:00"}, "'created_at' is malformed"),
        ({"created_at": "2026-02-30T12:00:00Z"}, "'created_at' is no moment in time"),
        ({"last_modified_by": ""}, "'last_modified_by' is malformed"),
        ({"trail_ref": None}, "'trail_ref' is malformed"),
        ({"sub_verb_trail": {}}, "not a list of at most 20 steps"),
        ({"sub_verb_trail": [1] * 21}, "not a list of at most 20 steps"),
        ({"sub_verb_trail": [1]}, "exactly 'verb', 'at' and 'outcome'"),
        ({"sub_verb_trail": [{"verb": "x"}]}, "exactly 'verb', 'at' and 'outcome'"),
        ({"sub_verb_trail": [{"verb": "x", "at": "now", "outcome": "y"}]}, "'sub_verb_trail.at' is malformed"),
        ({"sub_verb_trail": [{"verb": "x\n", "at": "2026-01-02T12:00:00Z", "outcome": "y"}]}, "'sub_verb_trail.verb'"),
    ],
)
@pytest.mark.req("PAY-04", "PAY-09", "PAY-19")
def test_every_field_of_the_envelope_is_checked(changed: dict[str, Any], words: str) -> None:
    failure = refusal(rfc8785.dumps(make_envelope(**changed)))

    assert failure.code == "EnvelopeInvalid"
    assert words in str(failure)


@pytest.mark.req("PAY-19")
def test_something_that_is_no_envelope_is_refused() -> None:
    assert "not an envelope" in str(refusal(b"[1]"))


@pytest.mark.req("PAY-02", "PAY-06")
def test_an_envelope_spelled_differently_is_refused() -> None:
    assert refusal(make_payload().to_bytes().replace(b":", b": ", 1)).code == "NotCanonical"


@pytest.mark.req("PAY-15")
def test_data_may_be_as_deep_as_its_envelope_can_be_read() -> None:
    payload = make_payload(hostile.nested(MAX_DEPTH - 1))

    assert unpack(payload.to_bytes()) == payload
    with pytest.raises(PermanentContract, match="nested more than 63 levels"):
        make_payload({"k": hostile.nested(MAX_DEPTH - 1)})


def test_data_must_be_an_object() -> None:
    with pytest.raises(PermanentContract) as caught:
        make_payload().with_step([], verb="kyc.x", at=NOON, outcome="completed")  # type: ignore[arg-type]  # on purpose

    assert caught.value.code == "DataNotObject"


@pytest.mark.parametrize(
    ("variable", "code", "words"),
    [
        (None, "PayloadNotText", "is missing"),
        ({"case": "c-1"}, "PayloadNotText", "no longer text"),
        (5, "PayloadNotText", "no longer text"),
        ("\ud800", "LoneSurrogate", "surrogate"),
    ],
)
@pytest.mark.req("PAY-01", "PAY-19")
def test_a_payload_the_engine_coerced_is_refused(variable: object, code: str, words: str) -> None:
    with pytest.raises(PermanentContract, match=words) as caught:
        payload_bytes(variable)

    assert caught.value.code == code


@pytest.mark.req("PAY-01")
def test_the_text_the_engine_carried_is_the_bytes_we_wrote() -> None:
    content = make_payload({"name": "Müller"}).to_bytes()

    assert payload_bytes(content.decode()) == content


@pytest.mark.req("PAY-16")
def test_an_unknown_schema_version_is_refused_by_name() -> None:
    payload = make_payload()
    assert Upgrades().bring(payload, "kyc.open-case/v1") is payload

    with pytest.raises(PermanentContract, match=r"kyc\.open-case/v1.*knows kyc\.close-case/v1") as caught:
        Upgrades().bring(payload, "kyc.close-case/v1")
    assert caught.value.code == "SchemaUnknown"


def test_a_moment_is_written_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))

    assert instant(datetime(2026, 1, 2, 13, 0, 0, 5, tzinfo=berlin)) == "2026-01-02T12:00:00.000005Z"


def test_a_moment_without_a_zone_is_a_mistake_in_the_program() -> None:
    with pytest.raises(ValueError, match="time zone"):
        instant(datetime(2026, 1, 2))
