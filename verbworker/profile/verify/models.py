"""Models and their linter, configured by the project's `[tool.verblint]`."""

import os
from collections.abc import Iterable
from pathlib import Path

from verblint.baseline import read_baseline
from verblint.contracts.contract_files import ContractError
from verblint.linter import Linter
from verblint.paths import NoMatch, expand
from verblint.report import Report
from verblint.settings import Project, SettingError, find_project
from verblint.startup.value import replace
from verbworker.engine.protocol import Resource
from verbworker.errors import CannotRun

NO_CONTRACTS = (
    "no folder of verb contracts is known; pass --verbs or set verbs in [tool.verblint],"
    " or list models that plain tasks serve under plain in [tool.verblint]"
)


class ModelLinter:
    """The linter of a project. The baseline applies here too: what passes in CI can be deployed."""

    def __init__(self, project: Project) -> None:
        self._linter = Linter(project)
        self._known = read_baseline(project.path(project.baseline)) if project.baseline else None

    def __call__(self, content: bytes, name: str) -> Report:
        """Lint one model; raises `CannotRun` for a hollow one without contracts."""
        if not self._linter.project.verbs and not self.is_plain(name):
            raise CannotRun(f"{name}: {NO_CONTRACTS}")
        report = self._linter.lint(content, name)
        return report if self._known is None else self._known.forgive(report)

    @property
    def engine_version(self) -> tuple[int, int]:
        """Return the engine that models must deploy on; it decides the form of user tasks, here and in weaving."""
        return self._linter.project.settings.engine_version

    def is_plain(self, name: str) -> bool:
        """Return whether the settings say that a model is not hollow, but served by plain tasks."""
        return self._linter.is_plain(name)


def open_linter(verbs: str = "") -> ModelLinter:
    """Return the linter with the project's settings and contracts; raises `CannotRun` if one of them is wrong."""
    try:
        project = find_project()
        if verbs:
            project = replace(project, verbs=os.path.abspath(verbs))
        return ModelLinter(project)
    except ContractError as error:
        raise CannotRun(f"the verb contracts have {len(error.faults)} fault(s):\n{error}") from error
    except SettingError as error:
        raise CannotRun(str(error)) from error


def read_models(paths: Iterable[str]) -> list[Resource]:
    """Read every file that the paths match, once; raises `CannotRun` if one cannot be read."""
    names: dict[str, None] = {}
    try:
        for path in paths:
            names |= dict.fromkeys(os.path.normpath(found) for found in expand(path))
        return [Resource(name, Path(name).read_bytes()) for name in names]
    except NoMatch as error:
        raise CannotRun(str(error)) from error
    except OSError as error:
        raise CannotRun(f"{error.filename}: {error.strerror}") from error
