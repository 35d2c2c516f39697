"""Standard Webhooks: a signature over id, time and raw body proves the sender and that the request is fresh."""

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from verbworker.errors import ContractInvalid

_PREFIX = "whsec_"
_SHORTEST_SECRET = 24  # as Standard Webhooks demands
_MOST_SIGNATURES = 16  # one per secret during a rotation; each is compared with every secret


@dataclass(frozen=True, slots=True)
class Signed:
    """The signatures in the headers of a request, not yet verified against the body."""

    webhook_id: str
    timestamp: int
    signatures: tuple[bytes, ...]

    def fits(self, body: bytes, secrets: Sequence[bytes]) -> bool:
        """Return whether one of the secrets made one of the signatures. Compares every pair, in constant time."""
        signed = f"{self.webhook_id}.{self.timestamp}.".encode() + body
        found = False
        for secret in secrets:
            expected = hmac.new(secret, signed, sha256).digest()
            for signature in self.signatures:
                found |= hmac.compare_digest(expected, signature)
        return found


def parse_signature(headers: Mapping[str, str], *, now: float, tolerance: float) -> Signed | None:
    """Parse the signature headers. Returns None if they are malformed or their time is off by over `tolerance`."""
    webhook_id, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not webhook_id or not moment.isascii() or not moment.isdecimal() or len(moment) > 15:
        return None
    if abs(now - int(moment)) > tolerance:
        return None
    words = headers.get("webhook-signature", "").split()[:_MOST_SIGNATURES]
    # Signatures of other versions may be present; we check only ours.
    signatures = (_bytes(word.removeprefix("v1,")) for word in words if word.startswith("v1,"))
    return Signed(webhook_id, int(moment), tuple(one for one in signatures if one is not None))


def secret_of(text: str) -> bytes:
    """Decode a secret, written as `whsec_` and Base64."""
    secret = _bytes(text.removeprefix(_PREFIX))
    if secret is None or len(secret) < _SHORTEST_SECRET:
        raise ContractInvalid(
            f"a webhook secret is invalid: write {_PREFIX} and the Base64 of at least {_SHORTEST_SECRET} random bytes"
        )
    return secret


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
