"""Hostile bodies at a real ingress: `python -m tests.security.fuzz.ingress --bodies 100000 --seed 18`.

Prints how many were answered how, and how long the event loop stood still. Exits 1 for an answer of 500 or more, for an
ingress that ended, and for a standstill beyond 50 ms: of the clock with `--quiet`, on a machine that does nothing else;
of the processor time of the loop's thread otherwise.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.security.fuzz import loop_probe
from tests.security.fuzz.bodies import Bodies
from tests.security.fuzz.connection import Connection
from tests.security.fuzz.loop_probe import PLANT, Stalls
from tests.support.distributions import ROOT
from tests.support.ingress_process import API_KEY, IngressProcess, ingress_process, write_app
from tests.support.postgres import Postgres, Template

LONGEST_STALL_MS = 50.0
_UNLIMITED = {"VERBWORKER_INGRESS_RATE": "1000000", "VERBWORKER_INGRESS_BURST": "1000000"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A running ingress, and where its event loop is measured."""

    ingress: IngressProcess
    probe: Path

    def stalls(self) -> Stalls:
        """Return the standstills since the last call."""
        return loop_probe.read(self.probe)


@contextmanager
def measured_ingress(**settings: str) -> Iterator[Measured]:
    """An ingress on a database of its own, whose event loop is measured; without a limit of the rate."""
    server = Postgres().start()
    try:
        template = Template(server.dsn)
        template.build()
        with template.clone() as dsn, tempfile.TemporaryDirectory(prefix="verbworker-fuzz-") as place:
            folder, probe = Path(place), Path(place) / "stalls.json"
            write_app(folder)
            allow_everything(folder / "credentials.json")
            module = folder / "mailing.py"
            module.write_text(PLANT.format(path=str(probe)) + module.read_text())
            path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
            with ingress_process(folder, dsn, **{**_UNLIMITED, "PYTHONPATH": path, **settings}) as ingress:
                yield Measured(ingress, probe)
    finally:
        server.stop()


def allow_everything(credentials: Path) -> None:
    """Give every key all scopes: the attacks reach each route."""
    known = json.loads(credentials.read_text())
    for key in known["api_keys"]:
        key["scopes"] = ["messages", "read", "start", "decide", "cancel", "resolve"]
    credentials.write_text(json.dumps(known))


@dataclass
class Tally:
    """What was answered."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0
    failed: list[str] = field(default_factory=list)


async def send(port: int, bodies: Bodies, count: int, senders: int, tally: Tally) -> None:
    """Send so many bodies over so many connections."""
    left = iter(range(count))

    async def sender() -> None:
        async with Connection(port, API_KEY) as connection:
            for number in left:
                request = bodies.request()
                began = time.perf_counter()
                try:
                    status, size = await asyncio.wait_for(connection.post(*request), 120)
                except (OSError, EOFError, TimeoutError):
                    status, size = 0, 0
                tally.statuses[status] += 1
                if status == 0 or status >= 500:
                    path, kind, body = request
                    tally.failed.append(f"{status} POST {path} {kind} {body[:300]!r}")
                tally.slowest = max(tally.slowest, time.perf_counter() - began)
                tally.largest = max(tally.largest, size)
                if number % 10_000 == 9_999:
                    print(f"{number + 1:,} sent", file=sys.stderr, flush=True)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(senders):
            tasks.create_task(sender())


def main(arguments: list[str] | None = None) -> int:
    """Run the attack; return 1 if it did not hold."""
    parser = argparse.ArgumentParser(prog="tests.security.fuzz.ingress")
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--quiet", action="store_true", help="the machine does nothing else: the clock counts")
    asked = parser.parse_args(arguments)
    tally, began = Tally(), time.monotonic()
    with measured_ingress() as measured:
        measured.stalls()  # without those of the start
        asyncio.run(send(measured.ingress.port, Bodies(asked.seed), asked.bodies, asked.senders, tally))
        stalls, is_alive = measured.stalls(), measured.ingress.listens()
    seconds = time.monotonic() - began
    answers = " ".join(f"{status}:{count}" for status, count in sorted(tally.statuses.items()))
    print(
        f"bodies={asked.bodies} seed={asked.seed} seconds={seconds:.0f} load={os.getloadavg()[0]:.1f} answers {answers}"
    )
    print(f"slowest={tally.slowest * 1000:.0f}ms largest_answer={tally.largest}B alive={is_alive}")
    print(f"stall wall={stalls.wall:.0f}ms process={stalls.process:.0f}ms thread={stalls.thread:.0f}ms")
    failed = sum(count for status, count in tally.statuses.items() if status == 0 or status >= 500)
    stall = stalls.wall if asked.quiet else stalls.thread
    held = is_alive and failed == 0 and stall <= LONGEST_STALL_MS
    print("".join(f"{line}\n" for line in tally.failed[:10]), end="")
    print("held" if held else f"did not hold: failed={failed} stall={stall:.0f}ms")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
