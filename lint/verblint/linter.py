"""The linter: takes a file or bytes, returns a report."""

import os
from collections.abc import Iterable

from verblint.contracts.contract import Contracts
from verblint.inspection import inspect
from verblint.project import Project, SettingError
from verblint.report.report import Problem, Report
from verblint.rulebook.rule import CRASHED
from verblint.rulebook.selection import Selection
from verblint.settings import STRICT_V1
from verblint.startup.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing `typing` would take a tenth of the startup time.
    from typing import IO

    from verblint.contracts.strict_yaml import ContractFault

_DEFAULTS = Project()
_NO_CONTRACTS = Contracts()
_POLICIES = "policies.yaml"
_ROOM = 65_536


class Linter:
    """A project's rules, settings and contracts, ready to check any number of files."""

    def __init__(self, project: Project = _DEFAULTS, contracts: Contracts | None = None, today: str = "") -> None:
        """Read the project's contracts unless some are given. Raises SettingError or ContractError."""
        self.project = project
        self._contracts = contracts if contracts is not None else read_contracts(project)
        self._selection = Selection(project)
        self._today = today

    def __reduce__(self) -> tuple[type["Linter"], tuple[Project, Contracts, str]]:
        # Rules are functions and cannot be pickled; the receiving process loads its own.
        return Linter, (self.project, self._contracts, self._today)

    def lint(self, content: bytes, name: str) -> Report:
        """Lint bytes under a file name."""
        settings = self.project.settings
        chosen = self._selection.of(self._below_project(name))
        contracts, faults = self._contracts_beside(name)
        if faults:
            return Report(problems=tuple(Problem("", str(fault)) for fault in faults))
        inspection = inspect(content, name, settings, contracts, chosen, today=self._today)
        return Report(
            files=(name,),
            findings=inspection.findings,
            suppressed=inspection.suppressed,
            problems=tuple(
                Problem(name, finding.message) for finding in inspection.findings if finding.code == CRASHED.code
            ),
            sources={name: content} if inspection.findings else {},
        )

    def lint_file(self, path: str) -> Report:
        """Lint one file. A file that cannot be read is reported as a problem, never as clean."""
        try:
            content = _content(path, self.project.settings.limits.size + 1)
        except (OSError, ValueError) as error:
            return Report(problems=(Problem(path, getattr(error, "strerror", None) or str(error)),))
        return self.lint(content, path)

    def read(self, file: "IO[bytes]") -> bytes:
        """Read a file, at most one byte more than the reader accepts."""
        return file.read(self.project.settings.limits.size + 1)

    def _contracts_beside(self, name: str) -> "tuple[Contracts, tuple[ContractFault, ...]]":
        """Return the contracts, including policies from a policy file beside the model."""
        file = os.path.join(os.path.dirname(name), _POLICIES)
        if self._contracts == _NO_CONTRACTS or not os.path.isfile(name) or not os.path.isfile(file):
            return self._contracts, ()
        from pathlib import Path

        from verblint.contracts.contract_files import ContractError, read_policies

        try:
            own = read_policies([Path(file)], is_exact=self.project.settings.profile == STRICT_V1)
        except ContractError as error:
            return self._contracts, error.faults
        return replace(self._contracts, policies={**self._contracts.policies, **own}), ()

    def _below_project(self, name: str) -> str:
        if not self.project.per_file_ignores:
            return name
        return os.path.relpath(name, self.project.folder or os.curdir).replace(os.sep, "/")


def lint(
    target: str | os.PathLike[str] | bytes,
    *,
    name: str = "<bytes>",
    project: Project = _DEFAULTS,
    contracts: Contracts | None = None,
) -> Report:
    """Lint one file, or bytes under a name.

    A string is a path. Without a project the defaults apply (`find_project()` finds one). Any input yields a report:
    with findings, or with the problem that prevented the check.
    """
    linter = Linter(project, contracts)
    if isinstance(target, bytes):
        return linter.lint(target, name)
    return linter.lint_file(os.fspath(target))


def lint_files(linter: Linter, paths: Iterable[str]) -> Report:
    """Lint files one by one and return a single report."""
    return Report.of(linter.lint_file(path) for path in paths)


def _content(path: str, most: int) -> bytes:
    """Read at most `most` bytes of a file."""
    # Unlike `open().read(most)`, this does not allocate a buffer of the maximum size.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        parts: list[bytes] = []
        while most and (part := os.read(descriptor, min(_ROOM, most))):
            parts.append(part)
            most -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def read_contracts(project: Project) -> Contracts:
    """Read the contracts a project names; empty without a folder of verbs."""
    if not project.verbs:
        if project.policies:
            raise SettingError("policies are given without verbs: name the folder of verb contracts too")
        return Contracts()
    # Importing YAML takes longer than checking a model, and only some projects need it.
    from pathlib import Path

    from verblint.contracts.contract_files import read_contracts as read

    folder = project.path(project.verbs)
    if not os.path.isdir(folder):
        raise SettingError(f"{folder}: there is no such folder of verb contracts")
    policies = [Path(project.path(policies)) for policies in project.policies]
    is_exact = project.settings.profile == STRICT_V1
    contracts = read(Path(folder), policies, is_exact=is_exact)
    if contracts == Contracts():
        raise SettingError(f"{folder}: the folder holds no verb contract")
    return contracts
