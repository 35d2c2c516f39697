"""A new project: verbs, a model, tests and CI, written all together or not at all."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from verblint.contracts.syntax import PROJECT_NAME
from verbworker.errors import Refused
from verbworker.profile.verify.atomic_write import full, require_place, write_together

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
"""The files of a new project."""

_LONGEST_NAME = 64
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
    there = [path for path in FILES if os.path.lexists(directory / path)]
    if there:
        more = f" and {len(there) - 1} more of its files" if len(there) > 1 else ""
        raise Refused(f"{directory} already has {there[0]}{more}; nothing was written")
    write_together(directory, contents(name))
    return FILES


def contents(name: str) -> Mapping[str, str]:
    """Return the text of every file by its path, for a project of this name."""
    shipped = files("verbworker.dev.init") / "files"
    texts = {path: shipped.joinpath(*_shipped_name(path).split("/")).read_text(encoding="utf-8") for path in FILES}
    return {path: text.replace("@project@", name) for path, text in texts.items()}


def _shipped_name(path: str) -> str:
    # Under their own names a .gitignore would apply to our repository, and Python files would count as ours.
    return f"{path.removeprefix('.')}.in"
