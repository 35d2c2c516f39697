"""Workflow verbs: the contracts of long processes, loaded from YAML and checked as a whole."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from verblint.contracts.contract import FlagType
from verblint.contracts.contract_files import POLICY_FILE
from verblint.contracts.section import ContractFault
from verblint.contracts.strict_yaml import Path as Steps
from verblint.contracts.strict_yaml import YamlDocument
from verbworker.contract import contract_file
from verbworker.contract.flags import Flag, FlagContract
from verbworker.contract.workflow_fields import Argument, DirectContract, Sentences, WorkflowContract
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.payload.canonical import MAX_INTEGER
from verbworker.payload.envelope import DEFAULT_BUDGET
from verbworker.payload.merge import apply

_PLACE = re.compile(r"\{([^{}]*)\}")
_KEY_PLACE = re.compile(r"\$\{(state|args)\.([A-Za-z0-9_.]+)\}")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Gate:
    """A human gate: its user task, the decisions it accepts, and its audience."""

    name: str
    task: str
    decisions: tuple[str, ...] = ()
    audience: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowVerb:
    """A verb performed by a process, with everything its author declared."""

    name: str
    version: int
    process: str
    schema: str
    sentences: Sentences | None = None
    args: Mapping[str, Argument] = field(default_factory=dict)
    wait: Literal["fire-and-track", "blocking"] = "fire-and-track"
    business_key: str | None = None
    correlation: Mapping[str, str] = field(default_factory=dict)
    budget: int = DEFAULT_BUDGET
    integrity: Literal["plain", "signed"] = "plain"
    initial: Mapping[str, str] = field(default_factory=dict)
    outcome: Mapping[str, str] = field(default_factory=dict)
    sub_verbs: tuple[str, ...] = ()
    flag_contract: FlagContract = field(default_factory=FlagContract)
    messages: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    policy: str | None = None
    policies: Mapping[str, str] = field(default_factory=dict)
    compensation: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str | None = None
    owner: str | None = None

    def policy_of(self, sub_verb: str) -> str | None:
        """Return the name of a sub-verb's policy, or None when this verb names none."""
        return self.policies.get(sub_verb, self.policy)

    def problems(self, args: Mapping[str, object]) -> list[str]:
        """Return what is wrong with a caller's arguments, one sentence each; empty when they are valid."""
        found = [f"{self.name} has no argument {name!a}" for name in args if name not in self.args]
        for name, argument in self.args.items():
            if name not in args:
                if argument.required:
                    found.append(f"the argument {name} is missing")
            elif (misfit := self.misfit(name, args[name])) is not None:
                found.append(f"the argument {name} {misfit}")
        return found

    def misfit(self, name: str, value: object) -> str | None:
        """Return why a value does not fit the argument, as `must be of type integer`, or None when it does."""
        return _misfit(self.args[name], value)

    def initial_data(self, args: Mapping[str, object]) -> dict[str, Any]:
        """Return the data an instance starts with, built from valid arguments."""
        given = {name: args.get(name, argument.default) for name, argument in self.args.items()}
        named = ((target, given[source.removeprefix("args.")]) for target, source in self.initial.items())
        return apply({}, {tuple(target.split(".")): value for target, value in named if value is not None})

    def outcome_of(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the caller's result from the final data; missing fields are left out."""
        named = ((target, _at(data, source.split(".")[1:])) for target, source in self.outcome.items())
        return apply({}, {tuple(target.split(".")): value for target, value in named if value is not _MISSING})

    def keys_of(self, data: Mapping[str, Any], args: Mapping[str, object] | None = None) -> dict[str, str]:
        """Return the correlation keys whose parts are all available; later steps add the others."""
        found = ((name, _render(template, data, args or {})) for name, template in self.correlation.items())
        return {name: key for name, key in found if key and key.strip()}

    def business_key_of(self, data: Mapping[str, Any], args: Mapping[str, object]) -> str | None:
        """Return the case's business key, if the verb declares one; raise `PermanentContract` if it cannot be built."""
        if self.business_key is None:
            return None
        key = _render(self.business_key, data, args)
        if key is None:
            raise PermanentContract(
                f"the business key {self.business_key} needs what is not there", code="AmeideTemplateMissingPath"
            )
        if not key:
            raise PermanentContract(f"the business key {self.business_key} came out empty", code="AmeideTemplateEmpty")
        return key

    def say(self, args: Mapping[str, object]) -> str:
        """Return the step's sentence with the arguments filled in."""
        return self.name if self.sentences is None else say_step(self.sentences, args)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The contracts of a folder: workflow verbs, and the contracts and sentences of direct verbs."""

    workflows: list[WorkflowVerb]
    sentences: Mapping[str, Sentences]
    directs: Mapping[str, DirectContract] = field(default_factory=dict)


def say_step(sentences: Sentences, args: Mapping[str, object]) -> str:
    """Return the step's sentence with the arguments filled in."""
    return _PLACE.sub(lambda place: str(args.get(place[1], "…")), sentences.step)


def load_verbs(folder: Path) -> Loaded:
    """Load the contracts below a folder; raise `ContractInvalid` with each problem at its line.

    At runtime the code of direct verbs is authoritative; only their sentences are used. Policy files are skipped.
    """
    if not folder.is_dir():
        raise ContractInvalid(f"{folder}: there is no such folder of verb contracts")
    loading = _Loading()
    for file in sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml") and p.is_file()):
        if file.name != POLICY_FILE:
            loading.add(file)
    return loading.finish()


def load_workflow_verbs(folder: Path) -> list[WorkflowVerb]:
    """Load every workflow verb below a folder, by name; raise as `load_verbs` does."""
    return load_verbs(folder).workflows


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a verb file, for editors."""
    workflow = WorkflowContract.model_json_schema(ref_template="#/$defs/{model}")
    direct = DirectContract.model_json_schema(ref_template="#/$defs/{model}")
    shared = {**workflow.pop("$defs"), **direct.pop("$defs"), "WorkflowContract": workflow, "DirectContract": direct}
    verb = {
        "if": {"properties": {"strategy": {"const": "workflow"}}, "required": ["strategy"]},
        "then": {"$ref": "#/$defs/WorkflowContract"},
        "else": {"$ref": "#/$defs/DirectContract"},
    }
    several = {"type": "array", "items": {"$ref": "#/$defs/Verb"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A verb of verbworker, or several under `verbs`",
        "type": "object",
        "if": {"required": ["verbs"]},
        "then": {"properties": {"verbs": several}, "additionalProperties": False},
        "else": {"$ref": "#/$defs/Verb"},
        "$defs": {**shared, "Verb": verb},
    }


class _Loading:
    """Contracts being loaded, with all problems found so far."""

    def __init__(self) -> None:
        self._faults: list[ContractFault] = []
        self._places: dict[str, tuple[YamlDocument, Steps]] = {}
        self._workflows: dict[str, WorkflowContract] = {}
        self._directs: dict[str, DirectContract] = {}

    def add(self, file: Path) -> None:
        """Read the verb or verbs of a file."""
        document, faults = contract_file.read(file)
        self._faults += faults
        if document is None:
            return
        value = document.value
        if not isinstance(value, dict) or "verbs" not in value:
            self._add_verb(document, ())
            return
        for name in value.keys() - {"verbs"}:
            self._fault(document, (name,), "unknown field beside verbs")
        if not isinstance(value["verbs"], list):
            self._fault(document, ("verbs",), "must be a list")
            return
        for index in range(len(value["verbs"])):
            self._add_verb(document, ("verbs", index))

    def _add_verb(self, document: YamlDocument, at: Steps) -> None:
        value = contract_file.part(document, at)
        if not isinstance(value, dict):
            self._fault(document, at, "must be a mapping")
            return
        strategy = value.get("strategy", "direct")
        if strategy not in ("direct", "workflow"):
            self._fault(document, (*at, "strategy"), "must be direct or workflow")
            return
        shape: type[WorkflowContract | DirectContract] = WorkflowContract if strategy == "workflow" else DirectContract
        contract, faults = contract_file.validate(shape, document, at)
        self._faults += faults
        if contract is None:
            return
        if contract.verb in self._places:
            self._fault(document, (*at, "verb"), f"the verb {contract.verb} is declared twice")
        self._places[contract.verb] = document, at
        self._faults += [contract_file.fault(document, (*at, *steps), words) for steps, words in _misfits(contract)]
        if isinstance(contract, WorkflowContract):
            self._workflows[contract.verb] = contract
        else:
            self._directs[contract.verb] = contract

    def finish(self) -> Loaded:
        """Check the contracts against each other, then return the verbs."""
        owners: dict[str, str] = {}
        for contract in self._workflows.values():
            document, at = self._places[contract.verb]
            owner = owners.setdefault(contract.process, contract.verb)
            if owner != contract.verb:
                self._fault(document, (*at, "process"), f"the process {contract.process} belongs to {owner}")
            for steps, name in _iterate_calls(contract):
                if name in self._workflows:
                    message = f"{name} is a workflow verb; a process calls direct verbs and hands over by a message"
                    self._fault(document, (*at, *steps), message)
        if self._faults:
            raise contract_file.invalid(self._faults)
        workflows = [_verb(self._workflows[name]) for name in sorted(self._workflows)]
        said = {name: contract.sentences for name, contract in self._directs.items() if contract.sentences is not None}
        return Loaded(workflows, said, self._directs)

    def _fault(self, document: YamlDocument, steps: Steps, message: str) -> None:
        self._faults.append(contract_file.fault(document, steps, message))


def _iterate_calls(contract: WorkflowContract) -> Iterator[tuple[Steps, str]]:
    yield from ((("sub_verbs", index), name) for index, name in enumerate(contract.sub_verbs))
    yield from ((("compensation", step), undo) for step, undo in contract.compensation.items())


def _misfits(contract: WorkflowContract | DirectContract) -> Iterator[tuple[Steps, str]]:
    """Yield where the parts of one contract contradict each other."""
    yield from _argument_misfits(contract)
    if isinstance(contract, DirectContract):
        return
    for index, name in enumerate(contract.sub_verbs):
        if name in contract.sub_verbs[:index]:
            yield ("sub_verbs", index), f"{name} is listed twice"
    for where in ("policies", "compensation", "errors"):
        steps: Mapping[str, object] = getattr(contract, where)
        yield from (((where, step), f"{step} is not in sub_verbs") for step in steps if step not in contract.sub_verbs)
    for step, codes in contract.errors.items():
        for index, code in enumerate(codes):
            if code in codes[:index]:
                yield ("errors", step, index), f"{code} is listed twice"
    for message, key in contract.messages.items():
        if key not in contract.correlation.keys:
            yield ("messages", message), f"{key} is not declared in correlation.keys"
    for target, source in contract.payload.initial.items():
        if source.removeprefix("args.") not in contract.args:
            yield ("payload", "initial", target), f"{source} is not declared in args"
    for where, targets in (("initial", contract.payload.initial), ("outcome", contract.payload.outcome)):
        for target in targets:
            if any(other.startswith(f"{target}.") for other in targets):
                yield ("payload", where, target), f"{target} is both a value and an object with fields"
    yield from _flag_misfits(contract)


def _argument_misfits(contract: WorkflowContract | DirectContract) -> Iterator[tuple[Steps, str]]:
    for name, argument in contract.args.items():
        if (argument.type == "enum") != bool(argument.values):
            yield ("args", name), "an enum, and only an enum, has values"
        elif argument.default is not None and (misfit := _misfit(argument, argument.default)) is not None:
            yield ("args", name, "default"), misfit
        if argument.required and argument.default is not None:
            yield ("args", name, "default"), "a required argument has no default"
    if contract.sentences is None:
        return
    for part in ("step", "summary"):
        for place in _PLACE.findall(getattr(contract.sentences, part) or ""):
            if place not in contract.args:
                yield ("sentences", part), f"{{{place}}} is not declared in args"
    for name in contract.sentences.clarify:
        if name not in contract.args:
            yield ("sentences", "clarify", name), f"{name} is not declared in args"


def _flag_misfits(contract: WorkflowContract) -> Iterator[tuple[Steps, str]]:
    for name, flag in contract.flags.items():
        try:
            Flag(name, FlagType(flag.type), flag.initial, flag.values)
        except ContractInvalid as error:
            yield ("flags", name), str(error)


def _misfit(argument: Argument, value: object) -> str | None:
    """Return why a value does not fit this argument, or None when it does."""
    match argument.type, value:
        case ("string", str()) | ("boolean", bool()):
            return None
        case "enum", str():
            return None if value in argument.values else f"must be one of {', '.join(argument.values)}"
        case ("integer" | "number", int()) if not isinstance(value, bool):
            return None if abs(value) <= MAX_INTEGER else "is beyond 2^53-1"
        case "number", float() if isfinite(value):
            return None
    return f"must be of type {argument.type}"


def _render(template: str, data: Mapping[str, Any], args: Mapping[str, object]) -> str | None:
    """Return the filled template, or None while a placeholder has no plain value."""
    given = {name.replace("-", "_"): value for name, value in args.items()}
    missing: list[str] = []

    def fill(place: re.Match[str]) -> str:
        value = _at(data if place[1] == "state" else given, place[2].split("."))
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int):
            return str(value)
        missing.append(place[0])
        return ""

    text = _KEY_PLACE.sub(fill, template)
    return None if missing else text


def _at(data: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = data
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _verb(contract: WorkflowContract) -> WorkflowVerb:
    payload = contract.payload
    flags = (Flag(name, FlagType(flag.type), flag.initial, flag.values) for name, flag in contract.flags.items())
    gates = contract.gates.items()
    return WorkflowVerb(
        name=contract.verb,
        version=contract.version,
        process=contract.process,
        schema=payload.schema_name or f"{contract.verb}/v{contract.version}",
        sentences=contract.sentences,
        args=contract.args,
        wait=contract.wait,
        business_key=contract.correlation.business_key,
        correlation=contract.correlation.keys,
        budget=payload.budget,
        integrity=payload.integrity,
        initial=payload.initial,
        outcome=payload.outcome,
        sub_verbs=contract.sub_verbs,
        flag_contract=FlagContract.of(flags),
        messages=contract.messages,
        gates={name: Gate(name, gate.task or name, gate.decisions, gate.audience) for name, gate in gates},
        policy=contract.policy,
        policies=contract.policies,
        compensation=contract.compensation,
        errors=contract.errors,
        summary=contract.summary,
        owner=contract.owner,
    )
