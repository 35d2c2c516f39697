"""The catalogue: policies by name, from one file or several, each with the line it was written at."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from verblint.contracts.contract import Origin
from verblint.contracts.contract import PolicyFields as LintedPolicy
from verblint.contracts.contract_files import POLICY_FILE
from verblint.contracts.strict_yaml import Path as Steps
from verblint.contracts.strict_yaml import YamlDocument
from verblint.project import Project
from verbworker.contract import contract_file
from verbworker.contract.policy import Policy, load_policies
from verbworker.errors import ContractInvalid
from verbworker.profile.verify.location import Location


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """Some policies, and of each the file and its number in there."""

    policies: Mapping[str, Policy] = field(default_factory=dict)
    written: Mapping[str, tuple[YamlDocument, int]] = field(default_factory=dict)

    def over(self, other: "PolicyFiles") -> "PolicyFiles":
        """Both together; of two policies with one name this one's counts."""
        return PolicyFiles({**other.policies, **self.policies}, {**other.written, **self.written})

    def spot(self, path: str) -> Location | None:
        """Where a value of a policy was written, by its path below `policies`, such as
        `standard.retry.maximum_attempts`."""
        # A policy's name may have dots in it, so the longest that fits is meant.
        fitting = [name for name in self.written if path == name or path.startswith(f"{name}.")]
        if not fitting:
            return None
        name = max(fitting, key=len)
        document, number = self.written[name]
        steps: Steps = tuple(path[len(name) + 1 :].split(".")) if path != name else ("name",)
        return Location.written(document, ("policies", number, *steps))

    def linted(self) -> dict[str, LintedPolicy]:
        """The same as the linter knows policies."""
        return {
            name: LintedPolicy(name, policy.retry.maximum_attempts, self._origin(name))
            for name, policy in self.policies.items()
        }

    def _origin(self, name: str) -> Origin:
        document, number = self.written[name]
        return Origin(document.file, *document.where(("policies", number)))


def read_catalogue(files: Iterable[str]) -> PolicyFiles:
    """The policies of some files; `ContractInvalid` when one is wrong or a name is in two of them."""
    policies: dict[str, Policy] = {}
    written: dict[str, tuple[YamlDocument, int]] = {}
    for file in files:
        found = load_policies(Path(file))
        document, _ = contract_file.read(Path(file))
        assert document is not None, "it was read a moment ago"
        for number, (name, policy) in enumerate(found.items()):
            if name in policies:
                first = written[name][0].file
                raise ContractInvalid(f"{file}: the policy {name} is declared twice, here and in {first}")
            policies[name], written[name] = policy, (document, number)
    return PolicyFiles(policies, written)


def project_files(project: Project) -> list[str]:
    """The policies files that count for every process: those below the folder of verbs, and those of the settings."""
    below = sorted(Path(project.path(project.verbs)).rglob(POLICY_FILE))
    named = (project.path(name) for name in project.policies)
    return list(dict.fromkeys(os.path.normpath(file) for file in (*map(str, below), *named)))


def own_file(model: str) -> str | None:
    """The policies file beside a model, when there is one."""
    file = os.path.join(os.path.dirname(model), POLICY_FILE)
    return os.path.normpath(file) if os.path.isfile(file) else None
