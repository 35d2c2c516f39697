"""The settings of the one channel, and when it warns."""

import logging

import pytest

from verbworker.engines.zeebe.channel import channel_options, open_channel
from verbworker.engines.zeebe.connection import Basic, Connection

SETTINGS = dict(channel_options(Connection(max_message_bytes=1_000_000)))


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
        channel = open_channel(Connection(address, credentials=Basic("demo", "s3cret")))
        await channel.close()

    assert len(caplog.records) == warnings
    assert "s3cret" not in caplog.text
