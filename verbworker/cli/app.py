"""The `verbworker` command and how it ends."""

import logging
import os
import sys
import traceback
from typing import NoReturn

import typer

from verbworker.cli.lazy_commands import LazyGroup
from verbworker.errors import VerbworkerError, exit_code

app = typer.Typer(
    name="verbworker",
    cls=LazyGroup,
    help="Durable verbs for Camunda 8.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error.")) -> None:
    """Durable verbs for Camunda 8."""
    if debug:
        os.environ["VERBWORKER_DEBUG"] = "1"


def main() -> NoReturn:
    """Run the command line. Every error ends in one sentence: 1 is a no, 2 could not run, 3 is a bug."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.argv[1:] = _without_debug(sys.argv[1:])
    # Commands speak in sentences. Those that log say so and where; without a handler Python would print bare messages.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        app()
    except VerbworkerError as error:
        _end(str(error), exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader left, as `head` does; that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        _end(f"a bug ended this command ({type(error).__name__}); --debug shows where", exit_code(error))
    sys.exit(0)


def _end(sentence: str, code: int) -> NoReturn:
    if os.environ.pop("VERBWORKER_DEBUG", ""):
        traceback.print_exc()
    sys.stderr.write(f"verbworker: {sentence}\n")
    sys.exit(code)


def _without_debug(words: list[str]) -> list[str]:
    """What was typed without --debug, which may stand anywhere; behind -- it is somebody's word."""
    end = words.index("--") if "--" in words else len(words)
    if "--debug" in words[:end]:
        os.environ["VERBWORKER_DEBUG"] = "1"
    return [word for word in words[:end] if word != "--debug"] + words[end:]
