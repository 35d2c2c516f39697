"""`verbworker init`: write a working project with verbs, a model, tests, CI and hooks."""

from pathlib import Path
from typing import Annotated

import typer

from verbworker.app.output import answer, say
from verbworker.cli.shared_options import Json
from verbworker.errors import Refused


def _directory(written: str) -> Path:
    """Return the directory; a shell's empty variable would otherwise mean the current one."""
    if not written:
        raise Refused("the directory is empty; for the current one write: verbworker init .")
    return Path(written)


def init(
    directory: Annotated[
        Path, typer.Argument(parser=_directory, metavar="DIRECTORY", help="Directory of the project; it may exist.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the project (default: name of the directory).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a project with passing tests. Exits 1 if one of its files exists.

    All files are written or none. README.md explains what to do next.
    """
    from verbworker.dev.init.new_project import project_name, write_project

    chosen = project_name(directory, name)
    written = write_project(directory, chosen)
    if not as_json:
        for path in written:
            say(f"wrote {directory / path}")
    sentence = f"{chosen} is ready; {directory / 'README.md'} explains how to test and run it"
    answer(sentence, {"project": chosen, "directory": str(directory), "files": written}, as_json=as_json)
