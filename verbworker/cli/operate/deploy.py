"""`verbworker deploy`: lint models, weave in the runtime's listeners, and deploy them to the engine."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verbworker.app import settings as config
from verbworker.app.output import busy, complain, print_json, say
from verbworker.cli.client_runs import run_with_resources
from verbworker.cli.shared_options import App, By, Dsn, EngineId, Json, Paths, VerbsFolder
from verbworker.client.resources import Resources
from verbworker.errors import CannotRun, CommandInvalid

if TYPE_CHECKING:
    from verbworker.work.starts.deploy import PreparedModels, ReadyModel

Row = dict[str, object]


def deploy(
    paths: Paths,
    app: App,
    verbs: VerbsFolder = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the woven models and deploy nothing.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder of --dry-run.")] = None,
    by: By = "",
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Lint, weave and deploy models. Exits 1 if the linter or the engine rejects one.

    If one model has lint errors or cannot be woven, none is deployed; warnings do not prevent deployment. Deploying the
    same bytes again changes nothing. Models that \\[tool.verblint] lists as plain are deployed as authored. A dry run
    needs neither engine nor database; without --out it prints the model.
    """
    # Imported here so that other commands need not wait for them.
    from verbworker.app.wiring import load_app
    from verbworker.profile.verify.models import open_linter, read_models
    from verbworker.work.starts.deploy import prepare

    if out is not None and not dry_run:
        raise CannotRun("--out is the output folder of a dry run; pass --dry-run too")
    settings = config.load(dsn=dsn, engine_id=engine_id)
    with busy("linting and weaving"):
        prepared = prepare(read_models(paths), open_linter(verbs), load_app(app))
    code = _judge(prepared)
    rows: list[Row] = []
    if code == 0 and dry_run:
        rows = _write(prepared.ready, out, as_json=as_json)
    elif code == 0:
        with busy("deploying") as tell:
            rows = run_with_resources(
                settings, lambda resources: _deploy(resources, prepared.ready, by, tell), changes=True
            )
        code = int(any(row["state"] == "refused" for row in rows))
    _show(prepared, rows, as_json=as_json)
    raise typer.Exit(code)


def _judge(prepared: "PreparedModels") -> int:
    """Return the exit code so far, and print what the report does not contain."""
    for problem in prepared.report.problems:
        complain(str(problem))
    for refusal in prepared.refusals:
        complain(refusal)
    if prepared.report.problems:
        return 2
    return int(bool(prepared.report.errors or prepared.refusals))


async def _deploy(
    resources: Resources, ready: "Sequence[ReadyModel]", by: str, tell: Callable[[str], None]
) -> list[Row]:
    from verbworker.stores.deployments import Deployments
    from verbworker.work.starts.deploy import Deploy

    rows: list[Row] = []
    engine = await resources.open_engine()
    deployer = Deploy(engine, Deployments(resources.database, engine_id=engine.engine_id))
    for model in ready:
        tell(f"deploying {model.woven.process_id} ({len(rows) + 1} of {len(ready)})")
        try:
            landed = await deployer.deploy(model, by=by)
        except CommandInvalid as refusal:
            complain(f"{model.name}: {refusal}")
            rows.append(_row(model, "refused", reason=str(refusal)))
            continue
        deployment = landed.deployment
        state = "deployed" if landed.is_new else "unchanged"
        rows.append(_row(model, state, version=deployment.version, definition_key=deployment.definition_key))
    return rows


def _write(ready: "Sequence[ReadyModel]", out: Path | None, *, as_json: bool) -> list[Row]:
    """Write each woven model into a folder, or a single one to standard output."""
    if out is None:
        if len(ready) > 1 or as_json:
            raise CannotRun("pass --out with a folder for the woven models")
        sys.stdout.buffer.write(ready[0].woven.content)
        return []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for model in ready:
            (out / f"{model.woven.process_id}.bpmn").write_bytes(model.woven.content)
    except OSError as error:
        raise CannotRun(f"--out {error.filename}: {error.strerror}") from error
    return [_row(model, "woven", written=str(out / f"{model.woven.process_id}.bpmn")) for model in ready]


def _row(model: "ReadyModel", state: str, **more: object) -> Row:
    return {
        "process_id": model.woven.process_id,
        "state": state,
        "verb": model.woven.verb,
        "is_hollow": model.woven.is_hollow,
        "resource": model.name,
        "steps": model.woven.steps,
        "authored_sha256": model.authored_sha256.hex(),
        "woven_sha256": model.woven_sha256.hex(),
        **more,
    }


def _show(prepared: "PreparedModels", rows: Sequence[Row], *, as_json: bool) -> None:
    from verblint.report import render

    report = prepared.report
    if as_json:
        lint: Any = json.loads(render(report, "json"))
        print_json({"deployments": rows, "refusals": prepared.refusals, "lint": lint})
        return
    if report.findings:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        say(render(report, "full", colour=colour).rstrip("\n"))
    for row in rows:
        match row["state"]:
            case "woven":
                say(f"{row['process_id']}: written to {row['written']}, not deployed")
            case "deployed" | "unchanged" as state:
                plain = "" if row["is_hollow"] else "; it is plain, not hollow"
                say(f"{row['process_id']}: {state}, version {row['version']}{plain}")
