"""The consumer that the guide shows, on a real NATS server with JetStream."""

import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig

from tests.acceptance.test_consume import GIVEN, KEPT, LETTERS
from tests.support.children import Child, spawn
from tests.support.command import COMMAND, environment
from tests.support.databases import value
from tests.support.docs_pages import page
from tests.support.eventually import eventually
from tests.support.ingress_process import envelope
from tests.support.mail import TENANT
from tests.support.ports import LOOPBACK, free_ports


class Nats:
    """A NATS server that stores its streams on disk."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._folder = folder
        self._child: Child | None = None
        self.url = f"nats://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start it, with what it stored before."""
        command = [
            str(Path(sys.executable).with_name("nats-server")),
            "--jetstream",
            "--store_dir",
            str(self._folder / "js"),
        ]
        self._child = spawn([*command, "--addr", LOOPBACK, "--port", str(self._port)], log=self._folder / "nats.log")

    def end(self) -> None:
        """Kill it."""
        if self._child is not None:
            self._child.end(signal.SIGKILL)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Nats]:
    server = Nats(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.end()


async def publish(bus: Nats, *bodies: bytes) -> None:
    client = await nats.connect(bus.url)
    try:
        stream = client.jetstream()
        await stream.add_stream(StreamConfig(name="DOCUMENTS", subjects=["documents"]))
        for body in bodies:
            await stream.publish("documents", body)
    finally:
        await client.close()


async def is_all_acknowledged(bus: Nats) -> bool:
    """Whether the server has no message left for the consumer."""
    client = await nats.connect(bus.url)
    try:
        info = await client.jetstream().consumer_info("DOCUMENTS", "verbworker")
        return not info.num_pending and not info.num_ack_pending
    finally:
        await client.close()


def letter(message_id: str) -> bytes:
    return json.dumps(envelope(message_id=message_id)).encode()


@pytest.mark.req("ING-05", "ING-07", "X-27")
async def test_the_guides_consumer_brings_everything_and_outlives_its_server(
    tmp_path: Path, dsn: str, bus: Nats
) -> None:
    (block,) = [block for block in page("how-to/consume.md").blocks if block.title == "bus.py"]
    block.write(tmp_path)
    assert len(block.text.splitlines()) <= 22
    await publish(bus, letter("m-1"), b"garbage", letter("m-1"), letter("m-2"))
    child = spawn(
        [COMMAND, "consume", "--from", "bus:documents"],
        log=tmp_path / "consume.log",
        environment=environment(dsn, NATS_URL=bus.url, **GIVEN),
        directory=tmp_path,
    )

    async def has(ids: str) -> bool:
        return str(await value(dsn, KEPT)) == ids

    try:
        await eventually(lambda: has("m-1,m-2"))
        bus.end()
        bus.start()
        await publish(bus, letter("m-3"))
        await eventually(lambda: has("m-1,m-2,m-3"))
        # An acknowledgement that was lost with the server is made up for when the message comes again.
        await eventually(lambda: is_all_acknowledged(bus), timeout=90)
        code = child.end(signal.SIGTERM)
    finally:
        child.end(signal.SIGKILL)

    assert code == 0
    assert await value(dsn, LETTERS) == f"invalid of {TENANT}"
