"""Hostile bodies by seed: messages cut, doubled and bent, JSON of every shape, and some of the largest allowed size."""

import json
from collections.abc import Callable
from random import Random

from tests.security.hostile_names import NAMES
from tests.security.test_payload_attacks import BODIES
from tests.support.ingress_process import envelope

_ID = "00000000-0000-0000-0000-000000000001"
PATHS = (
    *("/messages", "/messages", "/v1/messages", "/api/workflow/message", "/v1/entries", f"/v1/gates/{_ID}/decision"),
    *(f"/v1/gates/{_ID}/claim", f"/v1/entries/{_ID}/cancel", f"/v1/incidents/{_ID}/resolution", "/v1/gates/x/release"),
)
KINDS = ("application/json",) * 20 + ("application/problem+json", "text/plain", "", "application/json; charset=utf-16")
LARGE = 1024 * 1024 - 512
_SEED_BODIES = [*BODIES.values(), json.dumps(envelope()).encode()]


class Bodies:
    """A source of requests; the same seed gives the same ones."""

    def __init__(self, seed: int, *, large: float = 0.002) -> None:
        self._random = Random(seed)
        self._large = large
        self._makers: tuple[Callable[[], bytes], ...] = (
            *(self._bent, self._bent, self._shaped, self._shaped, self._named, self._numbers, self._bytes, self._deep),
        )

    def request(self) -> tuple[str, str, bytes]:
        """Return a path, a kind of content and a body."""
        chance = self._random
        body = self._huge() if chance.random() < self._large else chance.choice(self._makers)()
        return chance.choice(PATHS), chance.choice(KINDS), body

    def _bent(self) -> bytes:
        """Take a known body and change some of its bytes."""
        chance = self._random
        body = bytearray(chance.choice(_SEED_BODIES))[:20_000]
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(body) + 1)
            match chance.randrange(5):
                case 0:
                    body[at:at] = bytes([chance.randrange(256)])
                case 1:
                    del body[at : at + chance.randrange(1, 9)]
                case 2:
                    body[at : at + 1] = chance.choice((b"{", b"}", b"[", b"]", b'"', b",", b"\\", b"\x00", b"\xff"))
                case 3:
                    body[at:at] = body[: chance.randrange(40)]
                case _:
                    del body[at:]
        return bytes(body)

    def _shaped(self) -> bytes:
        """A message whose fields are of any kind."""
        chance = self._random
        fields = envelope(message_id=f"m-{chance.random()}")
        for name in (*fields, "entry_id", "traceparent", "causation_id", "verb", "args", "decision", "messageName"):
            if chance.random() < 0.35:
                fields[name] = self._value(3)
        return json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")

    def _value(self, depth: int) -> object:
        chance = self._random
        match chance.randrange(9 if depth else 6):
            case 0:
                return chance.choice((None, True, False))
            case 1:
                return chance.choice((0, -1, 2**53, 2**63, -(2**64), 10**30, chance.randrange(10**9)))
            case 2:
                return chance.choice((0.1, 1e308, -0.0, 5e-324, float("inf"), float("nan"), chance.random()))
            case 3:
                return chance.choice(list(NAMES.values()))[:300]
            case 4:
                return "".join(
                    chr(chance.choice((0, 9, 10, 34, 92, 0x7F, 0xE9, 0xD800, 0xFFFF, 0x1F600))) for _ in range(8)
                )
            case 5:
                return ""
            case 6:
                return [self._value(depth - 1) for _ in range(chance.randrange(6))]
            case 7:
                return {str(self._value(0))[:40]: self._value(depth - 1) for _ in range(chance.randrange(6))}
            case _:
                return {"__proto__": self._value(depth - 1), "constructor": {"prototype": {}}}

    def _named(self) -> bytes:
        """A message whose names mean something elsewhere."""
        chance = self._random
        words = [text[:400] for text in NAMES.values()]
        names = ("message_name", "message_id", "correlation_key")
        fields = envelope(**{name: chance.choice(words) for name in names if chance.random() < 0.6})
        return json.dumps(fields).encode()

    def _numbers(self) -> bytes:
        """Numbers as no library writes them."""
        chance = self._random
        digits = "".join(chance.choice("0123456789eE+-.") for _ in range(chance.randrange(1, 60)))
        return json.dumps(envelope(payload=None)).encode()[: -len("null}")] + f'{{"a":[{digits},{digits}]}}}}'.encode()

    def _bytes(self) -> bytes:
        """Anything."""
        return self._random.randbytes(self._random.randrange(2_000))

    def _deep(self) -> bytes:
        """Many brackets, balanced or not."""
        chance = self._random
        depth = chance.choice((30, 100, 1_000, 10_000))
        opened, closed = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")))
        return opened * depth + b"1" + closed * chance.choice((0, depth - 1, depth, depth + 1))

    def _huge(self) -> bytes:
        """One of the largest allowed size."""
        make = self._random.choice(list(HUGE.values()))
        return make()


def _payload(inside: bytes) -> bytes:
    return json.dumps(envelope(payload=None)).encode()[: -len("null}")] + inside + b"}"


def _floats() -> bytes:
    return _payload(b'{"a":[' + b"1.0," * 250_000 + b"1.0]}")


def _long_floats() -> bytes:
    return _payload(b'{"a":[' + b"0.1234567890123456," * 49_900 + b"1.5]}")


def _small_floats() -> bytes:
    return _payload(b'{"a":[' + b"1.5," * 16_000 + b"1.5]}")


def _astral_keys() -> bytes:
    return _payload(b"{" + b",".join(f'"\U0001f600{number}":1'.encode() for number in range(49_000)) + b"}")


def _unknown_fields() -> bytes:
    return b"{" + b",".join(b'"field%d":1' % number for number in range(49_000)) + b"}"


def _arguments() -> bytes:
    inside = b",".join(b'"field%d":1' % number for number in range(49_000))
    return b'{"verb":"kyc.open-case","args":{' + inside + b"}}"


def _flags() -> bytes:
    return b'{"reason":"x","flags":{' + b",".join(b'"orch_%d":[]' % number for number in range(49_000)) + b"}}"


def _text() -> bytes:
    return _payload(b'{"a":"' + b"x" * (LARGE - 400) + b'"}')


def _escapes() -> bytes:
    return _payload(b'{"a":"' + b"\\u00e9" * ((LARGE - 400) // 6) + b'"}')


def _digits() -> bytes:
    return _payload(b'{"a":' + b"9" * (LARGE - 400) + b"}")


def _brackets() -> bytes:
    return b"[" * LARGE


def _keys_twice() -> bytes:
    return _payload(b"{" + b",".join(b'"a":1' for _ in range(49_000)) + b"}")


HUGE: dict[str, Callable[[], bytes]] = {
    "1 MiB, 250,000 floats": _floats,
    "1 MiB, 49,900 floats": _long_floats,
    "64 KiB, 16,000 floats": _small_floats,
    "49,000 keys beyond the basic plane": _astral_keys,
    "49,000 unknown fields": _unknown_fields,
    "49,000 unknown arguments": _arguments,
    "49,000 flags of no kind": _flags,
    "1 MiB of one text": _text,
    "1 MiB of escapes": _escapes,
    "1 MiB of digits": _digits,
    "1 MiB of brackets": _brackets,
    "one key 49,000 times": _keys_twice,
}
"""By what they are."""
