"""`verbworker demo`: run one KYC case in a temporary environment and print each event."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from verbworker.app import settings as config
from verbworker.app.output import run
from verbworker.cli.develop.dev import ENGINE, stopped_by_signal

if TYPE_CHECKING:
    from verbworker.dev.event_log import EventLine

_READING_TIME = 1.0  # seconds; each step stays on the screen long enough to be read


def demo(
    engine: Annotated[
        str, typer.Option("--engine", help="Process engine: embedded, or zeebe at $ZEEBE_ADDRESS.")
    ] = ENGINE,
) -> None:
    """Run one KYC case of the example from start to decision, then remove everything.

    Needs a checkout of the repository and `pip install 'verbworker\\[dev]'`; no database, no Java, no Docker.
    """
    from verbworker.dev.demo import find_example, play
    from verbworker.dev.dev_session import unless

    began = perf_counter()
    os.chdir(find_example())
    # The demo ignores the databases and clusters configured in this shell.
    for name in [name for name in os.environ if name.startswith("VERBWORKER_") and name != "VERBWORKER_DEBUG"]:
        del os.environ[name]
    config.load(engine=engine)
    with ExitStack() as stack:
        screen = stack.enter_context(RichScreen())
        folder = stack.enter_context(_short_lived_folder())

        async def work() -> int | None:
            stop = asyncio.Event()
            with stopped_by_signal(stop):
                return await unless(stop, lambda: play(screen, folder, engine=engine))

        code = run(work())
        if code == 0:
            screen.show(f"done in {perf_counter() - began:.1f} s; everything that was started has ended")
    raise typer.Exit(130 if code is None else code)


class RichScreen:
    """Prints plain lines into a pipe; on a terminal, colours and a moving status line."""

    def __init__(self) -> None:
        self._console = Console(soft_wrap=True, highlight=False)
        self._status = self._console.status("preparing", spinner="dots")

    def __enter__(self) -> "RichScreen":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, sentence: str) -> None:
        """Print one line."""
        self._console.print(escape(sentence))

    def show_action(self, sentence: str) -> None:
        """Print one highlighted line."""
        self._console.print(f"[bold cyan]> {escape(sentence)}[/]")

    def show_event(self, line: "EventLine") -> None:
        """Print one line of the runbook."""
        self._console.print(f"  [dim]{line.at:%H:%M:%S}[/]  {escape(line.words)}")

    def show_progress(self, words: str) -> None:
        """Update the status line, which only a terminal shows."""
        self._status.update(escape(words))

    async def pause_to_read(self) -> None:
        """Wait a moment, so that people at a terminal can read."""
        if self._console.is_terminal:
            await asyncio.sleep(_READING_TIME)


@contextmanager
def _short_lived_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="verbworker-demo-"))
    # As root we run Postgres as another user, which must be able to pass through the folder.
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
