"""A project of somebody who begins: verbs, a model, tests and their CI, written all together or not at all."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from verbworker.errors import CannotRun, Refused

FILES = (
    ".github/workflows/ci.yml",
    ".gitignore",
    ".pre-commit-config.yaml",
    "README.md",
    "processes/expense-claim/process.bpmn",
    "pyproject.toml",
    "tests/conftest.py",
    "tests/test_expense.py",
    "tests/test_models.py",
    "tests/test_process.py",
    "verbs/__init__.py",
    "verbs/expense.py",
    "verbs/expense.sql",
    "verbs/expense.yaml",
    "verbs/policies.yaml",
)
"""What a new project consists of."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 64
_TAKEN = ("verbworker", "verbworker-lint")


def project_name(directory: Path, given: str | None) -> str:
    """The name of the project: the one given, else the directory's; `Refused` says what a name looks like."""
    name = _full(directory).name if given is None else given
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{name!a} is no name for a project: lower-case letters, digits and single hyphens, as in my-app,"
            f" {_LONGEST_NAME} at most; choose another directory or pass --name"
        )
    if name in _TAKEN:
        raise Refused(f"{name} is the name of a package that the project needs; choose another")
    return name


def write_project(directory: Path, name: str) -> tuple[str, ...]:
    """Write every file of a new project into a directory; returns their paths.

    `Refused` when one of them is there already. Whatever goes wrong, nothing of it is left.
    """
    try:
        _refuse_what_is_there(directory)
        with _staged(directory, name) as stage:
            if directory.exists():
                _move_in(stage, directory)
            else:
                stage.rename(directory)
    except OSError as error:
        where = error.filename2 or error.filename or directory
        raise CannotRun(f"cannot write {where}: {error.strerror}; nothing was written") from error
    return FILES


def contents(name: str) -> Mapping[str, str]:
    """The text of every file by its path, for a project of this name."""
    shipped = files("verbworker.ops.init") / "files"
    texts = {path: shipped.joinpath(*_shipped_name(path).split("/")).read_text(encoding="utf-8") for path in FILES}
    return {path: text.replace("@project@", name) for path, text in texts.items()}


def _full(directory: Path) -> Path:
    try:
        return directory.resolve()
    except (OSError, RuntimeError) as error:
        # The working directory was removed, or links lead in a circle.
        raise CannotRun(f"nobody can say where {directory} is ({error}); go to another directory") from error


def _shipped_name(path: str) -> str:
    # Under their own names a .gitignore would rule our repository, and Python would be taken for a part of ours.
    return f"{path.removeprefix('.')}.in"


def _refuse_what_is_there(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is no directory; nothing was written")
    if not (home := _full(directory).parent).is_dir():
        raise Refused(f"there is no directory {home} to make {directory.name} in")
    there = [path for path in FILES if os.path.lexists(directory / path)]
    if there:
        more = f" and {len(there) - 1} more of its files" if len(there) > 1 else ""
        raise Refused(f"{directory} has a {there[0]} already{more}; nothing was written")


@contextmanager
def _staged(directory: Path, name: str) -> Iterator[Path]:
    """The whole project in a place on the same file system; what is left of it is removed."""
    home = directory if directory.exists() else _full(directory).parent
    stage = Path(tempfile.mkdtemp(prefix=".verbworker-init-", dir=home))
    try:
        stage.chmod(0o755)
        for path, text in contents(name).items():
            (stage / path).parent.mkdir(parents=True, exist_ok=True)
            (stage / path).write_text(text, encoding="utf-8")
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move_in(stage: Path, directory: Path) -> None:
    """Bring the files into a directory that exists; a link never replaces what came in between."""
    linked: list[Path] = []
    made: list[Path] = []
    try:
        for path in FILES:
            target = directory / path
            for folder in reversed([folder for folder in target.parents if not folder.exists()]):
                folder.mkdir()
                made.append(folder)
            os.link(stage / path, target)
            linked.append(target)
    except OSError:
        for target in linked:
            target.unlink(missing_ok=True)
        for folder in reversed(made):
            folder.rmdir()
        raise
