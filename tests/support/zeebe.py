"""A real Zeebe 8.6.0 broker as a child process; `python -m tests.support.zeebe` runs one in the foreground."""

import argparse
import http.client
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from tests.support.apart import run_apart
from tests.support.children import Child, close_log, fresh_directory, fresh_log, remove, spawn
from tests.support.errors import Broken, Unavailable
from tests.support.http import ask
from tests.support.java import Java, apart_from_tmp, find_java
from tests.support.ports import LOOPBACK, claim, free_ports
from tests.support.zeebe_home import VERSION, class_path, start_cache, zeebe_home

# One compiler tier and the plainest collector: starting is most of what a test broker does. Deep stacks: a gateway
# that overflows one while it reads a nested variable shuts its whole broker down.
FAST_START = ("-Xmx256m", "-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_TIMEOUT = 120.0
_TRAINING_TIMEOUT = 240.0


@dataclass(frozen=True, slots=True)
class Ports:
    """The five ports of one broker."""

    gateway: int
    rest: int
    management: int
    command: int
    internal: int

    @classmethod
    def free(cls, gateway: int | None = None, rest: int | None = None) -> Self:
        """Free ports, but for those that are asked for by number."""
        chosen = free_ports(5)
        if gateway is not None:
            chosen[0] = gateway
        if rest is not None:
            chosen[1] = rest
        return cls(*chosen)


class Broker:
    """One broker with one partition: on loopback, its data in memory, ended by its own pid."""

    def __init__(
        self,
        *,
        ports: Ports | None = None,
        flags: Sequence[str] = FAST_START,
        environment: Mapping[str, str] | None = None,
        controlled_clock: bool = True,
    ) -> None:
        self._ports = ports or Ports.free()
        self._flags = list(flags)
        self._extra = {"ZEEBE_CLOCK_CONTROLLED": str(controlled_clock).lower(), **(environment or {})}
        self._child: Child | None = None
        self.data = fresh_directory("zeebe")
        self.log = fresh_log("zeebe")

    @property
    def address(self) -> str:
        """host:port of the gRPC gateway."""
        return f"{LOOPBACK}:{self._ports.gateway}"

    @property
    def rest_address(self) -> str:
        """host:port of REST v2."""
        return f"{LOOPBACK}:{self._ports.rest}"

    @property
    def management_address(self) -> str:
        """host:port of the actuators."""
        return f"{LOOPBACK}:{self._ports.management}"

    @property
    def pid(self) -> int:
        """The pid of the Java process."""
        return self._running().pid

    def start(self) -> Self:
        """Start the broker, or start it again on the data it has, and return when it is ready."""
        try:
            self._launch(*prepare(self._flags))
        except BaseException as error:
            self.stop(keep_log=isinstance(error, Exception))  # an interrupted start has nothing to explain
            raise
        return self

    def stop(self, *, keep_log: bool = False) -> None:
        """End the broker in order and remove its data; the log goes too unless it is wanted."""
        if self._child is not None:
            self._child.end(signal.SIGTERM)
            self._child = None
        remove(self.data)
        close_log(self.log, keep=keep_log)

    def kill(self) -> None:
        """End the broker at once, as a crash would; its data stays for `start`."""
        self._running().end(signal.SIGKILL)
        self._child = None

    def restart(self) -> None:
        """Crash and come back, on the same ports and the same data."""
        self.kill()
        self.start()

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.code() is None

    def cpu_seconds(self) -> float:
        """Processor time the broker has used since it was started."""
        return self._running().cpu_seconds()

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward, so that timers fall due now."""
        self._manage("/actuator/clock/add", {"offsetMilli": round(seconds * 1000)})

    def pause(self) -> None:
        """Stop processing: commands are refused as INTERNAL, "Processing paused"."""
        self._manage("/actuator/partitions/pauseProcessing")

    def resume(self) -> None:
        """Go on processing."""
        self._manage("/actuator/partitions/resumeProcessing")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _manage(self, path: str, body: object = None) -> None:
        status, answer = ask("POST", self.management_address, path, body)
        if status >= 300:
            raise RuntimeError(f"the broker answered {status} to {path}: {answer}")

    def _launch(self, java: Java, home: Path, flags: list[str]) -> None:
        for port in astuple(self._ports):
            claim(port)
        scratch = self.data / "tmp"
        scratch.mkdir(exist_ok=True)
        self._child = spawn(
            _command(java, home, [*self._flags, *flags, *apart_from_tmp(scratch)]),
            log=self.log,
            environment={**os.environ, **_settings(self._ports, self.data), **self._extra},
            directory=home,
        )
        self._await_ready(self._child)

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not self._is_ready():
            if child.code() is not None:
                raise Broken(f"the Zeebe broker ended with {child.code()} on start; its log: {self.log}")
            if time.monotonic() > deadline:
                raise Broken(f"the Zeebe broker was not ready in {_TIMEOUT:.0f} s; its log: {self.log}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            status, _ = ask("GET", self.management_address, "/actuator/health/readiness", timeout=5.0)
            # The gateway hears of the leader a little later than the broker, and refuses commands until then.
            return status == 200 and _has_leader(ask("GET", self.rest_address, "/v2/topology", timeout=5.0))
        except (OSError, http.client.HTTPException):
            return False

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("this broker is not running")
        return self._child


def _has_leader(answer: tuple[int, Any]) -> bool:
    status, topology = answer
    brokers = topology.get("brokers", ()) if status == 200 and isinstance(topology, dict) else ()
    return any(partition["role"] == "leader" for broker in brokers for partition in broker["partitions"])


def prepare(flags: Sequence[str] = FAST_START) -> tuple[Java, Path, list[str]]:
    """Everything a start needs: Java, the distribution, more flags. The first call on a machine takes minutes."""
    java, home = find_java(), zeebe_home()
    cache = start_cache(java, list(flags), lambda file: _train(java, home, flags, file))
    return java, home, [f"-XX:AOTCache={cache}"] if cache else []


def _command(java: Java, home: Path, flags: list[str]) -> list[str]:
    return [
        str(java.binary),
        *flags,
        "-XX:+ExitOnOutOfMemoryError",
        "-Dfile.encoding=UTF-8",
        f"-Dapp.home={home}",
        f"-Dbasedir={home}",
        "-cp",
        class_path(home),
        "io.camunda.application.StandaloneBroker",
    ]


def _settings(ports: Ports, data: Path) -> dict[str, str]:
    return {
        "SERVER_ADDRESS": LOOPBACK,
        "SERVER_PORT": str(ports.rest),
        "MANAGEMENT_SERVER_ADDRESS": LOOPBACK,
        "MANAGEMENT_SERVER_PORT": str(ports.management),
        "ZEEBE_BROKER_NETWORK_HOST": LOOPBACK,
        "ZEEBE_BROKER_NETWORK_COMMANDAPI_PORT": str(ports.command),
        "ZEEBE_BROKER_NETWORK_INTERNALAPI_PORT": str(ports.internal),
        "ZEEBE_BROKER_GATEWAY_NETWORK_HOST": LOOPBACK,
        "ZEEBE_BROKER_GATEWAY_NETWORK_PORT": str(ports.gateway),
        "ZEEBE_BROKER_CLUSTER_INITIALCONTACTPOINTS": f"{LOOPBACK}:{ports.internal}",
        "ZEEBE_BROKER_CLUSTER_HEARTBEATINTERVAL": "50ms",
        "ZEEBE_BROKER_CLUSTER_ELECTIONTIMEOUT": "500ms",
        "ZEEBE_BROKER_CLUSTER_RAFT_FLUSH_ENABLED": "false",
        "ZEEBE_BROKER_DATA_DIRECTORY": str(data),
        "ZEEBE_BROKER_DATA_LOGSEGMENTSIZE": "16MB",
        "ZEEBE_BROKER_DATA_DISK_FREESPACE_PROCESSING": "64MB",
        "ZEEBE_BROKER_DATA_DISK_FREESPACE_REPLICATION": "32MB",
    }


def _train(java: Java, home: Path, flags: Sequence[str], file: Path) -> None:
    broker = Broker(flags=flags)
    try:
        broker._launch(java, home, [f"-XX:AOTCacheOutput={file}"])
        run_apart(_exercise(broker.address))
        # Java writes the cache after its last line of work: leave it the time.
        broker._running().end(signal.SIGTERM, timeout=_TRAINING_TIMEOUT)
    finally:
        broker.stop()


async def _exercise(address: str) -> None:
    # The first deployment loads a parser and a FEEL compiler: put them into the cache too.
    from tests.support.client import connected
    from tests.support.models import one_task

    async with connected(address) as client:
        await client.deploy("training", one_task("training", "training"))
        await client.start("training")
        for job in await client.activate("training"):
            await client.complete(job.key)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until SIGINT or SIGTERM; 2 when it cannot start here, 1 when it ends by itself."""
    parser = argparse.ArgumentParser(prog="tests.support.zeebe", description=f"Run Zeebe {VERSION}.")
    parser.add_argument("--port", type=int, default=26500, help="gRPC port (26500)")
    parser.add_argument("--rest-port", type=int, default=None, help="REST port (a free one)")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        claim(chosen.port)
        with Broker(ports=Ports.free(chosen.port, chosen.rest_port), controlled_clock=False) as broker:
            print(f"Zeebe {VERSION} is ready: gRPC {broker.address}, REST {broker.rest_address}", flush=True)
            while broker.alive():
                time.sleep(0.2)
    except (Unavailable, Broken) as reason:
        print(reason, file=sys.stderr)
        return 2
    return 1


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
