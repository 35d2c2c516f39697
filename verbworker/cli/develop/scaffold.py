"""`verbworker scaffold`: write a working process with model, policies, contract, verbs and tests."""

from pathlib import Path

import typer

from verbworker.app.output import print_json, say

NAME = typer.Argument(help="The process, as in parcel-return.", show_default=False)
DIRECTORY = typer.Option(Path(), "--directory", help="The project it belongs to.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")


def scaffold(name: str = NAME, directory: Path = DIRECTORY, as_json: bool = JSON) -> None:
    """Write a process whose tests pass; where it is already, only compile it anew.

    A process that is there keeps its model, contract, verbs and tests: only compile.lock.json and the module that ends
    in _gen.py are written again. All files are written or none.
    """
    from verbworker.profile.verify.scaffold import scaffold as write

    done = write(directory, name)
    if as_json:
        print_json({"process": name, "written": done.written, "left": done.left, "advice": done.advice})
        return
    for path in done.written:
        say(f"wrote {directory / path}")
    for path in done.left:
        say(f"left {directory / path} as it is")
    for line in done.advice:
        say(line)
    if done.left and not done.written:
        say(f"{name} is up to date")
    elif not done.left:
        say(f"{name} is ready; {directory / 'processes' / name / 'README.md'} says how to test and run it")
    say(f"a worker for it alone: verbworker worker --app verbs.{done.package}:registry")
