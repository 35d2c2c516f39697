"""Addresses outside: what is believed must come by a way on which nobody can change it."""

from urllib.parse import urlsplit

from verbworker.errors import ContractInvalid

_HERE = ("127.0.0.1", "::1", "localhost")


def require_safe(place: str) -> None:
    """Raise `ContractInvalid` for the address of an issuer whose answers somebody on the way could change."""
    parts = urlsplit(place)
    if parts.scheme == "http" and parts.hostname not in _HERE:
        raise ContractInvalid(
            "the issuer's keys must come over https: whoever changes them on the way could be anybody"
        )
