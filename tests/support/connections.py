"""How a test connects to an engine: by gRPC, or by REST alone where the address begins with rest://."""

from typing import Any

from verbworker.engine.zeebe.connection import GatewayAddress

# Nothing listens there, so a call that went over gRPC all the same would fail.
NOWHERE = "127.0.0.1:1"


def connection_to(address: str, **settings: Any) -> GatewayAddress:
    """The connection settings for an address of `Gateway`."""
    if address.startswith("rest://"):
        url = address.replace("rest://", "http://")
        return GatewayAddress(NOWHERE, rest_url=url, transport="rest", **settings)
    return GatewayAddress(address, **settings)
