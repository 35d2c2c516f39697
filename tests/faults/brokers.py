"""One Zeebe broker, or three that replicate three partitions among each other."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from tests.faults.ledger import build_exporter, exporter_settings, read_instances
from tests.support.http import ask
from tests.support.ports import LOOPBACK, free_ports
from tests.support.zeebe import Broker, Ports

PARTITIONS = 3


class Brokers:
    """The brokers of a run, by number."""

    def __init__(self, count: int, folder: Path) -> None:
        jar = build_exporter(folder)
        self.ledgers = [folder / f"ledger-{number}.txt" for number in range(count)]
        ports = [Ports.free() for _ in range(count)]
        outer = free_ports(2 * count)
        self.links: dict[str, tuple[int, str]] = {}
        """What the network must lead to which broker, when there are several: they know each other by these ports."""
        if count > 1:
            for number, own in enumerate(ports):
                self.links[f"internal/{number}"] = (outer[2 * number], f"{LOOPBACK}:{own.internal}")
                self.links[f"command/{number}"] = (outer[2 * number + 1], f"{LOOPBACK}:{own.command}")
        self.nodes = [
            Broker(
                ports=own,
                environment={
                    **self._settings(number, count),
                    **exporter_settings(jar, self.ledgers[number]),
                    # A broker that is killed leaves its unpacked libraries behind: here they go with the run.
                    "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}",
                },
                controlled_clock=False,
            )
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

    def instances(self) -> dict[int, tuple[str, bool]]:
        """Every instance the brokers ever committed: its process, and whether it is alive."""
        return read_instances(self.ledgers)

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

    def _settings(self, number: int, count: int) -> dict[str, str]:
        if count == 1:
            return {}
        contacts = ",".join(f"{LOOPBACK}:{self.links[f'internal/{node}'][0]}" for node in range(count))
        return {
            "ZEEBE_BROKER_CLUSTER_NODEID": str(number),
            "ZEEBE_BROKER_CLUSTER_CLUSTERSIZE": str(count),
            "ZEEBE_BROKER_CLUSTER_REPLICATIONFACTOR": str(count),
            "ZEEBE_BROKER_CLUSTER_PARTITIONSCOUNT": str(PARTITIONS),
            "ZEEBE_BROKER_CLUSTER_INITIALCONTACTPOINTS": contacts,
            "ZEEBE_BROKER_CLUSTER_HEARTBEATINTERVAL": "250ms",
            "ZEEBE_BROKER_CLUSTER_ELECTIONTIMEOUT": "2500ms",
            "ZEEBE_BROKER_NETWORK_INTERNALAPI_ADVERTISEDHOST": LOOPBACK,
            "ZEEBE_BROKER_NETWORK_INTERNALAPI_ADVERTISEDPORT": str(self.links[f"internal/{number}"][0]),
            "ZEEBE_BROKER_NETWORK_COMMANDAPI_ADVERTISEDHOST": LOOPBACK,
            "ZEEBE_BROKER_NETWORK_COMMANDAPI_ADVERTISEDPORT": str(self.links[f"command/{number}"][0]),
        }
