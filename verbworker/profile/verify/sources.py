"""A project as `verify` sees it: the linter's settings, the verb contracts, and each process's policies."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from verblint.baseline import Baseline, read_baseline
from verblint.contracts.contract import Contracts
from verblint.contracts.contract_files import ContractError, read_contracts
from verblint.linter import Linter
from verblint.report import Report
from verblint.settings import PLAIN, Project, SettingError, find_project
from verblint.startup.value import replace
from verbworker.contract.workflow import WorkflowVerb, workflow_verbs
from verbworker.engine.protocol import Resource
from verbworker.errors import CannotRun
from verbworker.profile.verify.models import NO_CONTRACTS
from verbworker.profile.verify.policy_files import PolicyFiles, own_file, project_files, read_catalogue


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that models are verified against, read once."""

    project: Project
    contracts: Contracts
    workflows: tuple[WorkflowVerb, ...]
    shared: PolicyFiles
    own: Mapping[str, PolicyFiles]
    known: Baseline | None

    def policies_of(self, model: str) -> PolicyFiles:
        """Return a model's policies: those beside it override those of the project."""
        own = self.own.get(model)
        return self.shared if own is None else own.over(self.shared)

    def contracts_of(self, model: str) -> Contracts:
        """Return the contracts with a model's policies."""
        if model not in self.own:
            return self.contracts
        return replace(self.contracts, policies={**self.contracts.policies, **self.own[model].written})

    def lint(self, model: Resource) -> Report:
        """Lint a model and apply the baseline."""
        report = Linter(self.project, self.contracts_of(model.name)).lint(model.content, model.name)
        return report if self.known is None else self.known.forgive(report)

    def is_plain(self, model: Resource) -> bool:
        """Return whether the settings say that a model is not hollow, but served by plain tasks."""
        return Linter(self.project, self.contracts).is_plain(model.name)

    def workflow_of(self, process_id: str) -> WorkflowVerb | None:
        """Return the workflow verb that owns a process."""
        return next((verb for verb in self.workflows if verb.process == process_id), None)


def open_sources(models: Sequence[Resource], verbs: str = "") -> Sources:
    """Open the project of the working directory; raises `CannotRun` if something is missing or invalid."""
    try:
        project = _project(verbs)
        shared_files = project_files(project)
        shared = read_catalogue(shared_files)
        own = _own(models, shared_files)
        contracts = _contracts(project, own.values())
        Linter(project, contracts)
        known = read_baseline(project.path(project.baseline)) if project.baseline else None
        return Sources(project, contracts, tuple(workflow_verbs(contracts)), shared, own, known)
    except ContractError as error:
        raise CannotRun(f"the verb contracts have {len(error.faults)} fault(s):\n{error}") from error
    except SettingError as error:
        raise CannotRun(str(error)) from error


def _project(verbs: str) -> Project:
    project = find_project()
    # Paths are relative to the working directory, so that a report does not depend on the project's location.
    project = replace(project, folder=os.path.relpath(project.folder) if project.folder else "")
    if verbs:
        project = replace(project, verbs=os.path.relpath(verbs, project.folder or os.curdir))
    if not project.verbs and not project.plain and project.settings.profile != PLAIN:
        raise CannotRun(NO_CONTRACTS)
    if project.verbs and not os.path.isdir(project.path(project.verbs)):
        raise CannotRun(f"{os.path.normpath(project.path(project.verbs))}: there is no such folder of verb contracts")
    return project


def _own(models: Iterable[Resource], shared: Iterable[str]) -> dict[str, PolicyFiles]:
    """Return the policies beside each model that do not apply to all."""
    common = {os.path.realpath(file) for file in shared}
    found: dict[str, PolicyFiles] = {}
    for model in models:
        file = own_file(model.name)
        if file is not None and os.path.realpath(file) not in common:
            found[model.name] = read_catalogue([file])
    return found


def _contracts(project: Project, own: Iterable[PolicyFiles]) -> Contracts:
    if not project.verbs:
        return Contracts()  # all models are plain, or the linter reports those that are not
    # Every policy that a contract names must be known, including those beside a model.
    known = {name: policy for catalogue in own for name, policy in catalogue.written.items()}
    files = [Path(project.path(file)) for file in project.policies]
    return read_contracts(Path(project.path(project.verbs)), files, known)
