"""What a hostile body costs an ingress: processor time, the longest standstill of its loop, and another tenant's waits.

python -m bench.ingress [--repeat N] [--seconds N]
"""

import argparse
import asyncio
import os
import time
from statistics import quantiles

import psutil

from tests.security.fuzz.bodies import HUGE
from tests.security.fuzz.connection import Connection
from tests.security.fuzz.ingress import Measured, measured_ingress
from tests.support.ingress_process import API_KEY, OTHER_KEY
from verbworker.payload.canonical import canonical

_RESOLUTION = "/v1/incidents/00000000-0000-0000-0000-000000000001/resolution"
_PATHS = ("/messages", "/v1/messages", "/v1/entries", "/api/workflow/message", _RESOLUTION)
_JSON = "application/json"


def spent(process: psutil.Process) -> float:
    """Return the processor time of a process and of its reader of bodies, in milliseconds."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(one.user + one.system for one in times)) * 1000


async def cost(measured: Measured, process: psutil.Process, path: str, body: bytes, repeat: int) -> str:
    """Send a body several times; return a line of what it cost."""
    async with Connection(measured.ingress.port, API_KEY) as connection:
        await connection.post(path, _JSON, body)  # what is imported or compiled once is not counted
        await asyncio.to_thread(measured.stalls)
        before, status, size = spent(process), 0, 0
        for _ in range(repeat):
            status, size = await connection.post(path, _JSON, body)
        each = (spent(process) - before) / repeat
    stalls = await asyncio.to_thread(measured.stalls)
    return f"{status}{size:>8} B{each:>9.0f} ms{stalls.thread:>9.0f}{stalls.process:>9.0f}{stalls.wall:>9.0f}"


async def waits(measured: Measured, seconds: float, *, is_flooded: bool) -> list[float]:
    """Return how long small messages of another tenant took, in milliseconds, with or without a flood of large ones."""
    stop = asyncio.Event()
    taken: list[float] = []

    async def flood() -> None:
        body = HUGE["1 MiB, 49,900 floats"]()
        async with Connection(measured.ingress.port, API_KEY) as connection:
            while not stop.is_set():
                status, _ = await connection.post("/messages", _JSON, body)
                await asyncio.sleep(0.02 if status == 429 else 0)

    async def other() -> None:
        async with Connection(measured.ingress.port, OTHER_KEY) as connection:
            ends_at = time.monotonic() + seconds
            number = 0
            while time.monotonic() < ends_at:
                number += 1
                fields = {"message_name": "x", "message_id": f"{is_flooded}-{number}-{ends_at}", "tenant_id": "globex"}
                began = time.perf_counter()
                await connection.post("/messages", _JSON, canonical({**fields, "correlation_key": "k"}))
                taken.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(0.02)
        stop.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(other())
        for _ in range(4 if is_flooded else 0):
            tasks.create_task(flood())
    return taken


def main() -> None:
    """Print one line per body and path, and the waits of another tenant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; a body may cost 150 ms of processor time, a standstill 50 ms")
    print(f"{'body':<38}{'path':<26}status  answer      each   thread  process     wall")
    with measured_ingress() as measured:
        process = _server(measured)
        for name, make in HUGE.items():
            for path in _PATHS:
                line = asyncio.run(cost(measured, process, path, make(), asked.repeat))
                print(f"{name:<38}{path[-24:]:<26}{line}", flush=True)
    # With the rates that every server has unless it is told otherwise.
    with measured_ingress(VERBWORKER_INGRESS_RATE="50", VERBWORKER_INGRESS_BURST="100") as measured:
        quiet = asyncio.run(waits(measured, asked.seconds, is_flooded=False))
        flooded = asyncio.run(waits(measured, asked.seconds, is_flooded=True))
    median, high = (quantiles(one, n=100) for one in (quiet, flooded))
    print(f"another tenant, quiet:   p50 {median[49]:.1f} ms  p99 {median[98]:.1f} ms  {len(quiet)} messages")
    print(f"another tenant, flooded: p50 {high[49]:.1f} ms  p99 {high[98]:.1f} ms  {len(flooded)} messages")
    print(f"p99 flooded to quiet: {high[98] / median[98]:.2f} (goal: below 2)")


def _server(measured: Measured) -> psutil.Process:
    """Return the process that listens: the one started, or a child of it."""
    port = measured.ingress.port
    for one in psutil.net_connections("tcp"):
        if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN and one.pid:
            return psutil.Process(one.pid)
    raise RuntimeError("nothing listens")


if __name__ == "__main__":
    main()
