"""Bodies that two parsers read differently, or that no database keeps: each is refused, and none is a 500."""

import json

import pytest

from tests.support.databases import value
from tests.support.ingress_process import IngressProcess, envelope
from tests.support.mail import DOCS, KEY, TENANT

pytestmark = pytest.mark.attack("payload")

_HEAD = json.dumps(envelope(payload=None))[: -len("null}")].encode()


def body(payload: bytes) -> bytes:
    """A message that is right but for its payload."""
    return _HEAD + payload + b"}"


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "a blank": b" ",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"message"',
    "a number": b"7",
    "two documents": json.dumps(envelope()).encode() * 2,
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(envelope()).encode(),
    "UTF-16": json.dumps(envelope()).encode("utf-16"),
    "UTF-32": json.dumps(envelope()).encode("utf-32"),
    "latin-1": b'{"message_name":"\xe4"}',
    "an overlong letter": body(b'{"a":"\xc0\xaf"}'),
    "half a letter": body(b'{"a":"\xc3"}'),
    "half a pair": body(rb'{"a":"\ud800"}'),
    "a pair the wrong way round": body(rb'{"a":"\udc00\ud800"}'),
    "half a pair as a key": body(rb'{"\ud800":1}'),
    "a key twice": body(b'{"a":1,"a":2}'),
    "a key twice, escaped": body(rb'{"a":1,"\u0061":2}'),
    "a field twice": b'{"tenant_id":"globex",' + json.dumps(envelope()).encode()[1:],
    "NaN": body(b'{"a":NaN}'),
    "infinity": body(b'{"a":Infinity}'),
    "minus infinity": body(b'{"a":-Infinity}'),
    "a number beyond all": body(b'{"a":1e999}'),
    "a whole number beyond 2^53": body(b'{"a":9007199254740993}'),
    "a number of many digits": body(b'{"a":' + b"9" * 5_000 + b"}"),
    "a leading zero": body(b'{"a":01}'),
    "a plus": body(b'{"a":+1}'),
    "hexadecimal": body(b'{"a":0x1}'),
    "a dot at the end": body(b'{"a":1.}'),
    "a comma at the end": body(b'{"a":1,}'),
    "a comment": body(b'{"a":1/**/}'),
    "single quotes": body(b"{'a':1}"),
    "a tab in a text": body(b'{"a":"\t"}'),
    "a null in a text": body(b'{"a":"\x00"}'),
    "an unknown escape": body(rb'{"a":"\x41"}'),
    "a text without end": body(b'{"a":"'),
    "an object without end": b'{"a":' * 30,
    "depth": body(b'{"a":' * 200 + b"1" + b"}" * 200),
    "great depth": body(b"[" * 100_000 + b"]" * 100_000),
    "many values": body(b'{"a":[' + b"1," * 60_000 + b"1]}"),
    "an unknown field": json.dumps(envelope(roles=["reviewer"])).encode(),
    "an unknown field with a null": json.dumps(envelope(**{"a\x00b": 1})).encode(),
    "an unknown field that turns the text": json.dumps(envelope(**{"a\u202eb": 1})).encode(),
    "an unknown field without end": json.dumps(envelope(**{"a" * 500_000: 1})).encode(),
    "many unknown fields with a null": json.dumps(envelope(**{f"a\x00{n}": 1 for n in range(9)})).encode(),
    "a prototype": json.dumps(envelope(**{"__proto__": {"tenant_id": "globex"}})).encode(),
    "a name that is a number": json.dumps(envelope(message_name=7)).encode(),
    "a name that is a list": json.dumps(envelope(message_name=[DOCS])).encode(),
    "an empty name": json.dumps(envelope(message_name="")).encode(),
    "a long name": json.dumps(envelope(message_name="a" * 100_000)).encode(),
    "an empty key": json.dumps(envelope(correlation_key="")).encode(),
    "a null in the key": json.dumps(envelope(correlation_key="a\x00b")).encode(),
    "a null in the id": json.dumps(envelope(message_id="a\x00b")).encode(),
    "no id": json.dumps({name: text for name, text in envelope().items() if name != "message_id"}).encode(),
    "an entry that is none": json.dumps(envelope(entry_id="' OR 1=1")).encode(),
    "an entry with a null": json.dumps(envelope(entry_id="\x00")).encode(),
    "an entry that turns the text": json.dumps(envelope(entry_id="\u202e")).encode(),
    "an entry of hidden letters": json.dumps(envelope(entry_id="0\U000e0041\x9b")).encode(),
    "a trace that is none": json.dumps(envelope(traceparent="00-" + "g" * 32)).encode(),
    "a payload that is a list": json.dumps(envelope(payload=[1])).encode(),
    "a payload that is text": json.dumps(envelope(payload="x")).encode(),
    "another tenant": json.dumps(envelope(tenant_id="globex")).encode(),
    "another case of the tenant": json.dumps(envelope(tenant_id=TENANT.upper())).encode(),
}


@pytest.mark.parametrize("content", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_message_is_refused(ingress: IngressProcess, content: bytes) -> None:
    answer = ingress.post(content)

    assert answer.status in (400, 403, 413, 422, 429), answer.body
    assert len(json.dumps(answer.body)) < 2_000
    assert "Traceback" not in json.dumps(answer.body)
    assert all(letter.isprintable() for text in _texts(answer.body) for letter in text)


OTHERS = ("/api/workflow/message", "/v1/messages")
FIELDS = ("a\x00b", "a\u202eb", "a\x9bb", "a" * 500_000, "a\nb", "a\U000e0041b")


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ascii(field)[:20])
def test_a_field_that_no_message_has_is_told_in_short(ingress: IngressProcess, path: str, field: str) -> None:
    names = ("messageName", "correlationKey") if "workflow" in path else ("message_name", "correlation_key")
    answer = ingress.post({names[0]: DOCS, names[1]: "k", field: 1}, path)

    assert answer.status in (422, 429), answer.body
    assert len(json.dumps(answer.body)) < 2_000
    assert all(letter.isprintable() for text in _texts(answer.body) for letter in text)


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in _texts(one)]
    return [value] if isinstance(value, str) else []


async def test_none_of_them_was_kept_as_a_message(ingress: IngressProcess, shared: str) -> None:
    assert await value(shared, "SELECT count(*) FROM verbworker.inbox_message WHERE correlation_key <> $1", KEY) == 0


KINDS = ["", "text/plain", "application/xml", "application/json5", "application/jsonx", "json", "text/json; charset=x"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_of_content_is_refused(ingress: IngressProcess, kind: str) -> None:
    answer = ingress.post(envelope(), kind=kind)

    assert answer.status in (415, 429), answer.body
