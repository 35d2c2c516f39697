"""What users hold on to: names, commands and options, settings, exit codes, metrics, migrations.

`python -m tests.surface` prints it as JSON; `tests/surface.json` is what was promised. A change there is a change for
users and belongs into the CHANGELOG.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperOption

import verblint
import verblint.draw
import verbworker
from verbworker import errors, metrics
from verbworker.app.settings import Settings
from verbworker.cli.app import app
from verbworker.cli.lazy_commands import PLACES

ROOT = Path(__file__).parents[1]
PROMISED = Path(__file__).with_suffix(".json")


def surface() -> dict[str, Any]:
    """Return everything that users rely on, as plain values."""
    return {
        "verbworker": sorted(verbworker.__all__),
        "verblint": sorted(verblint.__all__),
        "verblint.draw": sorted(verblint.draw.__all__),
        "commands": dict(_commands()),
        "settings": {name: repr(field.default) for name, field in sorted(Settings.model_fields.items())},
        "exit codes": dict(sorted(_exit_codes(errors.VerbworkerError))),
        "metrics": dict(sorted(_metrics())),
        "migrations": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted((ROOT / "sql" / "migrations").glob("*.sql"))
        },
    }


def _commands() -> Iterator[tuple[str, list[str]]]:
    yield "verbworker", _options(typer.main.get_command(app))
    for name, place in PLACES.items():
        yield from _below(f"verbworker {name}", place.load(name))


def _below(words: str, command: Any) -> Iterator[tuple[str, list[str]]]:
    yield words, _options(command)
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _below(f"{words} {name}", inner)


def _options(command: Any) -> list[str]:
    return sorted(" ".join(_words(parameter)) for parameter in command.params)


def _words(parameter: Any) -> Iterator[str]:
    is_option = isinstance(parameter, TyperOption)
    yield from (*parameter.opts, *parameter.secondary_opts) if is_option else (f"<{parameter.name}>",)
    yield "flag" if getattr(parameter, "is_flag", False) else "value"
    if parameter.required:
        yield "required"
    if parameter.nargs != 1 or getattr(parameter, "multiple", False):
        yield "repeated"
    if getattr(parameter, "hidden", False):
        yield "hidden"
    if not callable(parameter.default) and parameter.default not in (None, False, "", (), []):
        yield f"default={parameter.default}"


def _exit_codes(error: type[errors.VerbworkerError]) -> Iterator[tuple[str, int]]:
    yield error.__name__, errors.exit_code(error.__new__(error))
    for narrower in error.__subclasses__():
        # Others are private to a module, and exist only once that is imported.
        if narrower.__module__ == errors.__name__:
            yield from _exit_codes(narrower)


def _metrics() -> Iterator[tuple[str, str]]:
    for collector in set(metrics.REGISTRY._collector_to_names):
        for family in collector.describe() if hasattr(collector, "describe") else ():
            yield family.name, " ".join((family.type, *getattr(collector, "_labelnames", ())))


if __name__ == "__main__":
    print(json.dumps(surface(), indent=1, sort_keys=True))
