"""The user's cache directory: what is fetched or built once and kept."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The kept directory `name`; the first to ask builds it, anyone else waits for that."""
    kept = _root() / name
    if kept.exists():
        return kept
    with locked(name):
        if not kept.exists():
            for abandoned in _root().glob(f".{name}-*"):
                shutil.rmtree(abandoned, ignore_errors=True)  # we hold the lock: its builder was killed
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=_root()))
            try:
                build(unfinished)
                unfinished.chmod(0o755)
                unfinished.rename(kept)  # seen whole or not at all
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return kept


def _root() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(home) / "verbworker"
    root.mkdir(parents=True, exist_ok=True)
    return root


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process of this user at a time do what `name` stands for."""
    with (_root() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel, even if we are killed
        yield
