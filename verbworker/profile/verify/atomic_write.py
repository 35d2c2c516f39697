"""Write related files into a directory atomically: all or none."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from verbworker.errors import CannotRun, Refused


def full(directory: Path) -> Path:
    """Resolve a directory; raises `CannotRun` if that fails."""
    try:
        return directory.resolve()
    except (OSError, RuntimeError) as error:
        # The working directory was removed, or symlinks form a loop.
        raise CannotRun(f"{directory} cannot be resolved ({error}); go to another directory") from error


def require_place(directory: Path) -> None:
    """Check that a directory exists or can be created; raises `Refused` with the reason."""
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a directory; nothing was written")
    if not (home := full(directory).parent).is_dir():
        file = next((one for one in (home, *home.parents) if one.is_file()), None)
        reason = f"{home} does not exist" if file is None else f"{file} is not a directory"
        raise Refused(f"{reason}, so {directory.name} cannot be created in it")


def write_together(directory: Path, texts: Mapping[str, str | bytes], *, replacing: Collection[str] = ()) -> None:
    """Write every text or content to its path below a directory. Only paths in `replacing` may already exist.

    On an error raises `CannotRun`, and everything is unchanged.
    """
    try:
        with _stage(directory, texts) as stage:
            if directory.exists():
                _move_in(stage, directory, texts, replacing)
            else:
                stage.rename(directory)
    except OSError as error:
        where = error.filename2 or error.filename or directory
        raise CannotRun(f"cannot write {where}: {error.strerror}; nothing was written") from error


@contextmanager
def _stage(directory: Path, texts: Mapping[str, str | bytes]) -> Iterator[Path]:
    """Write all files to a directory on the same file system; remove it at the end."""
    home = directory if directory.exists() else full(directory).parent
    stage = Path(tempfile.mkdtemp(prefix=".verbworker-", dir=home))
    try:
        stage.chmod(0o755)
        for path, text in texts.items():
            (stage / path).parent.mkdir(parents=True, exist_ok=True)
            (stage / path).write_bytes(text.encode() if isinstance(text, str) else text)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move_in(stage: Path, directory: Path, paths: Collection[str], replacing: Collection[str]) -> None:
    """Move the files into an existing directory; a hard link never replaces a file created meanwhile."""
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
