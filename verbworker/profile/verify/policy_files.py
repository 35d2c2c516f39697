"""The policy catalogue: policies by name, from one or more files, with their line numbers."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from verblint.contracts.contract import Origin
from verblint.contracts.contract import PolicyFields as LintedPolicy
from verblint.contracts.contract_files import POLICY_FILE
from verblint.contracts.strict_yaml import Path as Steps
from verblint.contracts.strict_yaml import YamlDocument
from verblint.settings import Project
from verbworker.contract import contract_file
from verbworker.contract.policy import Policy, load_policies
from verbworker.errors import ContractInvalid
from verbworker.profile.verify.location import Location


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """Policies, each with its file and its index in it."""

    policies: Mapping[str, Policy] = field(default_factory=dict)
    written: Mapping[str, tuple[YamlDocument, int]] = field(default_factory=dict)

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
        document, number = self.written[name]
        steps: Steps = tuple(path[len(name) + 1 :].split(".")) if path != name else ("name",)
        return Location.of_yaml(document, ("policies", number, *steps))

    def to_lint_form(self) -> dict[str, LintedPolicy]:
        """Return the policies in the linter's form."""
        return {
            name: LintedPolicy(name, policy.retry.maximum_attempts, self._origin(name))
            for name, policy in self.policies.items()
        }

    def _origin(self, name: str) -> Origin:
        document, number = self.written[name]
        return Origin(document.file, *document.where(("policies", number)))


def read_catalogue(files: Iterable[str]) -> PolicyFiles:
    """Read the policies of some files; raises `ContractInvalid` if one is wrong or a name is in two of them."""
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
    """Return the policies files for every process: those below the verbs folder, and those in the settings."""
    below = sorted(Path(project.path(project.verbs)).rglob(POLICY_FILE))
    named = (project.path(name) for name in project.policies)
    return list(dict.fromkeys(os.path.normpath(file) for file in (*map(str, below), *named)))


def own_file(model: str) -> str | None:
    """Return the policies file beside a model, if there is one."""
    file = os.path.join(os.path.dirname(model), POLICY_FILE)
    return os.path.normpath(file) if os.path.isfile(file) else None
