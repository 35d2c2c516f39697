"""Messages: the one form they may have, and whom they are for."""

import json
import re
from dataclasses import replace
from hashlib import sha256
from uuid import UUID, uuid4

import pytest

from tests.support.mail import make_message
from verbworker.contract.message import (
    MAX_PROBLEMS,
    Addressee,
    Candidate,
    Message,
    Undeliverable,
    UndeliverableCode,
    address,
    engine_message_id,
    read,
)
from verbworker.errors import MessageInvalid
from verbworker.payload.canonical import canonical

NEEDED = {
    "message_name": "documents-received",
    "message_id": "m-1",
    "correlation_key": "case-1",
    "tenant_id": "acme",
}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ENTRY = "0b6e7e5e-6b3c-4b8e-9a56-0d6f4a4f4a11"


def refused(fields: object) -> MessageInvalid:
    with pytest.raises(MessageInvalid) as told:
        read(canonical(fields))
    return told.value


@pytest.mark.req("ING-01", "X-26")
def test_four_fields_are_enough() -> None:
    message = read(canonical(NEEDED))

    assert message.model_dump(exclude_none=True) == NEEDED


@pytest.mark.req("ING-01", "ING-10", "MSG-01")
def test_the_other_fields_are_kept() -> None:
    more = {"correlation_id": "c-1", "causation_id": "m-0", "traceparent": TRACE, "payload": {"pages": 3}}
    message = read(canonical({**NEEDED, **more, "entry_id": ENTRY}))

    assert message.entry_id == UUID(ENTRY)
    assert message.model_dump(include=set(more)) == more


SEED_ENVELOPE = b"""{
  "workflow_id": "kyc/allianz-gmbh",
  "message_name": "documents-received",
  "message_id": "m-1",
  "correlation_key": "case-1",
  "tenant_id": "acme",
  "correlation_id": "c-1",
  "causation_id": "m-0",
  "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  "payload_bytes": "AP/+eyI="
}"""


@pytest.mark.req("ING-01", "ING-02", "ING-09", "ING-10")
def test_the_nine_fields_of_the_profile_come_back_as_they_were_written() -> None:
    message = read(SEED_ENVELOPE)

    assert (message.content, message.is_opaque) == (b'\x00\xff\xfe{"', True)
    assert json.loads(message.model_dump_json(exclude_none=True)) == json.loads(SEED_ENVELOPE)
    assert read(message.model_dump_json(exclude_none=True).encode()).body_hash == message.body_hash


@pytest.mark.req("ING-02")
@pytest.mark.parametrize("name", json.loads(SEED_ENVELOPE))
def test_each_of_the_nine_names_is_exact(name: str) -> None:
    """Any other spelling is refused, also of a field that may be left out."""
    fields = json.loads(SEED_ENVELOPE)
    spelled = re.sub(r"_(.)", lambda found: found[1].upper(), name) if "_" in name else name.upper()
    error = refused({**{key: text for key, text in fields.items() if key != name}, spelled: fields[name]})

    assert error.fields[spelled].startswith("is not a field of a message")


@pytest.mark.req("ING-01")
def test_the_two_payloads_exclude_each_other() -> None:
    error = refused({**NEEDED, "payload": {}, "payload_bytes": "AA=="})

    assert str(error) == ("the message does not fit: message has both payload and payload_bytes: send one of them")


@pytest.mark.req("ING-09")
@pytest.mark.parametrize("wrong", ["AA", "A===", "AA==\n", "-_-_", "", 7, [0], "é"])
def test_bytes_that_are_no_base64_are_refused_and_not_repeated(wrong: object) -> None:
    assert set(refused({**NEEDED, "payload_bytes": wrong}).fields) == {"payload_bytes"}


def test_the_bytes_count_for_the_hash_and_are_not_the_text_of_a_payload() -> None:
    given: list[dict[str, object]] = [{}, {"payload": {}}, {"workflow_id": "w"}]
    given += [{"payload_bytes": "e30="}, {"payload_bytes": "e30K"}]
    hashes = {read(canonical({**NEEDED, **more})).body_hash for more in given}

    assert len(hashes) == 5


@pytest.mark.req("ING-06", "MSG-01")
@pytest.mark.parametrize("missing", NEEDED)
def test_each_needed_field_must_be_there(missing: str) -> None:
    error = refused({name: value for name, value in NEEDED.items() if name != missing})

    assert error.fields == {missing: "is missing"}


@pytest.mark.req("ING-06")
@pytest.mark.parametrize("wrong", ["", "  ", "a\nb", "nul\x00", "x" * 257, 7, None])
@pytest.mark.parametrize("name", NEEDED)
def test_a_needed_field_must_say_something_legible(name: str, wrong: object) -> None:
    assert set(refused({**NEEDED, name: wrong}).fields) == {name}


@pytest.mark.req("ING-02")
@pytest.mark.parametrize(
    ("name", "meant"),
    [("messageName", "message_name"), ("correlationKey", "correlation_key"), ("tenantid", "tenant_id")],
)
def test_field_names_are_exact_and_a_near_miss_is_told(name: str, meant: str) -> None:
    fields = {key: value for key, value in NEEDED.items() if key != meant}
    error = refused({**fields, name: "x"})

    assert error.fields == {meant: "is missing", name: f"is not a field of a message; did you mean {meant}?"}


def test_of_many_unknown_fields_the_first_are_told_shortened_and_the_others_counted() -> None:
    names = [f"{number:02}{'x' * 100}" for number in range(MAX_PROBLEMS + 3)]
    error = refused({**NEEDED, **dict.fromkeys(names, 1)})

    assert error.fields == {name[:60]: "is no field of a message" for name in names[:MAX_PROBLEMS]}
    assert str(error).endswith("is no field of a message and 3 more")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("entry_id", "7"), ("payload", [1]), ("payload", "text"), ("correlation_id", "")),
        *(("traceparent", "00-abc"), ("traceparent", f"{TRACE}\n"), ("traceparent", f" {TRACE}")),
        *(("traceparent", f"00-{'0' * 32}-00f067aa0ba902b7-01"), ("traceparent", f"00-{'4b' * 16}-{'0' * 16}-01")),
    ],
)
def test_an_optional_field_must_fit_when_it_is_given(field: str, value: object) -> None:
    assert field in str(refused({**NEEDED, field: value}))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b'{"message_id": "a", "message_id": "b"}', b'{"payload": {"n": NaN}}', b"\xff", b"{" * 100],
)
def test_bytes_that_are_no_message_are_refused(content: bytes) -> None:
    with pytest.raises(MessageInvalid):
        read(content)


def test_a_message_larger_than_its_limit_is_refused() -> None:
    with pytest.raises(MessageInvalid, match="budget"):
        read(canonical({**NEEDED, "payload": {"text": "x" * 2000}}), limit=1024)


def test_what_was_sent_is_not_repeated_in_the_refusal() -> None:
    error = refused({**NEEDED, "traceparent": "secret-value"})

    assert "secret-value" not in f"{error} {error.fields}"


def test_the_hash_is_of_the_canonical_envelope() -> None:
    expected = sha256(canonical({**NEEDED, "payload": {"a": None, "b": 1}})).digest()
    same = [b'{"b":1,"a":null}', b'{ "a" : null, "b" : 1.0 }']

    for payload in same:
        text = canonical(NEEDED)[:-1] + b',"payload":' + payload + b"}"
        assert read(text).body_hash == expected


@pytest.mark.parametrize(
    "change", [{"payload": {"pages": 4}}, {"correlation_key": "case-2"}, {"entry_id": ENTRY}, {"causation_id": "m-0"}]
)
def test_every_field_counts_for_the_hash(change: dict[str, object]) -> None:
    assert make_message(**change).body_hash != make_message().body_hash


def test_a_message_made_in_python_may_not_hold_what_json_cannot() -> None:
    from verbworker.contract.message import validate

    with pytest.raises(MessageInvalid, match="cannot be kept"):
        validate({**NEEDED, "payload": {"when": object()}})


def test_a_redelivery_is_another_message_to_the_engine() -> None:
    ids = {engine_message_id("acme", "m-1", generation) for generation in range(3)}

    assert ids == {"acme/m-1/0", "acme/m-1/1", "acme/m-1/2"}


OURS = Candidate(uuid4(), "acme", uuid4(), has_ended=False)
ENDED = Candidate(uuid4(), "acme", uuid4(), has_ended=True)
FOREIGN = Candidate(uuid4(), "other", uuid4(), has_ended=False)


@pytest.mark.req("MSG-03")
def test_the_one_open_case_with_the_key_is_the_addressee() -> None:
    assert address([OURS], tenant_id="acme") == Addressee(OURS.instance_uid, OURS.entry_id)


@pytest.mark.req("MSG-03")
@pytest.mark.parametrize("candidates", [[OURS, ENDED], [ENDED, OURS]])
def test_cases_that_ended_do_not_stand_in_the_way(candidates: list[Candidate]) -> None:
    assert address(candidates, tenant_id="acme") == Addressee(OURS.instance_uid, OURS.entry_id)


def test_while_nobody_has_the_key_somebody_may_still_come() -> None:
    assert address([], tenant_id="acme") is None


def test_a_case_that_ended_will_not_come_back() -> None:
    assert address([ENDED], tenant_id="acme") == Undeliverable(
        UndeliverableCode.ENDED, "its case has ended", ENDED.entry_id
    )


@pytest.mark.req("MSG-07", "X-13")
def test_two_open_cases_with_the_key_are_too_many() -> None:
    found = address([OURS, replace(OURS, entry_id=uuid4())], tenant_id="acme")

    assert found == Undeliverable(UndeliverableCode.SEVERAL, "several cases have its key", None)


def test_a_key_that_another_tenant_uses_too_reaches_nobody() -> None:
    found = address([OURS, FOREIGN], tenant_id="acme")

    assert found == Undeliverable(UndeliverableCode.SEVERAL, "several cases have its key", OURS.entry_id)


def test_another_tenants_case_is_never_an_addressee() -> None:
    assert address([FOREIGN], tenant_id="acme") is None


def test_a_message_that_names_another_entry_than_its_key_is_not_delivered() -> None:
    found = address([OURS], tenant_id="acme", entry_id=uuid4())

    assert isinstance(found, Undeliverable)
    assert found.code is UndeliverableCode.MISMATCH


def test_a_message_that_names_the_entry_of_its_key_is_delivered() -> None:
    assert isinstance(address([OURS], tenant_id="acme", entry_id=OURS.entry_id), Addressee)


def test_a_message_is_never_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_message().correlation_key = "x"

    assert Message.model_config["extra"] == "forbid"
