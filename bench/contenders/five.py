"""verbworker on five tasks: `five.py ENGINE ADDRESS DSN INSTANCES IN_FLIGHT MODE ALONE starts|backlog`.

ENGINE is embedded or zeebe, MODE external or transactional, ALONE how many instances are run one after the other.
"""

import asyncio
import cProfile
import logging
import os
import sys
from typing import Any, Literal, cast
from uuid import uuid4

from pydantic import BaseModel

from bench.contenders.course import STEPS, TEXT, Course
from tests.support.models import line
from tests.support.start import begin
from verbworker.app import wiring as app
from verbworker.app.settings import Settings
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine, Resource
from verbworker.errors import EngineUnavailable
from verbworker.stores.database import Database

STARTERS = 32


class Case(BaseModel):
    """What the empty verbs see of the payload."""

    text: str


def chosen(name: str, address: str, settings: Settings) -> Engine:
    """The engine to run on."""
    if name == "embedded":
        return app.choose_engine(settings)
    from verbworker.engine.zeebe.connection import GatewayAddress
    from verbworker.engine.zeebe.engine import ZeebeEngine

    return ZeebeEngine(GatewayAddress(address=address), engine_id="bench")


def watch(engine: Any, course: Course) -> None:
    """Count completions that are durable, whichever way they went."""
    complete = engine.complete

    async def completed(job_key: int, result: Any, *, lease_token: str | None = None) -> None:
        await complete(job_key, result, lease_token=lease_token)
        course.stepped()

    engine.complete = completed
    if (prepare := getattr(engine, "prepare_completion", None)) is None:
        return

    async def prepared(job_key: int, result: Any) -> Any:
        completion = await prepare(job_key, result)
        return Counted(completion, course)

    engine.prepare_completion = prepared


class Counted:
    """A completion in the verb's transaction that counts when it is committed."""

    def __init__(self, completion: Any, course: Course) -> None:
        self.finish = completion.finish
        self.finish_in = completion.finish_in
        self.save_in = completion.save_in
        self._completion = completion
        self._course = course

    def end(self, *, is_saved: bool) -> None:
        """Count what was committed."""
        self._completion.end(is_saved=is_saved)
        if is_saved:
            self._course.stepped()


def registry(domain: str, mode: Literal["external", "transactional"], in_flight: int) -> tuple[Registry, WorkflowVerb]:
    """Five empty verbs, and the workflow verb that the instances belong to."""
    verbs = Registry()
    names = tuple(f"{domain}.go-{number}" for number in range(1, STEPS + 1))
    for name in names:

        @verbs.verb(name, mode=mode, writes=(), concurrency=in_flight)
        async def go(case: Case) -> Case:
            """Do nothing."""
            return case

    workflow = WorkflowVerb(
        name=f"{domain}.flow", version=1, process=f"{domain}-flow", schema=f"{domain}.flow/v1", sub_verbs=names
    )
    verbs.declare(workflow)
    return verbs, workflow


class Starter:
    """Starts instances as the router does: known to the database, started in the engine, pinned."""

    def __init__(self, database: Database, engine: Engine, workflow: WorkflowVerb) -> None:
        self._database = database
        self._engine = engine
        self._workflow = workflow
        self._turn = asyncio.Semaphore(STARTERS)

    async def start(self) -> None:
        """Start one, again when the broker is too busy."""
        async with self._turn:
            while True:
                try:
                    await begin(self._database, self._engine, self._workflow, {"text": TEXT})
                    return
                except EngineUnavailable:
                    await asyncio.sleep(0.05)

    async def start_many(self, count: int) -> None:
        """Start `count`."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(self.start())


async def run(course: Course, starter: Starter, working: app.App, instances: int, alone: int, is_live: bool) -> None:
    """Warm up, work a crowd of instances off, then single ones."""
    stop = asyncio.Event()
    profile = cProfile.Profile() if os.environ.get("BENCH_PROFILE") else None
    async with asyncio.TaskGroup() as tasks:
        if not is_live:
            course.expect(instances)
            await starter.start_many(instances)
        if profile:
            profile.enable()
        if is_live:
            worker = tasks.create_task(working.run(stop))
            course.expect(50)
            await starter.start_many(50)
            await course.ended()
            course.expect(instances)
            course.begin()
            await starter.start_many(instances)
        else:
            course.begin()
            worker = tasks.create_task(working.run(stop))
        await course.ended()
        course.worked()
        if profile:
            profile.disable()
            profile.dump_stats(os.environ["BENCH_PROFILE"])
        for _ in range(alone):
            course.expect(1)
            await starter.start()
            await course.ended()
            course.noted_alone()
        stop.set()
        await worker


async def main(arguments: list[str]) -> None:
    """Deploy, open a worker, run."""
    engine_name, address, dsn, instances, in_flight, mode, alone, way = arguments
    course, domain = Course(), f"bench-{uuid4().hex[:8]}"
    verbs, workflow = registry(domain, cast(Any, mode), int(in_flight))
    settings = Settings(dsn=dsn, engine="embedded", engine_id="bench", http_port=0)  # type: ignore[arg-type]
    engine = chosen(engine_name, address, settings)
    watch(engine, course)
    async with app.open_app(settings, verbs, engine) as working, Database(dsn, size=4) as database:
        app.keep_for_good()
        types = [verb.name for verb in verbs]
        await engine.deploy([Resource(f"{domain}.bpmn", line(workflow.process, types))])
        starter = Starter(database, engine, workflow)
        await run(course, starter, working, int(instances), int(alone), way == "starts")
    course.tell()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[1:]))
