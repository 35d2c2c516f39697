"""`verbworker verify`: check that models, policies, compiled files and registered verbs still agree."""

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from verbworker.app.output import busy, complain
from verbworker.cli.shared_options import OptionalApp, VerbsFolder
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


def verify(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Models: files, folders or patterns (default: processes).")
    ] = None,
    app: OptionalApp = None,
    write: Annotated[bool, typer.Option("--write", help="Write outdated locks and generated modules.")] = False,
    base: Annotated[
        str | None, typer.Option("--base", help="Git revision; processes changed since need another definitionId.")
    ] = None,
    verbs: VerbsFolder = "",
    form: Annotated[Form, typer.Option("--format", help="Format of the report.")] = Form.FULL,
    output_file: Annotated[
        str | None, typer.Option("--output-file", help="File for the report (default: standard output).")
    ] = None,
) -> None:
    """Verify that models, policies, locks, generated code and verbs agree. Exits 1 if they do not.

    Every model is linted and compiled in memory, then compared with the compile.lock.json beside it and the generated
    module beside its contract. Only --write writes, and only these two files. Exits 2 if something cannot be checked.
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
    for name in verified.plain:
        complain(f"{name} is plain, not hollow; verbworker migrate report {name} shows what to change")
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
