"""The data folder of `verbworker dev`: what outlives a session, and a lock that admits one session at a time."""

import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from verbworker.errors import CannotRun


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Create the folder if needed, and lock it until the end of the block."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Other users may pass through, as Postgres must when we are root, but may not list it.
        folder.chmod(0o711)
        (folder / ".gitignore").write_text("*\n")
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise CannotRun(f"--data {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotRun(
                f"another verbworker dev uses {folder}; end it, or pass another folder with --data"
            ) from None
        yield folder


def write_settings(folder: Path, settings: Mapping[str, str]) -> Path:
    """Write the settings for other commands as a file that a shell can source."""
    place = folder / "env"
    write_private(place, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))
    return place


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read: it contains the database password."""
    path.unlink(missing_ok=True)
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
