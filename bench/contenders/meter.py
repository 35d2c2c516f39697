"""The meter every contender carries: when jobs were activated and acknowledged, and the CPU spent in between."""

import json
import os
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Meter:
    """Counts jobs from activation to acknowledgement, by key."""

    jobs: int
    activated: dict[int, float] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    runs: int = 0
    began: float = 0.0
    cpu_began: float = 0.0
    ended: float = 0.0
    cpu_ended: float = 0.0

    def begin(self) -> None:
        """Everything is imported and connected: what follows is the work itself."""
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
        if job_key not in self.acknowledged:
            self.acknowledged.add(job_key)
            self.latencies.append(now - self.activated.get(job_key, now))
        if len(self.acknowledged) >= self.jobs and not self.ended:
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
            "duplicates": self.runs - len(self.acknowledged),
            "pid": os.getpid(),
        }
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
