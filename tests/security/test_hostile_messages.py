"""A message that was made to cost much is refused before it does, and in few words."""

import pytest

from verbworker.contract.message import LARGEST, MAX_VALUES, read, validate
from verbworker.errors import MessageInvalid
from verbworker.http.rate import Rates
from verbworker.payload.canonical import canonical

pytestmark = pytest.mark.attack("payload")

NEEDED = {"message_name": "documents-received", "message_id": "m-1", "correlation_key": "case-1", "tenant_id": "acme"}


def envelope(payload: bytes) -> bytes:
    return canonical(NEEDED)[:-1] + b',"payload":' + payload + b"}"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":[' + b"1.0," * 200_000 + b"1]}",
        b'{"a":[' + b"[]," * 200_000 + b"1]}",
        b"{" + b",".join(b'"%d":0' % number for number in range(90_000)) + b"}",
    ],
    ids=["floats", "lists", "members"],
)
def test_more_values_than_a_message_may_hold_are_refused(payload: bytes) -> None:
    assert len(envelope(payload)) < LARGEST

    with pytest.raises(MessageInvalid, match="holds more than 50,000 values"):
        read(envelope(payload))


def test_commas_inside_texts_are_no_values() -> None:
    message = read(envelope(b'{"text":"' + b"," * 2 * MAX_VALUES + b'"}'))

    assert message.payload == {"text": "," * 2 * MAX_VALUES}


def test_as_many_values_as_allowed_are_read() -> None:
    payload = b'{"a":[' + b"1.5," * (MAX_VALUES - 10) + b"1.5]}"

    assert read(envelope(payload)).content == payload


def test_of_many_unknown_fields_five_are_told() -> None:
    with pytest.raises(MessageInvalid) as refused:
        validate({**NEEDED, **{f"field{number}": 1 for number in range(40_000)}})

    assert len(refused.value.fields) == 5
    assert str(refused.value).endswith("and 39995 more")
    assert len(f"{refused.value} {refused.value.fields}") < 1_000


def test_of_many_misfits_five_are_told() -> None:
    wrong = dict.fromkeys(NEEDED, 7) | {"entry_id": 7, "correlation_id": 7, "causation_id": 7, "payload": 7}

    with pytest.raises(MessageInvalid) as refused:
        validate(wrong)

    assert len(refused.value.fields) == 5


def test_a_large_body_is_charged_as_several_requests() -> None:
    rates = Rates(per_second=10.0, burst=20)

    assert rates.wait("a", 100.0) == 0.0
    rates.charge("a", 32.0)

    assert rates.wait("a", 100.0) == pytest.approx(1.3)
    assert rates.wait("b", 100.0) == 0.0


def test_a_debt_is_no_deeper_than_a_burst() -> None:
    rates = Rates(per_second=10.0, burst=20)
    rates.wait("a", 100.0)
    rates.charge("a", 1_000.0)

    assert rates.wait("a", 100.0) == pytest.approx(2.1)
