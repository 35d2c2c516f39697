"""DBOS on five steps: `dbos_steps.py DSN INSTANCES IN_FLIGHT threads|async ALONE`, in its own environment."""

import asyncio
import importlib
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.contenders.course import STEPS, TEXT, Course


def threads(dbos: Any) -> Callable[[str], Any]:
    """A workflow of five empty steps, for a thread."""

    def go(text: str) -> str:
        return text

    step = dbos.step()(go)

    def flow(text: str) -> str:
        for _ in range(STEPS):
            text = step(text)
        return text

    workflow = dbos.workflow()(flow)
    return lambda text: asyncio.get_running_loop().run_in_executor(None, workflow, text)


def coroutines(dbos: Any) -> Callable[[str], Any]:
    """The same as a coroutine."""

    async def go(text: str) -> str:
        return text

    step = dbos.step()(go)

    async def flow(text: str) -> str:
        for _ in range(STEPS):
            text = await step(text)
        return text

    workflow: Callable[[str], Any] = dbos.workflow()(flow)
    return workflow


async def run(flow: Callable[[str], Any], course: Course, instances: int, in_flight: int, alone: int) -> None:
    """Warm up, run a crowd, then single ones."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(in_flight))
    turn = asyncio.Semaphore(in_flight)

    async def one() -> None:
        async with turn:
            await flow(TEXT)

    await asyncio.gather(*(one() for _ in range(in_flight)))
    course.begin()
    await asyncio.gather(*(one() for _ in range(instances)))
    course.worked()
    for _ in range(alone):
        course.expect(1)
        await flow(TEXT)
        course.noted_alone()
    course.tell()


def main(dsn: str, instances: int, in_flight: int, kind: str, alone: int) -> None:
    """Launch DBOS on a database of its own and run."""
    dbos: Any = importlib.import_module("dbos").DBOS  # not installed where this file is checked
    dbos(config={"name": "bench", "system_database_url": dsn, "run_admin_server": False, "log_level": "CRITICAL"})
    flow = threads(dbos) if kind == "threads" else coroutines(dbos)
    dbos.launch()
    asyncio.run(run(flow, Course(), instances, in_flight, alone))
    os._exit(0)  # its threads take long to notice


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
