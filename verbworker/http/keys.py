"""API keys: known only by their SHA-256, and compared in a time that does not depend on which one matches."""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, TypeVar

Holder = TypeVar("Holder")

API_KEY: Final = "x-api-key"
"""The header that carries a key."""


def holder_of(key: str, known: Sequence[tuple[bytes, Holder]]) -> Holder | None:
    """Return the holder of the key, or None if its hash is unknown."""
    shown = sha256(key.encode("latin-1", errors="replace")).digest()
    found = None
    # Compare with all of them, always: the duration must not reveal which one matches.
    for hashed, holder in known:
        if hmac.compare_digest(hashed, shown):
            found = holder
    return found
