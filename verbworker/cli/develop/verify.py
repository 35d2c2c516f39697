"""`verbworker verify`: check that models, policies, compiled files and registered verbs still agree."""

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from verbworker.app.output import busy, complain
from verbworker.errors import CannotRun

if TYPE_CHECKING:
    from verblint.report import Report
    from verbworker.contract.registry import Registry
    from verbworker.profile.verify.verifier import VerifyReport


class Form(StrEnum):
    """The linter's output formats."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"


PATHS = typer.Argument(None, help="Files, folders or patterns; else the folder processes.", show_default=False)
APP = typer.Option(
    None, "--app", help="Your registry, as module:attribute; its verbs are compared.", show_default=False
)
FORM = typer.Option(Form.FULL, "--format", help="How the report is written.")


def verify(
    paths: list[str] = PATHS,
    app: str | None = APP,
    write: bool = typer.Option(False, "--write", help="Write the locks and the generated modules that are outdated."),
    base: str | None = typer.Option(
        None, "--base", help="A git revision: what changed since must have another definitionId.", show_default=False
    ),
    verbs: str = typer.Option(
        "", "--verbs", help="The folder of verb contracts; else as \\[tool.verblint] says.", show_default=False
    ),
    form: Form = FORM,
    output_file: str | None = typer.Option(
        None, "--output-file", help="A file for the report; else it is printed.", show_default=False
    ),
) -> None:
    """Prove that models, policies, locks, generated code and verbs agree; exit 1 when they do not.

    Every model is linted and compiled in memory, then compared with the compile.lock.json beside it and the generated
    module beside its contract. Nothing is written unless --write is given, and then only these two. Exit 2 means that
    something could not be checked.
    """
    # Imported here so that other commands need not wait for them.
    from verbworker.profile.verify.git_base import Base
    from verbworker.profile.verify.models import read_models
    from verbworker.profile.verify.sources import open_sources
    from verbworker.profile.verify.verifier import verify as verify_models

    with busy("verifying"):
        models = read_models(paths or ["processes"])
        verified = verify_models(models, open_sources(models, verbs), base=None if base is None else Base(base))
    if write:
        # Before the application is imported: it may import what is written now.
        verified = _write(verified)
    broken: CannotRun | None = None
    if app is not None:
        try:
            verified = verified.with_coverage(_load(app), is_part=bool(paths))
        except CannotRun as error:
            # The report may show the reason: a module that is not generated yet.
            broken = error
    _show(verified.report, form.value, output_file)
    if broken is not None:
        raise broken
    if app is None:
        complain("the registered verbs were not compared; pass --app module:attribute")
    raise typer.Exit(verified.report.exit_code(verified.sources.project.max_warnings))


def _load(app: str) -> "Registry":
    from verbworker.app.wiring import load_app

    # Importing would write bytecode caches.
    sys.dont_write_bytecode = True
    return load_app(app)


def _write(verified: "VerifyReport") -> "VerifyReport":
    """Write each outdated file atomically, then return a report of what is left."""
    from verblint.fixes.write import write_whole

    for path, content in verified.outdated.items():
        try:
            write_whole(path, content)
        except OSError as error:
            raise CannotRun(f"{path} could not be written: {error.strerror}") from error
        complain(f"{path} was written")
    return verified.after_write()


def _show(report: "Report", form: str, output_file: str | None) -> None:
    from verblint.fixes.write import write_whole
    from verblint.report import render
    from verbworker.profile.verify.rules import RULES

    colour = output_file is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = render(report, form, colour=colour, rules=RULES)
    for problem in report.problems:
        complain(str(problem))
    if output_file is None:
        sys.stdout.write(text)
        return
    try:
        write_whole(output_file, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise CannotRun(f"--output-file {output_file}: {error.strerror}") from error
