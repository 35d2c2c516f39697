"""The contract files: `verbs/**/*.yaml` and policy files, read without importing any Python.

A verb file contains one verb, or several under `verbs`. A policy file contains `version: 1` and a list of `policies`.
Their fields are described in `verblint.contracts.fields`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from verblint.contracts.contract import Contracts, DirectVerb, Origin, PolicyFields, Steps, WorkflowVerbFields
from verblint.contracts.field_shapes import Part, Shape, items, record
from verblint.contracts.fields import policy_file, read_verb
from verblint.contracts.strict_yaml import ContractFault, YamlError, load
from verblint.names import nearest

POLICY_FILE = "policies.yaml"


class ContractError(Exception):
    """Invalid contracts; `faults` lists every error by its place."""

    def __init__(self, faults: Iterable[ContractFault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.file, fault.line, fault.column)))
        super().__init__("\n".join(map(str, self.faults)))


def read_verbs(folder: Path) -> Contracts:
    """Read the verbs below a folder, or raise ContractError. Policy files in it are not read."""
    reading = _ContractReading()
    reading.add_verbs(file for file in _files(folder) if file.name != POLICY_FILE)
    return reading.finish()


def read_policies(files: Iterable[Path], *, is_exact: bool = False) -> Mapping[str, PolicyFields]:
    """Read the policies of some files by name, or raise ContractError. With `is_exact`, they must leave out nothing."""
    reading = _ContractReading()
    reading.add_policies(files, is_exact=is_exact)
    return reading.finish().policies


def read_contracts(
    folder: Path,
    policies: Iterable[Path] = (),
    known: Mapping[str, PolicyFields] | None = None,
    *,
    is_exact: bool = False,
) -> Contracts:
    """Read all contracts below a folder, and the policies in it and in further files, or raise ContractError.

    A `known` policy is used if no file defines one with that name. Every policy that a verb names must exist.
    """
    files = list(_files(folder))
    reading = _ContractReading()
    reading.add_verbs(file for file in files if file.name != POLICY_FILE)
    reading.add_policies((*(file for file in files if file.name == POLICY_FILE), *policies), is_exact=is_exact)
    reading.add_known_policies(known or {})
    reading.check_policy_names()
    return reading.finish()


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml") and p.is_file())


class _ContractReading:
    """Contracts while they are being read, with every fault found so far."""

    def __init__(self) -> None:
        self._workflows: dict[str, WorkflowVerbFields] = {}
        self._directs: dict[str, DirectVerb] = {}
        self._policies: dict[str, PolicyFields] = {}
        self._faults: list[ContractFault] = []

    def add_verbs(self, files: Iterable[Path]) -> None:
        """Read the verb or verbs of each file, and check them against each other."""
        several = record(dict, {"verbs": items(Shape(self._add_verb, dict))}, {})
        for part in self._open(files):
            (several if isinstance(part.value, dict) and "verbs" in part.value else self._add_verb)(part)
        processes: dict[str, str] = {}
        for verb in self._workflows.values():
            owner = processes.setdefault(verb.process, verb.name)
            if owner != verb.name:
                self._fault(verb.origin.at("process"), f"the process {verb.process} already belongs to {owner}")
            for steps, name in _calls(verb):
                if name in self._workflows:
                    message = f"{name} is a workflow verb; a process calls direct verbs only and hands over by message"
                    self._fault(verb.origin.at(*steps), message)
            for steps, message in _unknown_facts(verb, self._directs):
                self._fault(verb.origin.at(*steps), message)

    def add_policies(self, files: Iterable[Path], *, is_exact: bool) -> None:
        """Read policy files."""
        read = policy_file(self._add_policy, is_exact=is_exact)
        for part in self._open(files):
            read(part)

    def add_known_policies(self, known: Mapping[str, PolicyFields]) -> None:
        """Add policies that the caller has read, unless a file has one of that name."""
        self._policies = {**known, **self._policies}

    def check_policy_names(self) -> None:
        """Check that every policy a workflow verb names exists, unless faults may have hidden some."""
        for verb in self._workflows.values() if not self._faults else ():
            for steps, name in _policy_names(verb):
                if name not in self._policies:
                    self._fault(verb.origin.at(*steps), f"no policy is called {name}")

    def finish(self) -> Contracts:
        """Return all contracts, or raise ContractError."""
        if self._faults:
            raise ContractError(self._faults)
        return Contracts(self._workflows, self._directs, self._policies)

    def _open(self, files: Iterable[Path]) -> Iterator[Part]:
        for file in files:
            try:
                document = load(file.read_bytes(), str(file))
            except YamlError as error:
                self._faults.append(error.fault)
            except OSError as error:
                self._fault(Origin(str(file)), f"cannot be read: {error.strerror}")
            else:
                yield Part(document.value, document.origin, self._faults)

    def _add_verb(self, part: Part) -> None:
        verb = read_verb(part)
        if verb is None:
            return
        if verb.name in self._workflows or verb.name in self._directs:
            part.fault(f"the verb {verb.name} is declared twice", "verb")
        elif isinstance(verb, WorkflowVerbFields):
            self._workflows[verb.name] = verb
        else:
            self._directs[verb.name] = verb

    def _add_policy(self, policy: PolicyFields) -> None:
        first = self._policies.setdefault(policy.name, policy)
        if first is not policy:
            words = f"the policy {policy.name} is declared twice, first at {first.origin}"
            self._fault(policy.origin.at("name"), words)

    def _fault(self, origin: Origin, message: str) -> None:
        self._faults.append(ContractFault.at(origin, message))


def _calls(verb: WorkflowVerbFields) -> Iterator[tuple[Steps, str]]:
    yield from ((("sub_verbs", index), name) for index, name in enumerate(verb.sub_verbs))
    yield from ((("compensation", step), undo) for step, undo in verb.compensation.items())


def _policy_names(verb: WorkflowVerbFields) -> Iterator[tuple[Steps, str]]:
    if verb.policy is not None:
        yield ("policy",), verb.policy
    yield from ((("policies", step), name) for step, name in verb.policies.items())


def _unknown_facts(verb: WorkflowVerbFields, directs: Mapping[str, DirectVerb]) -> Iterator[tuple[Steps, str]]:
    """Yield the facts of gates whose field no case ever has, as far as the contracts say what verbs write."""
    known = set(verb.initial)
    for name in (*verb.sub_verbs, *verb.compensation.values()):
        writes = directs[name].writes if name in directs else None
        if writes is None:
            return  # such a verb may write anything
        known.update(writes)
    for gate in verb.gates.values():
        for index, fact in enumerate(gate.show):
            if not any(_is_same_or_below(fact.field, one) or _is_same_or_below(one, fact.field) for one in known):
                near = nearest(fact.field, sorted(known))
                hint = f"; did you mean {near}?" if near else ""
                yield (
                    ("gates", gate.name, "show", index, "field"),
                    f"no verb of this process writes {fact.field}, and payload.initial does not have it{hint}",
                )


def _is_same_or_below(field: str, above: str) -> bool:
    return field == above or field.startswith(f"{above}.")
