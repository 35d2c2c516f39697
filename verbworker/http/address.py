"""Addresses: which reach only this machine, and which may be trusted with keys and tokens."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from verbworker.errors import ContractInvalid


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def require_safe(url: str) -> None:
    """Raise `ContractInvalid` if an issuer's answers could be changed in transit."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ContractInvalid("the issuer's keys must come over https: over http, anyone on the way could change them")
