"""The settings of the one channel, and when it warns."""

import logging
import os
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from verbworker.engine.zeebe.channel import channel_options, cut_connections, open_channel
from verbworker.engine.zeebe.connection import Basic, GatewayAddress

SETTINGS = dict(channel_options(GatewayAddress(max_message_bytes=1_000_000)))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("grpc.keepalive_time_ms", 45_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.max_send_message_length", 1_000_000),
        ("grpc.max_receive_message_length", 1_000_000),
    ],
)
def test_a_channel_is_kept_alive_comes_back_and_has_bounds(option: str, value: int) -> None:
    assert SETTINGS[option] == value


@pytest.mark.parametrize(
    ("address", "warnings"),
    [("gateway.test:26500", 1), ("127.0.0.1:26500", 0), ("localhost:26500", 0), ("[::1]:26500", 0)],
)
async def test_credentials_on_a_plain_channel_to_another_machine_are_warned_about(
    address: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        channel = open_channel(GatewayAddress(address, credentials=Basic("demo", "s3cret")))
        await channel.close()

    assert len(caplog.records) == warnings
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_connections_to_the_gateway_are_cut_and_no_others(family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family is socket.AF_INET else "::1"
    with _listening(family, host) as gateway, _listening(family, host) as other:
        port = gateway.getsockname()[1]
        with (
            socket.create_connection((host, port)) as ours,
            socket.create_connection(other.getsockname()[:2]) as theirs,
        ):
            there, _ = gateway.accept()
            elsewhere, _ = other.accept()
            with there, elsewhere:
                cut = cut_connections(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
                ended = there.recv(1)
                theirs.sendall(b"x")

                assert (cut, ended, ours.recv(1), elsewhere.recv(1)) == (1, b"", b"", b"x")


def test_cutting_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w"), _listening(socket.AF_INET, "127.0.0.1"):
        before = _open_files()
        for _ in range(5):
            cut_connections("127.0.0.1:1")

        assert _open_files() <= before  # other tests' sockets may be collected meanwhile


def test_a_gateway_that_nothing_is_connected_to_has_nothing_to_cut() -> None:
    assert cut_connections("127.0.0.1:1") == 0
    assert cut_connections("no-such-host.invalid:26500") == 0


def _open_files() -> Counter[str]:
    """How many descriptors this process has of each file, by the name that the kernel gives it."""
    names: Counter[str] = Counter()
    for descriptor in os.listdir("/dev/fd"):
        with suppress(FileNotFoundError):  # the one that the listing itself had open
            names[os.readlink(f"/dev/fd/{descriptor}")] += 1
    return names


def _listening(family: socket.AddressFamily, host: str) -> socket.socket:
    try:
        return socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"there is no {host} here")
