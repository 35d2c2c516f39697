"""The policy catalogue: policies by name, from one or more files, with their line numbers."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from verblint.contracts.contract import PolicyFields
from verblint.contracts.contract_files import POLICY_FILE, read_policies
from verblint.settings import Project
from verbworker.contract.policy import Policy
from verbworker.profile.verify.location import Location


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """Policies, and how each is written in its file."""

    policies: Mapping[str, Policy] = field(default_factory=dict)
    written: Mapping[str, PolicyFields] = field(default_factory=dict)

    def over(self, other: "PolicyFiles") -> "PolicyFiles":
        """Merge both; on equal names this one's policy wins."""
        return PolicyFiles({**other.policies, **self.policies}, {**other.written, **self.written})

    def spot(self, path: str) -> Location | None:
        """Return where a policy's value is, by its path below `policies`, such as `standard.retry.maximum_attempts`."""
        # A policy's name may contain dots, so the longest match counts.
        fitting = [name for name in self.written if path == name or path.startswith(f"{name}.")]
        if not fitting:
            return None
        name = max(fitting, key=len)
        steps = path[len(name) + 1 :].split(".") if path != name else ("name",)
        return Location.origin(self.written[name].origin.at(*steps))


def read_catalogue(files: Iterable[str]) -> PolicyFiles:
    """Read the policies of some files; raises `ContractError` if one is wrong or a name is in two of them."""
    written = read_policies(map(Path, files))
    return PolicyFiles({name: Policy.model_validate(read) for name, read in written.items()}, written)


def project_files(project: Project) -> list[str]:
    """Return the policies files for every process: those below the verbs folder, and those in the settings."""
    below = sorted(Path(project.path(project.verbs)).rglob(POLICY_FILE)) if project.verbs else []
    named = (project.path(name) for name in project.policies)
    return list(dict.fromkeys(os.path.normpath(file) for file in (*map(str, below), *named)))


def own_file(model: str) -> str | None:
    """Return the policies file beside a model, if there is one."""
    file = os.path.join(os.path.dirname(model), POLICY_FILE)
    return os.path.normpath(file) if os.path.isfile(file) else None
