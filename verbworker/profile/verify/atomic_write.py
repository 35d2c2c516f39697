"""Staging: files that belong together come into a directory all at once, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from verbworker.errors import CannotRun, Refused


def full(directory: Path) -> Path:
    """Where a directory really is; `CannotRun` when nobody can say."""
    try:
        return directory.resolve()
    except (OSError, RuntimeError) as error:
        # The working directory was removed, or links lead in a circle.
        raise CannotRun(f"nobody can say where {directory} is ({error}); go to another directory") from error


def require_place(directory: Path) -> None:
    """Return when a directory is there or can be made; `Refused` says why not."""
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is no directory; nothing was written")
    if not (home := full(directory).parent).is_dir():
        raise Refused(f"there is no directory {home} to make {directory.name} in")


def write_together(directory: Path, texts: Mapping[str, str], *, replacing: Collection[str] = ()) -> None:
    """Write every text to its path below a directory. Only what is in `replacing` may be there already.

    `CannotRun` says what went wrong, and then everything is as it was.
    """
    try:
        with _staged(directory, texts) as stage:
            if directory.exists():
                _move_in(stage, directory, texts, replacing)
            else:
                stage.rename(directory)
    except OSError as error:
        where = error.filename2 or error.filename or directory
        raise CannotRun(f"cannot write {where}: {error.strerror}; nothing was written") from error


@contextmanager
def _staged(directory: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """All files in a place on the same file system; what is left of it is removed."""
    home = directory if directory.exists() else full(directory).parent
    stage = Path(tempfile.mkdtemp(prefix=".verbworker-", dir=home))
    try:
        stage.chmod(0o755)
        for path, text in texts.items():
            (stage / path).parent.mkdir(parents=True, exist_ok=True)
            (stage / path).write_text(text, encoding="utf-8")
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move_in(stage: Path, directory: Path, paths: Collection[str], replacing: Collection[str]) -> None:
    """Bring the files into a directory that exists; a link never replaces what came in between."""
    linked: list[Path] = []
    made: list[Path] = []
    kept: list[tuple[Path, Path]] = []
    try:
        for path in paths:
            target = directory / path
            for folder in reversed([folder for folder in target.parents if not folder.exists()]):
                folder.mkdir()
                made.append(folder)
            if path in replacing and os.path.lexists(target):
                before = stage / f"{path}.before"
                os.link(target, before)
                kept.append((before, target))
                os.replace(stage / path, target)
                continue
            os.link(stage / path, target)
            linked.append(target)
    except OSError:
        for before, target in kept:
            os.replace(before, target)
        for target in linked:
            target.unlink(missing_ok=True)
        for folder in reversed(made):
            folder.rmdir()
        raise
