"""The options and arguments that several commands share, each defined once."""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from verbworker.contract.message import LARGEST
from verbworker.contract.text import holds_controls
from verbworker.errors import CannotRun, InvocationInvalid
from verbworker.stores.id_prefixes import id_digits

LONGEST = 3_650 * 86_400.0  # seconds, ten years: more is a typing mistake, and much more overflows a timedelta
"""The most seconds that an option accepts: ten years, so that no clock overflows."""

ANY_ID = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"
"""An id for the examples of help pages."""


def _or_current_user(name: str) -> str:
    if holds_controls(name):
        raise typer.BadParameter("it holds control characters")
    return name or getpass.getuser()


def _not_blank(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("it is blank; give a reason in a few words")
    return text


def id_or_beginning(text: str | None) -> str | None:
    """Check that an option or argument can be an id."""
    if text is not None:
        try:
            id_digits(text)
        except InvocationInvalid as error:
            raise typer.BadParameter(str(error)) from None
    return text


def read_json(text: str) -> Any:
    """Return the value of an option that takes JSON or @file; raises `CannotRun` or `PermanentContract`."""
    from verbworker.payload.canonical import parse

    content = read_file(text[1:]) if text.startswith("@") else text.encode()
    return parse(content, limit=LARGEST)


def read_file(name: str) -> bytes:
    """Return the bytes of a file that an option names; raises `CannotRun`."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CannotRun(f"cannot read {name}: {error.strerror}") from None


def confirm_as_new(question: str) -> None:
    """Ask before a job gets a new idempotency key; end the command if the answer is no."""
    typer.confirm(f"The job's external effect may happen a second time. {question}", abort=True)


_APP = typer.Option("--app", help="Registry of your verbs, as module:attribute.")

App = Annotated[str, _APP]
OptionalApp = Annotated[str | None, _APP]
By = Annotated[
    str,
    typer.Option(
        "--by", callback=_or_current_user, help="Your name, for the record (default: current user).", show_default=False
    ),
]
AsNew = Annotated[bool, typer.Option("--as-new", help="Use a new idempotency key: external systems see another job.")]
AsNewConfirmed = Annotated[bool, typer.Option("--yes", help="Do not ask before --as-new.")]
Dsn = Annotated[str | None, typer.Option("--dsn", help="Postgres URI (default: $VERBWORKER_DSN).")]
EngineId = Annotated[
    str | None, typer.Option("--engine-id", help="Engine ID of the cluster (default: $VERBWORKER_ENGINE_ID).")
]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="Process engine: zeebe or embedded (default: $VERBWORKER_ENGINE).")
]
EntryId = Annotated[str, typer.Argument(callback=id_or_beginning, help="Entry ID, or its beginning.")]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (default: 127.0.0.1).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", help="Start of a page: `next` of the page before, as --json prints it.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows.")]
Paths = Annotated[list[str], typer.Argument(help="Models: files, folders or patterns.")]
Retries = Annotated[int, typer.Option("--retries", min=1, max=1000, help="Number of retries from now on.")]
OptionalReason = Annotated[str, typer.Option("--reason", help="Reason, for the record.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", callback=_not_blank, help="Reason, for the record.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Tenant ID (default: $VERBWORKER_TENANT).")]
VerbsFolder = Annotated[
    str,
    typer.Option("--verbs", help="Folder of verb contracts (default: verbs in \\[tool.verblint]).", show_default=False),
]
