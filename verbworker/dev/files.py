"""Watched files: which of them changed since the last check."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from verbworker.errors import CannotRun

_KINDS = (".py", ".yaml", ".yml", ".bpmn", ".sql", ".toml")
_SETTLING = 0.1  # seconds without a change; the pieces of one save are milliseconds apart

Look = dict[str, tuple[int, int]]


class Files:
    """All files below some paths that a worker depends on."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        self._seen = self._look()

    async def changes(self) -> list[str]:
        """Return what changed since the last call, once writing has stopped, relative to the working directory."""
        now = await asyncio.to_thread(self._look)
        if now == self._seen:
            return []
        while True:
            # An editor writes in pieces, and a checkout writes many files.
            await asyncio.sleep(_SETTLING)
            before, now = now, await asyncio.to_thread(self._look)
            if before == now:
                break
        names = {name for name, _ in now.items() ^ self._seen.items()}
        self._seen = now
        return sorted(names)

    def _look(self) -> Look:
        return {name: facts for place in self._places for name, facts in _below(place)}


def _below(place: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    if place.is_file():
        yield from _facts(str(place))
        return
    for folder, inside, names in os.walk(place):
        inside[:] = [name for name in inside if not name.startswith((".", "__")) and not _is_venv(folder, name)]
        for name in names:
            if name.endswith(_KINDS):
                yield from _facts(os.path.join(folder, name))


def _facts(name: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        found = os.stat(name)
    except OSError:
        return  # it was removed between two checks
    yield os.path.relpath(name), (found.st_mtime_ns, found.st_size)


def _is_venv(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def sql_files(places: Sequence[Path]) -> list[Path]:
    """Return the SQL files at some places, now: a folder may have got more; `CannotRun` names a place that is gone."""
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise CannotRun(f"--sql {place}: there is no such file or folder")
        found += sorted(place.rglob("*.sql")) if place.is_dir() else [place]
    return found


def home_of(app: str) -> Path:
    """Find the package folder of `module:attribute` without importing it; default: the working directory."""
    package = app.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(package, [os.getcwd()])
    inside = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(inside))) if inside else Path.cwd()
