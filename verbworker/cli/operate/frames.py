"""`verbworker frames`: show one job, explain its history, and release a held one."""

import getpass
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import NoReturn
from uuid import uuid4

import typer

from verbworker.app import settings as config
from verbworker.app.explain import explain as story
from verbworker.app.explain import headline
from verbworker.app.output import answer, busy, complain, not_blank, print_json, run, say, show
from verbworker.app.settings import Settings
from verbworker.cli.operate.db import DSN
from verbworker.job.frame import FrameState
from verbworker.stores import migrations
from verbworker.stores.database import Database
from verbworker.stores.jobs.compensations import UNDO, Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories, History
from verbworker.work.upkeep.releases import Release, ReleaseAnswer, Releases

app = typer.Typer(
    help="The frames of jobs: what happened to each, and those that wait for a person.", no_args_is_help=True
)

JOB = typer.Argument(min=0, max=2**63 - 1, help="The engine's key of the job.", show_default=False)
ENGINE_ID = typer.Option(
    None, "--engine-id", help="The cluster's name, for undos with /undo; else VERBWORKER_ENGINE_ID.", show_default=False
)
STATE = typer.Option(FrameState.INCIDENT, "--state", help="The state the frames are in.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command("show", epilog="Example: verbworker frames show 2251799813685312")
def show_frame(
    job_key: int = JOB, dsn: str | None = DSN, engine_id: str | None = ENGINE_ID, as_json: bool = JSON
) -> None:
    """Print everything a frame says but its payload; exit 1 when there is no such frame."""
    frame = asdict(_history(config.load(dsn=dsn, engine_id=engine_id), job_key).frame)
    if as_json:
        print_json(frame)
    else:
        show(
            [{"name": name, "value": value} for name, value in frame.items()], columns=("name", "value"), as_json=False
        )


@app.command(epilog="Example: verbworker frames explain 2251799813685312")
def explain(job_key: int = JOB, dsn: str | None = DSN, engine_id: str | None = ENGINE_ID, as_json: bool = JSON) -> None:
    """Tell what happened to a job, in order, and why; exit 1 when there is no such frame."""
    history = _history(config.load(dsn=dsn, engine_id=engine_id), job_key)
    lines = story(history)
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    say(f"{headline(history.frame)} Times are UTC.")
    for line in lines:
        say(f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03d}  {line.text}")


@app.command("list", epilog="Example: verbworker frames list --state incident --json")
def list_frames(
    state: FrameState = STATE,
    limit: int = typer.Option(100, "--limit", min=1, max=10_000, help="At most this many."),
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
    as_json: bool = JSON,
) -> None:
    """List the frames in one state, those that wait longest first."""
    settings = config.load(dsn=dsn, engine_id=engine_id)

    async def read() -> list[dict[str, object]]:
        async with _histories(settings) as histories:
            return await histories.list(state, limit=limit)

    names = "job_key verb element_id runs retries_left since fail_class fail_code fail_text engine_id"
    show(run(read()), columns=tuple(names.split()), as_json=as_json)


@app.command(epilog="Example: verbworker frames release 2251799813685312 --reason 'the provider is back'")
def release(
    job_key: int = JOB,
    reason: str = typer.Option(
        ..., "--reason", callback=not_blank, help="Why; kept with the frame.", show_default=False
    ),
    by: str = typer.Option("", "--by", help="Who; else the user of this process.", show_default=False),
    retries: int = typer.Option(3, "--retries", min=1, max=1000, help="How often it may be tried."),
    as_new: bool = typer.Option(False, "--as-new", help="With a new idempotency key: the outside sees another job."),
    incident_key: int | None = typer.Option(None, "--incident-key", help="The engine's key of the incident."),
    frame_only: bool = typer.Option(False, "--frame-only", help="Leave the engine's job and incident to yourself."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask before --as-new."),
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
    as_json: bool = JSON,
) -> None:
    """Let a held job run again; exit 1 when it is not held or the engine was not told."""
    settings = config.load(dsn=dsn, engine_id=engine_id)
    if as_new and not yes:
        typer.confirm("The job's effect on the outside may happen a second time. Release it as new?", abort=True)
    wanted = Release(job_key, by or getpass.getuser(), reason, retries, as_new, incident_key)
    with busy(f"releasing {job_key}"):
        done = run(_release(settings, wanted, frame_only=frame_only))
    if not done.done:
        _refuse(done.sentence)
    answer(done.sentence, {"job_key": job_key, "by": wanted.by, **asdict(done)}, as_json=as_json)


async def _release(settings: Settings, wanted: Release, *, frame_only: bool) -> ReleaseAnswer:
    from verbworker.app.wiring import choose_engine  # takes a third of a second; reading frames does not need it

    engine_id = settings.cluster()
    async with AsyncExitStack() as stack:
        engine = None if frame_only else await stack.enter_async_context(choose_engine(settings))
        await migrations.require(settings.database())
        database = await stack.enter_async_context(Database(settings.database(), size=1))
        frames = Frames(database, engine_id=engine_id, owner=uuid4())
        histories, records = Histories(database, engine_id=engine_id), None
        if engine_id.endswith(UNDO):
            records = Compensations(database, engine_id=engine_id.removesuffix(UNDO))
        return await Releases(frames, histories, engine, records=records).release(wanted)


@asynccontextmanager
async def _histories(settings: Settings) -> AsyncIterator[Histories]:
    engine_id = settings.cluster()
    await migrations.require(settings.database())
    async with Database(settings.database(), size=1) as database:
        yield Histories(database, engine_id=engine_id)


def _history(settings: Settings, job_key: int) -> History:
    async def read() -> History | None:
        async with _histories(settings) as histories:
            return await histories.read(job_key)

    history = run(read())
    if history is None:
        _refuse(f"job {job_key} has no frame on engine {settings.cluster()}")
    return history


def _refuse(sentence: str) -> NoReturn:
    complain(sentence)
    raise typer.Exit(1)
