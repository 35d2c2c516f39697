"""The page of commands: every command of verbworker and verblint with its options and its help."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.markdown import code, fence, sentence, table
from verblint.cli import parser
from verbworker.cli.app import app
from verbworker.cli.lazy_commands import PLACES

_EXIT_CODES = (
    ("0", "The answer is yes, or it did what it was asked to do."),
    ("1", "The answer is no: rejected, failed, found something."),
    ("2", "It could not run: options, settings, database, engine or model. The sentence says what to do."),
    ("3", "A bug. The log has type, file and line."),
)


def page() -> str:
    """Return the page of commands."""
    return (
        "# Commands\n\n"
        "Every command has `--help`. Listings have `--json`; into a pipe they write tab-separated lines.\n\n"
        + table(("exit code", "meaning"), ((code(number), words) for number, words in _EXIT_CODES))
        + "## verbworker\n\n"
        + _parameters(typer.main.get_command(app))
        + "".join(
            section
            for name, place in PLACES.items()
            if not place.is_hidden
            for section in _sections(f"verbworker {name}", place.load(name), place.example)
        )
        + _verblint()
    )


def _sections(words: str, command: Any, example: str = "") -> Iterator[str]:
    inner = getattr(command, "commands", {})
    level = "##" if words.count(" ") == 1 else "###"
    yield f"{level} {words}\n\n{_help(command)}\n\n"
    if not inner:
        shown = example or (command.epilog or "").removeprefix("Example: ")
        yield (fence(shown) if shown else "") + _parameters(command)
    for name, below in sorted(inner.items()):
        yield from _sections(f"{words} {name}", below)


def _help(command: Any) -> str:
    help_text = (command.help or "").replace("\\[", "[")  # escaped for the terminal
    return "\n\n".join(sentence(part) for part in help_text.split("\n\n"))


def _parameters(command: Any) -> str:
    rows = [
        (_names(one), "yes" if one.required else "", _shown_default(one), sentence(getattr(one, "help", "") or ""))
        for one in command.params
        if one.name != "help" and not getattr(one, "hidden", False)
    ]
    return table(("parameter", "required", "default", "meaning"), rows) if rows else ""


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.name.upper())
    return ", ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))


def _shown_default(parameter: Any) -> str:
    default = parameter.default
    if callable(default) or default in (None, False, "", (), []) or getattr(parameter, "is_flag", False):
        return ""
    return code(default)


def _verblint() -> str:
    top = parser()
    parts = ["## verblint\n\nThe linter: a distribution of its own, without grpc and asyncpg.\n\n"]
    for action in top._actions:
        if isinstance(action, _SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                parts.append(f"### verblint {name}\n\n{sentence(texts.get(name, ''))}\n\n{_arguments(below)}")
    return "".join(parts)


def _arguments(below: ArgumentParser) -> str:
    rows = [
        (
            ", ".join(code(name) for name in (action.option_strings or [str(action.metavar or action.dest).upper()])),
            sentence((action.help or "").replace("%(default)s", str(action.default))),
        )
        for action in below._actions
        if action.dest != "help"
    ]
    return table(("parameter", "meaning"), rows)
