"""The fast path of canonical JSON gives the bytes of the reference, over many random values."""

import math
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import hostile
from verbworker.errors import PermanentContract
from verbworker.payload import canonical as module
from verbworker.payload.canonical import canonical, encode, parse

LIMIT = 1024 * 1024
VALUES = 30_000

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=6)
json_values = st.recursive(
    scalars,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=4), inside, max_size=4),
    max_leaves=12,
)


def ours(value: object) -> bytes | None:
    try:
        return canonical(value)
    except PermanentContract:
        return None


def reference(value: Any) -> bytes | None:
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError):
        return None


@pytest.mark.req("PAY-06", "TST-08")
def test_twenty_thousand_hostile_values_come_out_as_the_reference_writes_them() -> None:
    chance = Random(8785)
    values = [hostile.document(chance) for _ in range(VALUES)]

    written = [ours(value) for value in values]

    assert written == [reference(value) for value in values]
    assert sum(text is not None for text in written) > 20_000
    assert sum(text is None for text in written) > 2_000


@pytest.mark.req("PAY-06", "TST-08")
@settings(max_examples=300, deadline=None)
@given(json_values)
def test_a_value_comes_out_as_the_reference_writes_it(value: object) -> None:
    assert ours(value) == reference(value)


@pytest.mark.req("PAY-06", "PAY-15")
def test_what_encode_writes_parse_reads_and_writes_again_alike() -> None:
    chance = Random(15)
    for _ in range(3_000):
        value = hostile.document(chance)
        try:
            written = encode(value)
        except PermanentContract:
            continue

        assert canonical(parse(written, limit=LIMIT, exact=True)) == written


def doubles(chance: Random, count: int) -> list[float]:
    """Finite doubles of every kind: random bits, subnormals, integral ones, and the corners of the shortest form."""
    found: list[float] = []
    while len(found) < count:
        digits = chance.randrange(1, 10 ** chance.randrange(1, 18))
        found += [
            struct.unpack("<d", chance.randbytes(8))[0],
            chance.randrange(1, 2**52) * 5e-324,
            float(chance.randrange(-(10**6), 10**6)),
            float(chance.randrange(-(10**22), 10**22)),
            float(f"{digits}e{chance.randrange(-30, 25)}"),
            math.nextafter(10.0 ** chance.randrange(-8, 23), chance.choice([0.0, math.inf])),
            -0.0,
        ]
    return [number for number in found if math.isfinite(number)]


@pytest.mark.req("PAY-06", "TST-08")
@pytest.mark.parametrize("count", [20_000, 1_000_000])
def test_doubles_come_out_as_the_reference_writes_them(count: int) -> None:
    chance = Random(754)
    tried = 0
    while tried < count:
        numbers = doubles(chance, 10_000)
        tried += len(numbers)

        assert canonical(numbers) == b"[" + b",".join(map(rfc8785.dumps, numbers)) + b"]"


@pytest.mark.req("PAY-06")
def test_keys_beyond_the_basic_plane_are_sorted_as_the_reference_sorts_them() -> None:
    chance = Random(16)
    letters = "az\u00e9\u20ac\ue000\uffff\U00010000\U0001f600\U0010ffff"
    for _ in range(500):
        keys = ["".join(chance.choices(letters, k=chance.randrange(1, 4))) for _ in range(chance.randrange(1, 9))]
        value: Any = {key: [dict.fromkeys(keys, 1.0), chance.random()] for key in keys}

        assert canonical(value) == rfc8785.dumps(value)


def respelled(chance: Random, text: bytes) -> bytes:
    """The bytes with one small change: a byte gone, doubled or replaced, or a stretch said twice."""
    at, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
    match chance.randrange(5):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + chance.choice([b" ", b"0", b".0", b"e1", b'"', b",", b"\xff", b"\\u0061"]) + text[at:]
        case 2:
            return text[:end] + text[at:end] + text[end:]
        case 3:
            return text.replace(b"1", b"1000000000000000000000", 1)
        case _:
            return b'{"k":1,"k":' + text + b"}"


def verdict(read: Callable[[bytes], Any], content: bytes) -> bytes | str:
    """The canonical bytes of what was read, or the code of the refusal."""
    try:
        return canonical(read(content))
    except PermanentContract as failure:
        return failure.code


@pytest.mark.req("PAY-06", "PAY-19")
def test_the_quick_reader_decides_like_the_strict_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(99)
    texts = [ours(hostile.document(chance)) or b"1" for _ in range(4_000)]
    contents = [respelled(chance, text) if chance.random() < 0.8 else text for text in texts]
    monkeypatch.setattr(module, "_LARGE", 100)  # so that these short contents take both ways

    quick = [verdict(lambda content: parse(content, limit=LIMIT), content) for content in contents]

    assert quick == [verdict(lambda text: module._read_strictly(text, module.MAX_DEPTH), text) for text in contents]
    assert sum(isinstance(read, bytes) for read in quick) > 500
    assert sum(isinstance(read, str) for read in quick) > 500
