"""Canonical JSON: what is written, what is read, and the one message for each thing refused."""

import math
from typing import Any

import pytest
import rfc8785

from tests.support import hostile
from verbworker.errors import PermanentContract
from verbworker.payload import canonical as module
from verbworker.payload.canonical import MAX_DEPTH, canonical, encode, parse

LIMIT = 4096


def refusal(content: bytes, *, limit: int = LIMIT, exact: bool = False) -> PermanentContract:
    with pytest.raises(PermanentContract) as caught:
        parse(content, limit=limit, exact=exact)
    return caught.value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, b'{"a":[true,null],"b":1}'),
        ({"x": 1.0, "y": -0.0, "z": 1e21}, b'{"x":1,"y":0,"z":1e+21}'),
        ({"s": 'one, 1.0, "2e5"', "t": "\\", "n": 2.5}, b'{"n":2.5,"s":"one, 1.0, \\"2e5\\"","t":"\\\\"}'),
        ({"\uffff": 1, "\U0001f600": 2}, b'{"\xf0\x9f\x98\x80":2,"\xef\xbf\xbf":1}'),
        ({"\uffff": "\U0001f600", "a": 1}, b'{"a":1,"\xef\xbf\xbf":"\xf0\x9f\x98\x80"}'),
        (({"\uffff": 1, "\U0001f600": (2, [3])},), b'[{"\xf0\x9f\x98\x80":[2,[3]],"\xef\xbf\xbf":1}]'),
        ('\U0001f600":', b'"\xf0\x9f\x98\x80\\":"'),
        (0.1, b"0.1"),
        ("a", b'"a"'),
    ],
)
@pytest.mark.req("PAY-06")
def test_each_value_has_one_spelling(value: object, text: bytes) -> None:
    assert canonical(value) == text


@pytest.mark.req("PAY-06")
def test_the_slow_step_between_levels_measures_what_the_quick_one_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"a": [1, (2.5, "x")], "b": {"c": [], "d": 0.5}}
    quick = module._measure(value)

    monkeypatch.setattr(module, "_contents", module._contents_one_by_one)

    assert module._measure(value) == quick == (3, [0.5, 2.5])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"a": math.nan}, "NumberNotFinite"),
        ([math.inf], "NumberNotFinite"),
        ([2**53], "IntegerTooLarge"),
        ([10**5000], "IntegerTooLarge"),
        (["\ud800"], "LoneSurrogate"),
        ({"\udfff": 1}, "LoneSurrogate"),
        ({1: 2}, "KeyNotText"),
        ({"a": b"x"}, "TypeNotJson"),
        ({"a": hostile.Colour.RED}, "TypeNotJson"),
    ],
)
@pytest.mark.req("PAY-06")
def test_a_value_without_canonical_form_is_a_contract_failure(value: object, code: str) -> None:
    with pytest.raises(PermanentContract) as caught:
        canonical(value)

    assert caught.value.code == code


@pytest.mark.req("PAY-06")
def test_a_value_that_holds_itself_is_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(PermanentContract) as caught:
        canonical(loop)

    assert caught.value.code == "TooDeep"


@pytest.mark.req("PAY-15")
def test_encode_refuses_a_float_that_would_be_read_as_an_unsafe_integer() -> None:
    with pytest.raises(PermanentContract) as caught:
        encode({"a": 1e17})

    assert canonical({"a": 1e17}) == rfc8785.dumps({"a": 1e17})
    assert caught.value.code == "IntegerTooLarge"


@pytest.mark.parametrize("core", [1, 0.5, hostile.Text("t")])
def test_encode_takes_exactly_the_allowed_depth(core: object) -> None:
    assert encode(hostile.nested(MAX_DEPTH, core))

    with pytest.raises(PermanentContract) as caught:
        encode(hostile.nested(MAX_DEPTH + 1, core))
    assert caught.value.code == "TooDeep"


@pytest.mark.parametrize("content", [b'{"a":[1,"x",null]}', b"0.5", b'"\xf0\x9f\x98\x80"', b"9007199254740991"])
@pytest.mark.req("PAY-06")
def test_canonical_bytes_are_read(content: bytes) -> None:
    assert canonical(parse(content, limit=LIMIT, exact=True)) == content


@pytest.mark.parametrize("content", [b' {"b": 1, "a": 2} ', b'"\\u0061"', b"1.0", b"-0", b'"\\ud83d\\ude00"'])
@pytest.mark.req("PAY-06")
def test_another_spelling_is_read_unless_the_canonical_one_is_asked_for(content: bytes) -> None:
    assert canonical(parse(content, limit=LIMIT)) != content

    assert refusal(content, exact=True).code == "NotCanonical"


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b'{"a":1,"a":1}', "DuplicateKey", "an object has the key 'a' twice"),
        (b'[{"x":{"b":1,"c":2,"b":3}}]', "DuplicateKey", "an object has the key 'b' twice"),
        (b"[NaN]", "NumberNotFinite", "NaN is not a JSON number"),
        (b"-Infinity", "NumberNotFinite", "-Infinity is not a JSON number"),
        (b"1e400", "NumberOverflow", "a number is too large for a double"),
        (b"9007199254740992", "IntegerTooLarge", "an integer is beyond 2^53-1: send it as text"),
        (b"-9007199254740992", "IntegerTooLarge", "an integer is beyond 2^53-1: send it as text"),
        (b"100000000000000000000", "IntegerTooLarge", "an integer is beyond 2^53-1: send it as text"),
        (b"9" * 4000, "IntegerTooLarge", "an integer is beyond 2^53-1: send it as text"),
        (b'"\\ud800"', "LoneSurrogate", "a text holds half of a surrogate pair"),
        (b'{"\\udc00":1}', "LoneSurrogate", "a text holds half of a surrogate pair"),
        (b'"\xff"', "InvalidUtf8", "byte 1 is not valid UTF-8"),
        (b'"\xed\xa0\x80"', "InvalidUtf8", "byte 1 is not valid UTF-8"),
        (b"[1] x", "TrailingText", "text follows the JSON value at line 1, column 5"),
        (b"{'a':1}", "NotJson", "not JSON at line 1, column 2"),
        (b"", "NotJson", "not JSON at line 1, column 1"),
        (b'"\x01"', "NotJson", "not JSON at line 1, column 2"),
        (b"\xef\xbb\xbf1", "NotJson", "not JSON at line 1, column 1"),
        (b"[" * 65 + b"]" * 65, "TooDeep", "the JSON is nested more than 64 levels deep"),
        (b"[" * 300 + b"]" * 300, "TooDeep", "the JSON is nested more than 64 levels deep"),
        (b"[" * 1900 + b"]" * 1900, "TooDeep", "the JSON is nested more than 64 levels deep"),
        (b"[ " * 65 + b"]" * 65, "TooDeep", "the JSON is nested more than 64 levels deep"),
    ],
)
@pytest.mark.req("PAY-06", "PAY-19")
def test_every_refusal_of_the_reader_has_its_own_message(content: bytes, code: str, message: str) -> None:
    failure = refusal(content)

    assert (failure.code, str(failure)) == (code, message)


@pytest.mark.req("PAY-14")
def test_size_is_refused_before_anything_is_parsed() -> None:
    failure = refusal(b"x" * 11, limit=10)

    assert failure.code == "PayloadTooLarge"
    assert "11 bytes and its budget is 10" in str(failure)


@pytest.mark.parametrize("content", [b"[1,2,3]", b'["a,b,c,d",2,3]', b"[1, 2, {}]"])
def test_as_many_values_as_allowed_are_read(content: bytes) -> None:
    assert len(parse(content, limit=LIMIT, max_values=3)) == 3


@pytest.mark.parametrize("content", [b"[1,2,3,4]", b'{"a":[1,2],"b":[3,4]}', b"[,,,"])
def test_more_values_than_allowed_are_refused_before_anything_is_parsed(content: bytes) -> None:
    with pytest.raises(PermanentContract, match="the JSON holds more than 3 values") as caught:
        parse(content, limit=LIMIT, max_values=3)

    assert caught.value.code == "TooManyValues"


def test_exponents_as_older_versions_of_orjson_write_them_are_respelled_too() -> None:
    # orjson 3.10 writes 1e16 and 1.5e22; this version writes e+16 and e+22.
    text = b'[1e16,-1.25e20,1e21,-1.5e22,"1e22",2.5e-5,1e-7]'

    assert module._respell_floats(text) == (
        b'[10000000000000000,-125000000000000000000,1e+21,-1.5e+22,"1e22",0.000025,1e-7]'
    )


def test_a_refusal_never_repeats_a_value() -> None:
    failure = refusal(b'{"iban":"DE00 secret", "n":9007199254740993}')

    assert "secret" not in str(failure)
    assert "9007199254740993" not in str(failure)
