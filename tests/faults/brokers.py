"""One Zeebe broker, or three that replicate three partitions among each other."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from tests.support.http import ask
from tests.support.ports import LOOPBACK
from tests.support.zeebe import Broker, Ports

PARTITIONS = 3


class Brokers:
    """The brokers of a run, by number."""

    def __init__(self, count: int) -> None:
        ports = [Ports.free() for _ in range(count)]
        contacts = ",".join(f"{LOOPBACK}:{one.internal}" for one in ports)
        self.nodes = [
            Broker(ports=own, environment=_settings(number, count, contacts), controlled_clock=False)
            for number, own in enumerate(ports)
        ]

    @property
    def addresses(self) -> list[str]:
        """The gateways."""
        return [node.address for node in self.nodes]

    @property
    def logs(self) -> list[Path]:
        """The brokers' logs."""
        return [node.log for node in self.nodes]

    async def start(self) -> None:
        """Start all at once: none of them is ready before it has met the others."""
        await asyncio.gather(*(asyncio.to_thread(node.start) for node in self.nodes))

    async def restart(self, number: int, away: float = 0.0) -> None:
        """Kill a broker as a crash would, and bring it back on its data after `away` seconds."""
        node = self.nodes[number]
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(away)
        await asyncio.to_thread(node.start)

    def leader(self, partition: int) -> int | None:
        """The broker that leads a partition, as far as any of them can tell."""
        for node in self.nodes:
            with contextlib.suppress(OSError, ValueError, KeyError):
                status, topology = ask("GET", node.rest_address, "/v2/topology", timeout=3.0)
                for broker in topology["brokers"] if status == 200 else ():
                    for one in broker["partitions"]:
                        if one["partitionId"] == partition and one["role"] == "leader":
                            return int(broker["nodeId"])
        return None

    def starve_raft(self, number: int) -> int:
        """Give the raft threads of a broker the time that nobody else wants; return how many there are."""
        count = 0
        for task in Path(f"/proc/{self.nodes[number].pid}/task").iterdir():
            with contextlib.suppress(OSError):
                if "raft" in (task / "comm").read_text().lower():
                    os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
                    count += 1
        return count

    def freeze(self, number: int) -> None:
        """Stop a broker in its tracks."""
        os.kill(self.nodes[number].pid, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a frozen broker go on."""
        os.kill(self.nodes[number].pid, signal.SIGCONT)

    def stop(self) -> None:
        """End all and remove their data."""
        for node in self.nodes:
            with contextlib.suppress(RuntimeError, ProcessLookupError):
                os.kill(node.pid, signal.SIGCONT)
                node.kill()
        for node in self.nodes:
            node.stop()


def _settings(number: int, count: int, contacts: str) -> dict[str, str]:
    if count == 1:
        return {}
    return {
        "ZEEBE_BROKER_CLUSTER_NODEID": str(number),
        "ZEEBE_BROKER_CLUSTER_CLUSTERSIZE": str(count),
        "ZEEBE_BROKER_CLUSTER_REPLICATIONFACTOR": str(count),
        "ZEEBE_BROKER_CLUSTER_PARTITIONSCOUNT": str(PARTITIONS),
        "ZEEBE_BROKER_CLUSTER_INITIALCONTACTPOINTS": contacts,
        "ZEEBE_BROKER_CLUSTER_HEARTBEATINTERVAL": "250ms",
        "ZEEBE_BROKER_CLUSTER_ELECTIONTIMEOUT": "2500ms",
    }
