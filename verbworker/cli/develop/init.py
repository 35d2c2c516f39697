"""`verbworker init`: write a working project with verbs, a model, tests, CI and hooks."""

from pathlib import Path

import typer

from verbworker.app.output import answer, say

DIRECTORY = typer.Argument(help="Where; it may exist, but none of the files may.", show_default=False)
NAME = typer.Option(None, "--name", help="The project's name; else the directory's.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")


def init(directory: Path = DIRECTORY, name: str | None = NAME, as_json: bool = JSON) -> None:
    """Write a new project whose tests pass; exit 1 when one of its files is there.

    All files are written or none. The README among them says what to do next.
    """
    from verbworker.dev.init.new_project import project_name, write_project

    chosen = project_name(directory, name)
    written = write_project(directory, chosen)
    if not as_json:
        for path in written:
            say(f"wrote {directory / path}")
    sentence = f"{chosen} is ready; {directory / 'README.md'} says how to test and run it"
    answer(sentence, {"project": chosen, "directory": str(directory), "files": written}, as_json=as_json)
