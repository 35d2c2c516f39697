"""Addresses of other services: keys and tokens must come over a connection that cannot be tampered with."""

from urllib.parse import urlsplit

from verbworker.errors import ContractInvalid

_HERE = ("127.0.0.1", "::1", "localhost")


def require_safe(place: str) -> None:
    """Raise `ContractInvalid` if an issuer's answers could be changed in transit."""
    parts = urlsplit(place)
    if parts.scheme == "http" and parts.hostname not in _HERE:
        raise ContractInvalid(
            "the issuer's keys must come over https: whoever changes them on the way could be anybody"
        )
