"""The gRPC channel of a process: plain or TLS, with keepalive and fast reconnects."""

import logging
import os
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import grpc

from verbworker.engine.zeebe.connection import GatewayAddress, Tls
from verbworker.errors import ContractInvalid

_log = logging.getLogger(__name__)

_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 45_000),  # gateways disconnect clients that ping more often than every 30 s
    ("grpc.keepalive_timeout_ms", 5_000),
    # Not on an idle channel: the gateway closes it with GOAWAY too_many_pings. A worker always has a poll open.
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # gRPC would prefetch hundreds of pushed jobs for a busy reader, each locked for us.
    ("grpc.http2.lookahead_bytes", 16_384),
    ("grpc.http2.bdp_probe", 0),
    # Despite its name, this limits the duration of one attempt, TLS handshake included.
    ("grpc.min_reconnect_backoff_ms", 5_000),
)


def open_channel(connection: GatewayAddress) -> Any:  # grpc ships no types
    """Open the channel; nothing is sent before the first call. Needs a running event loop."""
    options = channel_options(connection)
    if connection.tls is None:
        if connection.credentials is not None and not _is_loopback(connection.address):
            _log.warning("credentials travel unencrypted: use https:// in the Zeebe address")
        return grpc.aio.insecure_channel(connection.address, options=options)
    return grpc.aio.secure_channel(connection.address, _channel_credentials(connection.tls), options=options)


def channel_options(connection: GatewayAddress) -> tuple[tuple[str, int], ...]:
    """Return the channel's options."""
    return (
        *_OPTIONS,
        ("grpc.max_send_message_length", connection.max_message_bytes),
        ("grpc.max_receive_message_length", connection.max_message_bytes),
    )


def cut_connections(address: str) -> int:
    """Shut down every socket of this process that is connected to `address`, and return how many.

    The only way to end gRPC calls from a thread while the event loop is blocked: gRPC's own calls belong to the loop.
    The gateway sees the connection end immediately; the next call reconnects. If the process cannot list its sockets,
    or connects through a proxy, none is found, and streams end only by their deadline.
    """
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return 0
    wanted = {_endpoint(sockaddr) for *_, sockaddr in found}
    return sum(_shut_down(number, wanted) for number in numbers)


def _shut_down(number: int, wanted: set[tuple[str, int]]) -> bool:
    with suppress(OSError):
        # A duplicate descriptor of the same connection: the number may be closed and reused at any moment.
        own = os.dup(number)
        try:
            connection = socket.socket(fileno=own)
        except OSError:
            os.close(own)  # a file or a pipe
            return False
        with connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and _endpoint(connection.getpeername()) in wanted:
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _endpoint(sockaddr: Any) -> tuple[str, int]:
    """Return address and port, with IPv4-mapped IPv6 addresses as IPv4."""
    address = ip_address(str(sockaddr[0]).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(sockaddr[1])


def _channel_credentials(tls: Tls) -> Any:
    return grpc.ssl_channel_credentials(
        root_certificates=_read(tls.ca),
        private_key=_read(tls.key),
        certificate_chain=_read(tls.certificate),
    )


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ContractInvalid(f"cannot read the certificate file {path}: {error.strerror}") from error


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
