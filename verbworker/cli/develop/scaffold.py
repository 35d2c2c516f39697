"""`verbworker scaffold`: write a working process with model, policies, contract, verbs, entry points and tests."""

from pathlib import Path
from typing import Annotated

import typer

from verbworker.app.output import print_json, say
from verbworker.cli.shared_options import Json


def scaffold(
    name: Annotated[str, typer.Argument(help="Name of the process, for example parcel-return.")],
    directory: Annotated[
        Path, typer.Option("--directory", help="Directory of the project (default: here).", show_default=False)
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Create a process with passing tests, or recompile an existing one.

    An existing process keeps its model, contract, verbs and tests: only compile.lock.json and the module that ends in
    _gen.py are written again, and each verb that the model calls and no file mentions gets a file to write it in. All
    files are written or none.
    """
    from verbworker.profile.verify.scaffold import scaffold as write

    done = write(directory, name)
    if as_json:
        print_json(
            {
                "process": name,
                "written": done.written,
                "left": done.left,
                "advice": done.advice,
                "registered_in": done.registered_in,
            }
        )
        return
    for path in done.written:
        say(f"wrote {directory / path}")
    for path in done.left:
        say(f"kept {directory / path}")
    for path in done.registered_in:
        say(f"registered in {directory / path}")
    if done.left and not done.written:
        say(f"{name} is up to date")
    elif not done.left:
        say(f"{name} is ready; {directory / 'processes' / name / 'README.md'} explains how to test and run it")
    say(f"to run a worker for it alone: verbworker worker --app verbs.{done.package}:registry")
    if done.advice:
        say("")  # last, and apart: nothing works before it is done
    for line in done.advice:
        say(line)
