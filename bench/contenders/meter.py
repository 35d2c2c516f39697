"""The meter every contender carries: when jobs were activated and acknowledged, CPU and memory spent in between."""

import json
import os
import sys
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path

_SAMPLES = 20
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass
class Meter:
    """Counts jobs from activation to acknowledgement. It keeps a few bytes per job, so that memory can be watched."""

    jobs: int
    activated: dict[int, float] = field(default_factory=dict)
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    memory: list[tuple[int, int]] = field(default_factory=list)
    runs: int = 0
    began: float = 0.0
    cpu_began: float = 0.0
    ended: float = 0.0
    cpu_ended: float = 0.0

    def begin(self) -> None:
        """Everything is imported and connected: what follows is the work itself. Whoever started us is told."""
        sys.stdout.write(json.dumps({"began": os.getpid()}) + "\n")
        sys.stdout.flush()
        self.began, self.cpu_began = time.perf_counter(), time.process_time()

    def took(self, job_key: int) -> None:
        """A job arrived."""
        self.activated.setdefault(job_key, time.perf_counter())

    def ran(self) -> None:
        """The verb was performed."""
        self.runs += 1

    def acked(self, job_key: int) -> bool:
        """The engine has the answer. True when this was the last job."""
        now = time.perf_counter()
        if (since := self.activated.pop(job_key, None)) is not None:
            self.latencies.append(now - since)
            if len(self.latencies) % max(1, self.jobs // _SAMPLES) == 0:
                self.memory.append((len(self.latencies), resident_kb()))
        if len(self.latencies) >= self.jobs and not self.ended:
            self.ended, self.cpu_ended = now, time.process_time()
        return bool(self.ended)

    def tell(self) -> None:
        """Print the result as one line of JSON."""
        ordered = sorted(self.latencies)
        result = {
            "seconds": self.ended - self.began,
            "cpu": self.cpu_ended - self.cpu_began,
            "p50": ordered[len(ordered) // 2],
            "p99": ordered[int(len(ordered) * 0.99)],
            "duplicates": self.runs - len(self.latencies),
            "memory": self.memory,
        }
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


def resident_kb() -> int:
    """What this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB
