"""The export directory: runbook entries are written here before they are dropped."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from verbworker.errors import CannotRun


class ExportDirectory:
    """A directory of files with one entry per line. A file is either complete or absent, and never rewritten."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def write(self, lines: Sequence[str]) -> None:
        """Write lines to a new file and return when they are on disk."""
        await asyncio.to_thread(self._write, lines)

    def check(self) -> None:
        """Raise `CannotRun` if no file can be written here."""
        if not (self._directory.is_dir() and os.access(self._directory, os.W_OK | os.X_OK)):
            raise CannotRun(f"export_dir: {self._directory} is not a directory that this process can write to")

    def _write(self, lines: Sequence[str]) -> None:
        name = f"runbook-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:12]}.jsonl"
        part = self._directory / f".{name}.part"
        try:
            # Readable by this user only: it holds what people requested and decided.
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
            part.rename(self._directory / name)
            _flush(self._directory)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            raise CannotRun(f"export_dir: cannot write to {self._directory}: {error.strerror}") from error


def exported_lines(place: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of an exported file, or of every file in a directory, each with its file and line number."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    for file in files:
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    yield f"{file}:{number}", line
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise CannotRun(f"cannot read {file}: {reason}") from error


def _flush(directory: Path) -> None:
    """Make the new file name survive a crash as well."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
