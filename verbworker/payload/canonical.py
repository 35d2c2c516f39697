"""Canonical JSON (RFC 8785): one encoding per value for output, one strict parser for input.

`rfc8785` is the reference. orjson writes the same bytes an order of magnitude faster, except for some floats, which are
respelled in its text, and for object keys beyond the Basic Multilingual Plane, which are sorted before it writes. Other
types go to the reference.
"""

import gc
import json
import re
from collections import Counter
from collections.abc import Callable
from math import isfinite, isinf
from typing import Any, Never

import orjson
import rfc8785

from verbworker.errors import PermanentContract

MAX_DEPTH = 64  # bounds the recursion
MAX_INTEGER = 2**53 - 1  # beyond it other languages lose digits

# Content beyond this size is rarely canonical when it comes from outside, and encoding it again to find out costs more
# than looking at its tokens.
_LARGE = 32 * 1024

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_CONTAINERS = frozenset({dict, list, tuple})
_JSON = _CONTAINERS | {str, int, float, bool, type(None)}
# The lead bytes of a character beyond the BMP, and such a character up to the end of its string: the colon
# distinguishes a key from a value.
_ASTRAL_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_ASTRAL_STRING = re.compile(rb'[\xf0-\xf4][^"\\]*+(?:\\.[^"\\]*+)*+"(:?)')
_STRING = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")')
# Floats that orjson and ECMAScript write differently: -0.0, integral ones, and those with an exponent that ECMAScript
# writes as a plain decimal. An exponent without its sign is what older versions of orjson write.
_MINUS_ZERO = re.compile(rb"-0\.0(?![0-9e])")
_INTEGRAL = re.compile(rb"\.0(?![0-9e])")
_EXPONENT = re.compile(rb"([0-9])(?:\.([0-9]+))?e(\+(?:1[6-9]|20)|-[1-6]|[0-9]+)(?![0-9])")
# Sixteen digits may be beyond 2^53-1, and orjson reads more than twenty as a float.
_LONG_INTEGER = re.compile(rb"(?<![0-9.])[0-9]{16,}+(?![.eE])")


def canonical(value: object) -> bytes:
    """Return the bytes `rfc8785.dumps` gives for `value`; what it rejects is a contract failure."""
    return _render(value)[0]


def encode(value: object, *, depth: int = MAX_DEPTH) -> bytes:
    """Return canonical bytes that `parse` always accepts: no deeper than `depth`, no number it would reject."""
    text, found = _render(value)
    if found is None or found > depth:
        _read_strictly(text, depth)
    return text


def parse(content: bytes, *, limit: int, exact: bool = False, max_values: int | None = None) -> Any:
    """Parse JSON from outside; anything doubtful is a contract failure. With `exact`, only canonical bytes pass.

    Bytes that re-encode unchanged have no other encoding, so no duplicate key, odd number or stray space; only other
    bytes need the slow parser.
    """
    if len(content) > limit:
        raise too_large(len(content), limit)
    if max_values is not None and _has_more_values(content, max_values):
        raise PermanentContract(f"the JSON holds more than {max_values:,} values", code="TooManyValues")
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return _read_strictly(content, MAX_DEPTH)
    if not exact and len(content) > _LARGE and _reads_alike(content, value):
        return value
    text, depth = _render(value)
    if text == content and depth is not None and depth <= MAX_DEPTH:
        return value
    if not _reads_alike(content, value):
        value = _read_strictly(content, MAX_DEPTH)
    if exact and text != content:
        raise PermanentContract("the JSON is valid but not in canonical form (RFC 8785)", code="NotCanonical")
    return value


def too_large(size: int, limit: int) -> PermanentContract:
    """Return the failure for `size` bytes where `limit` are allowed."""
    message = f"the payload has {size} bytes and its budget is {limit}: store large values outside and refer to them"
    return PermanentContract(message, code="PayloadTooLarge")


def _has_more_values(content: bytes, limit: int) -> bool:
    """Count by commas, before anything is built: a byte of JSON can become an object of fifty bytes."""
    return content.count(b",") >= limit and _STRING.sub(b"", content).count(b",") >= limit


def _render(value: object) -> tuple[bytes, int | None]:
    """Return canonical bytes, and their depth if a strict parser certainly accepts every number in them."""
    try:
        text = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return _reference(value), None
    measured = _measure(value)
    if measured is None:
        return _reference(value), None
    depth, floats = measured
    if _has_astral_key(text):
        text = orjson.dumps(_sort_keys(value), option=_OPTIONS & ~orjson.OPT_SORT_KEYS)
    if not floats:
        return text, depth
    if not all(map(isfinite, floats)):
        return _reference(value), None
    if any(map(_is_spelled_apart, floats)):
        text = _respell_floats(text)
    is_large = max(floats) > MAX_INTEGER or min(floats) < -MAX_INTEGER
    return text, None if is_large and any(map(_reads_as_unsafe_integer, floats)) else depth


def _measure(value: object) -> tuple[int, list[float]] | None:
    """Return a value's depth and every float in it, or None when a type occurs that JSON does not have."""
    # Level by level, because these steps run in C; walking node by node costs more than orjson itself.
    floats: list[float] = []
    level: list[Any] = [value]
    depth = 0
    while True:
        kinds = set(map(type, level))
        if not kinds <= _JSON:
            return None
        if float in kinds:
            floats += [part for part in level if type(part) is float]
        if _CONTAINERS.isdisjoint(kinds):
            return depth, floats
        depth += 1
        level = _contents(*level)


def _contents_one_by_one(*level: Any) -> list[Any]:
    """Return the contents of the containers in `level`."""
    below: list[Any] = []
    for part in level:
        if type(part) is dict:
            below += part.values()
        elif type(part) is list or type(part) is tuple:
            below += part
    return below


def _sees_atoms(contents: Callable[..., list[Any]]) -> bool:
    found = contents({"a": 0.5, "b": "c"}, [1.5, None], (2.5, True), "d", 3.5)
    return {0.5, 1.5, 2.5} <= set(map(float, filter(lambda part: type(part) is float, found)))


# The garbage collector's step from objects to their contents is five times faster than a loop. Its documentation lets
# it omit atoms, which no CPython does for these containers; an interpreter that does gets the loop.
_contents = gc.get_referents if _sees_atoms(gc.get_referents) else _contents_one_by_one


def _has_astral_key(text: bytes) -> bool:
    # The UTF-16 order of the RFC differs from orjson's only for these keys.
    if text.isascii() or not any(lead in text for lead in _ASTRAL_LEADS):
        return False
    return b":" in _ASTRAL_STRING.findall(text)


def _is_spelled_apart(number: float) -> bool:
    # All others are plain decimals with the fewest round-trip digits, in orjson and in the RFC.
    return number.is_integer() or not 1e-4 <= abs(number) < 1e16


def _reads_as_unsafe_integer(number: float) -> bool:
    # 1e17 is written 100000000000000000, an integer that a parser must reject.
    return number.is_integer() and MAX_INTEGER < abs(number) < 1e21


def _respell_floats(text: bytes) -> bytes:
    pieces = _STRING.split(text)  # alternately the text between strings, and the strings
    bare = b'"'.join(pieces[::2])
    # Each pattern is replaced in C, and only exponents need a call: a message may hold a quarter of a million floats.
    bare = _INTEGRAL.sub(b"", _MINUS_ZERO.sub(b"0", bare))
    pieces[::2] = _EXPONENT.sub(_write_exponent, bare).split(b'"')
    return b"".join(pieces)


def _write_exponent(match: re.Match[bytes]) -> bytes:
    first, rest, power = match[1], match[2] or b"", int(match[3])
    if power >= 21:
        return first + (b"." + rest if rest else b"") + b"e+%d" % power
    if power >= 0:
        return (first + rest).ljust(power + 1, b"0")
    return b"0." + b"0" * (-power - 1) + first + rest


def _sort_keys(value: Any) -> Any:
    """Return a container whose keys are in the RFC's order, that of their UTF-16 code units."""
    if type(value) is dict:
        keys = sorted(value, key=_utf16)
        return {key: _sort_keys(value[key]) if type(value[key]) in _CONTAINERS else value[key] for key in keys}
    return [_sort_keys(part) if type(part) in _CONTAINERS else part for part in value]


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _reference(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except RecursionError as error:
        raise _too_deep(MAX_DEPTH) from error
    except rfc8785.FloatDomainError as error:
        raise PermanentContract("NaN and Infinity are not JSON numbers", code="NumberNotFinite") from error
    except UnicodeEncodeError as error:
        raise _lone_surrogate() from error
    except rfc8785.CanonicalizationError as error:
        raise _translate(error) from error
    except ValueError as error:
        # An integer so long that rfc8785 cannot even print it in its own message.
        raise _integer_too_large() from error


def _translate(error: rfc8785.CanonicalizationError) -> PermanentContract:
    """Distinguish what rfc8785 raises under one class; its own text may contain a value, so it is not shown."""
    if isinstance(error, rfc8785.IntegerDomainError):
        return _integer_too_large()
    if isinstance(error.__cause__, UnicodeEncodeError):
        return _lone_surrogate()
    if isinstance(error.__context__, AttributeError):
        return PermanentContract("an object has a key that is not text", code="KeyNotText")
    return PermanentContract("the value holds a type that JSON does not have", code="TypeNotJson")


def _reads_alike(content: bytes, value: Any) -> bool:
    """Return whether the strict parser certainly reads `value` too, which orjson read from `content`.

    orjson rejects all it should except repeated keys, long integers and depth. Objects have one colon per member.
    """
    measured = _measure(value)
    if measured is None or measured[0] > MAX_DEPTH:
        return False
    bare = _STRING.sub(b"", content)
    return bare.count(b":") == _count_members(value) and _LONG_INTEGER.search(bare) is None


def _count_members(value: Any) -> int:
    members = 0
    level: list[Any] = [value]
    while level:
        containers = [part for part in level if type(part) in _CONTAINERS]
        members += sum(len(part) for part in containers if type(part) is dict)
        level = _contents_one_by_one(*containers)
    return members


def _read_strictly(content: bytes, depth: int) -> Any:
    """Parse any encoding of valid JSON, slowly, and name what is wrong with the rest."""
    try:
        value = json.loads(
            content.decode(),
            object_pairs_hook=_distinct,
            parse_constant=_not_a_number,
            parse_float=_finite,
            parse_int=_safe_integer,
        )
    except UnicodeDecodeError as error:
        raise PermanentContract(f"byte {error.start} is not valid UTF-8", code="InvalidUtf8") from error
    except json.JSONDecodeError as error:
        raise _not_json(error) from error
    except RecursionError as error:
        raise _too_deep(depth) from error
    measured = _measure(value)
    if measured is None or measured[0] > depth:
        raise _too_deep(depth)
    canonical(value)  # all it can still reject is a lone surrogate
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise PermanentContract(f"an object has the key {twice[:60]!a} twice", code="DuplicateKey")
    return found


def _not_a_number(name: str) -> Never:
    raise PermanentContract(f"{name} is not a JSON number", code="NumberNotFinite")


def _finite(token: str) -> float:
    number = float(token)
    if isinf(number):
        raise PermanentContract("a number is too large for a double", code="NumberOverflow")
    return number


def _safe_integer(token: str) -> int:
    # The length first: Python refuses to parse an integer of thousands of digits.
    if len(token) > 17 or abs(int(token)) > MAX_INTEGER:
        raise _integer_too_large()
    return int(token)


def _not_json(error: json.JSONDecodeError) -> PermanentContract:
    where = f"line {error.lineno}, column {error.colno}"
    if error.msg == "Extra data":
        return PermanentContract(f"text follows the JSON value at {where}", code="TrailingText")
    return PermanentContract(f"not JSON at {where}", code="NotJson")


def _too_deep(depth: int) -> PermanentContract:
    return PermanentContract(f"the JSON is nested more than {depth} levels deep", code="TooDeep")


def _integer_too_large() -> PermanentContract:
    return PermanentContract("an integer is beyond 2^53-1: send it as text", code="IntegerTooLarge")


def _lone_surrogate() -> PermanentContract:
    return PermanentContract("a text holds half of a surrogate pair", code="LoneSurrogate")
