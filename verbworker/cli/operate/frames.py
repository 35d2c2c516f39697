"""`verbworker frames`: show one job, explain its history, and release a held one."""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from verbworker.app import settings as config
from verbworker.app.explain import explain as story
from verbworker.app.explain import headline
from verbworker.app.output import COUNTED, answer, busy, moment, print_json, say, show, show_first
from verbworker.app.settings import Settings
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.shared_options import AsNew, AsNewConfirmed, By, Dsn, Json, Limit, Reason, Retries, confirm_as_new
from verbworker.client.resources import Resources
from verbworker.errors import NotFound, Refused
from verbworker.job.frame import FrameState
from verbworker.stores.jobs.compensations import UNDO, Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories, History
from verbworker.work.upkeep.releases import Release, ReleaseAnswer, Releases
from verbworker.work.upkeep.resolutions import Resolutions

app = typer.Typer(help="Frames: the history of each job, and jobs held for a person.", no_args_is_help=True)

JobKey = Annotated[int, typer.Argument(min=0, max=2**63 - 1, help="Job key of the engine.")]
FrameEngineId = Annotated[
    str | None,
    typer.Option(
        "--engine-id", help="Engine ID of the cluster; append /undo for undo jobs (default: $VERBWORKER_ENGINE_ID)."
    ),
]


@app.command("show", epilog="Example: verbworker frames show 2251799813685312")
def show_frame(job_key: JobKey, dsn: Dsn = None, engine_id: FrameEngineId = None, as_json: Json = False) -> None:
    """Show a frame without its payload. Exits 1 if it does not exist."""
    frame = asdict(_history(config.load(dsn=dsn, engine_id=engine_id), job_key).frame)
    if as_json:
        print_json(frame)
        return
    show([{"name": name, "value": value} for name, value in frame.items()], columns=("name", "value"), as_json=False)


@app.command(epilog="Example: verbworker frames explain 2251799813685312")
def explain(job_key: JobKey, dsn: Dsn = None, engine_id: FrameEngineId = None, as_json: Json = False) -> None:
    """Explain what happened to a job, in order, and why. Exits 1 if its frame does not exist."""
    history = _history(config.load(dsn=dsn, engine_id=engine_id), job_key)
    lines = story(history)
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    say(f"{headline(history.frame)} Times are UTC.")
    for line in lines:
        say(f"{moment(line.at)}  {line.text}")


@app.command("list", epilog="Example: verbworker frames list --state incident --json")
def list_frames(
    state: Annotated[FrameState, typer.Option("--state", help="State of the frames.")] = FrameState.INCIDENT,
    limit: Limit = 100,
    dsn: Dsn = None,
    engine_id: FrameEngineId = None,
    as_json: Json = False,
) -> None:
    """List the frames in one state, longest wait first."""
    settings = config.load(dsn=dsn, engine_id=engine_id)
    cluster = settings.cluster()
    rows = run_with_resources(
        settings, lambda resources: Histories(resources.database, engine_id=cluster).list(state, limit=limit + COUNTED)
    )
    names = "job_key verb element_id runs retries_left since fail_class fail_code fail_text engine_id"
    show(show_first(rows, limit), columns=tuple(names.split()), as_json=as_json)


@app.command(epilog="Example: verbworker frames release 2251799813685312 --reason 'the provider is back'")
def release(
    job_key: JobKey,
    reason: Reason,
    by: By = "",
    retries: Retries = 3,
    as_new: AsNew = False,
    incident_key: Annotated[
        int | None,
        typer.Option("--incident-key", min=0, max=2**63 - 1, help="Key of the incident, if it cannot be found."),
    ] = None,
    frame_only: Annotated[
        bool, typer.Option("--frame-only", help="Do not change the job and the incident in the engine.")
    ] = False,
    yes: AsNewConfirmed = False,
    dsn: Dsn = None,
    engine_id: FrameEngineId = None,
    as_json: Json = False,
) -> None:
    """Let a held job run again. Exits 1 if it is not held or the engine does not confirm."""
    settings = config.load(dsn=dsn, engine_id=engine_id)
    if as_new and not yes:
        confirm_as_new("Release it as new?")
    wanted = Release(job_key, by, reason, retries, as_new, incident_key)
    with busy(f"releasing {job_key}"):
        done = run_with_resources(
            settings, lambda resources: _release(resources, wanted, frame_only=frame_only), changes=True
        )
    if not done.done:
        raise Refused(done.sentence)
    if frame_only and settings.engine == "embedded":
        # No other tool resolves its incidents.
        done = replace(done, sentence="the frame is released; run this again without --frame-only to let the job run")
    answer(done.sentence, {"job_key": job_key, "by": wanted.by, **asdict(done)}, as_json=as_json)


async def _release(resources: Resources, wanted: Release, *, frame_only: bool) -> ReleaseAnswer:
    engine_id, database = resources.settings.cluster(), resources.database
    engine = None if frame_only else await resources.open_engine()
    frames = Frames(database, engine_id=engine_id, owner=resources.owner)
    histories, records = Histories(database, engine_id=engine_id), None
    if engine is not None and wanted.incident_key is None and not engine_id.endswith(UNDO):
        held = await histories.read(wanted.job_key)
        if held is not None:
            resolutions = Resolutions(database, engine, owner=resources.owner)
            found = await resolutions.key_of_job(wanted.job_key, held.frame.process_instance_key)
            wanted = replace(wanted, incident_key=found)
    if engine_id.endswith(UNDO):
        records = Compensations(database, engine_id=engine_id.removesuffix(UNDO))
    return await Releases(frames, histories, engine, records=records).release(wanted)


def _history(settings: Settings, job_key: int) -> History:
    cluster = settings.cluster()
    history = run_with_resources(
        settings, lambda resources: Histories(resources.database, engine_id=cluster).read(job_key)
    )
    if history is None:
        raise NotFound(f"job {job_key} has no frame on engine {cluster}")
    return history
