"""A new project: verbs, a model, tests and CI, written all together or not at all."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from verblint.contracts.json_schema import FOLDER, SCHEMAS, schema_files
from verblint.contracts.syntax import PROJECT_NAME
from verbworker.dev.init.wheels import pack_wheels
from verbworker.errors import Refused
from verbworker.profile.verify.atomic_write import full, require_place, write_together

_WRITTEN = (
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
FILES = tuple(sorted((*_WRITTEN, *(f"{FOLDER}/{name}" for name in SCHEMAS))))
"""The files of a new project, besides the wheels of verbworker."""

_LONGEST_NAME = 64  # characters; ample for a name, and paths that contain it stay short
_TAKEN = ("verbworker", "verbworker-lint")


def project_name(directory: Path, given: str | None) -> str:
    """Return the project's name: the given one, else the directory's; `Refused` describes a valid name."""
    name = full(directory).name if given is None else given
    if not PROJECT_NAME.fits(name) or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{name!a} is not a valid project name: use lower-case letters, digits and single hyphens, as in my-app,"
            f" at most {_LONGEST_NAME} characters; choose another directory or pass --name"
        )
    if name in _TAKEN:
        raise Refused(f"{name} is the name of a package that the project needs; choose another")
    return name


def write_project(directory: Path, name: str) -> tuple[str, ...]:
    """Write every file of a new project into a directory and return their paths.

    Raises `Refused` if one of them exists. If anything fails, nothing is left behind.
    """
    require_place(directory)
    inside: Mapping[str, str | bytes] = {**contents(name), **pack_wheels()}
    there = [path for path in inside if os.path.lexists(directory / path)]
    if there:
        more = f" and {len(there) - 1} more of its files" if len(there) > 1 else ""
        raise Refused(f"{directory} already has {there[0]}{more}; nothing was written")
    write_together(directory, inside)
    return tuple(inside)


def contents(name: str) -> Mapping[str, str]:
    """Return the text of every file by its path, for a project of this name."""
    shipped = files("verbworker.dev.init") / "files"
    texts = {path: shipped.joinpath(*_shipped_name(path).split("/")).read_text(encoding="utf-8") for path in _WRITTEN}
    found = {path: text.replace("@project@", name) for path, text in texts.items()} | schema_files()
    return {path: found[path] for path in FILES}


def _shipped_name(path: str) -> str:
    # Under their own names a .gitignore would apply to our repository, and Python files would count as ours.
    return f"{path.removeprefix('.')}.in"
