"""The `verbworker` command and its exit codes."""

import logging
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from verbworker.cli.lazy_commands import LazyGroup
from verbworker.cli.output_guard import OutputLost, finish_output, guard_output
from verbworker.errors import VerbworkerError, exit_code, leaves

app = typer.Typer(
    name="verbworker",
    cls=LazyGroup,
    help="Durable verbs for Camunda 8.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_versions(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"verbworker {version('verbworker')}, verblint {version('verbworker-lint')}\n")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the versions and exit.", is_eager=True, callback=_print_versions)
    ] = False,
) -> None:
    """Durable verbs for Camunda 8."""
    if debug:
        os.environ["VERBWORKER_DEBUG"] = "1"


def main(*words: str) -> NoReturn:
    """Run the command line, with `words` before those given to the process: an entry point's own command.

    Errors print one sentence and exit with 1 (a no), 2 (could not run) or 3 (a bug). Who closes the pipe that the
    command prints into, as `head` does, ends it with 141, without a word.
    """
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.argv[1:] = [*words, *_without_debug(sys.argv[1:])]
    # Commands print sentences; those that log set up logging themselves. Without a handler Python prints bare messages.
    logging.getLogger().addHandler(logging.NullHandler())
    guard_output()
    code, failure = 0, None
    try:
        code = _run()
    except OutputLost as error:
        failure = error
    sys.exit(finish_output("verbworker", code, failure))


def _run() -> int:
    """Run the command and return its exit code; raises only `OutputLost`."""
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except VerbworkerError as error:
        return _explain(str(error), exit_code(error))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if failure := _lost_output(error):
            raise failure from None
        place = f"{type(error).__name__}{_place(error)}"
        return _explain(f"a bug ended this command: {place}; --debug shows more", exit_code(error))
    return 0


def _lost_output(error: BaseException) -> OutputLost | None:
    """Return the failed output that led to an error, also from within a group."""
    cause: BaseException | None = error
    while cause is not None:
        found = next((one for one in leaves(cause) if isinstance(one, OutputLost)), None)
        if found is not None:
            return found
        cause = cause.__cause__
    return None


def _place(error: Exception) -> str:
    """Return the file and line that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _explain(sentence: str, code: int) -> int:
    if os.environ.pop("VERBWORKER_DEBUG", ""):
        traceback.print_exc()
    sys.stderr.write(f"verbworker: {sentence}\n")
    return code


def _without_debug(words: list[str]) -> list[str]:
    """Remove --debug, which may appear anywhere before `--`; after `--` it is an ordinary argument."""
    end = words.index("--") if "--" in words else len(words)
    if "--debug" in words[:end]:
        os.environ["VERBWORKER_DEBUG"] = "1"
    return [word for word in words[:end] if word != "--debug"] + words[end:]
