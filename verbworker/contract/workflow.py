"""Workflow verbs: the contracts of long processes, and what the runtime derives from them."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from verblint.contracts.contract import DEFAULT_BUDGET, Argument, Contracts, Gate, Sentences
from verblint.contracts.contract_files import ContractError, read_verbs
from verblint.contracts.syntax import KEY_PLACE, SENTENCE_PLACE
from verblint.contracts.templates import text_at
from verblint.names import nearest
from verbworker.contract.flags import FlagContract
from verbworker.contract.message import MAX_PROBLEMS
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.payload.merge import apply

KEY_PLACES = re.compile(KEY_PLACE)
_SENTENCE_PLACE = re.compile(SENTENCE_PLACE)
_MISSING = object()


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
    outcome_flag: str | None = None
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

    def problems(self, args: Mapping[str, object]) -> dict[str, str]:
        """Return what is wrong with a caller's arguments, a sentence for each by name; empty when they are valid.

        Of many unknown arguments the first are told.
        """
        unknown = (name for name in args if name not in self.args)
        found = {name: unknown_argument(name, self.args) for name in islice(unknown, MAX_PROBLEMS)}
        for name, argument in self.args.items():
            if name not in args:
                if argument.required:
                    found[name] = f"the argument {name} is missing"
            elif (misfit := self.misfit(name, args[name])) is not None:
                found[name] = f"the argument {name} {misfit}"
        return found

    def misfit(self, name: str, value: object) -> str | None:
        """Return why a value does not fit the argument, as `must be of type integer`, or None when it does."""
        return self.args[name].find_misfit(value)

    def initial_data(self, args: Mapping[str, object]) -> dict[str, Any]:
        """Return the data an instance starts with, built from valid arguments."""
        given = {name: args.get(name, argument.default) for name, argument in self.args.items()}
        named = ((target, given[source.removeprefix("args.")]) for target, source in self.initial.items())
        return apply({}, {tuple(target.split(".")): value for target, value in named if value is not None})

    def outcome_of(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the caller's result from the final data; missing fields are left out."""
        named = ((target, _at(data, source.split(".")[1:])) for target, source in self.outcome.items())
        return apply({}, {tuple(target.split(".")): value for target, value in named if value is not _MISSING})

    def outcome_name(self, flags: Mapping[str, object]) -> str | None:
        """Return how a case ended by its final flags; None if the contract names no flag or it was never set."""
        flag = self.flag_contract.flags.get(self.outcome_flag or "")
        name = None if flag is None else flags.get(flag.name)
        return name if isinstance(name, str) and flag is not None and name != flag.initial else None

    def keys_of(self, data: Mapping[str, Any], args: Mapping[str, object] | None = None) -> dict[str, str]:
        """Return the correlation keys whose parts are all available; later steps add the others."""
        found = ((name, _render(template, data, args or {})) for name, template in self.correlation.items())
        return {name: key for name, key in found if key and key.strip()}

    def blank_keys(self, data: Mapping[str, Any], args: Mapping[str, object]) -> dict[str, frozenset[str]]:
        """Return the correlation keys whose parts are there and have no text, each with the fields it is made of."""
        found = ((name, template, _render(template, data, args)) for name, template in self.correlation.items())
        return {
            name: frozenset(place.split(".")[1] for place in KEY_PLACES.findall(template) if place.startswith("state."))
            for name, template, key in found
            if key is not None and not key.strip()
        }

    def business_key_of(self, data: Mapping[str, Any], args: Mapping[str, object]) -> str | None:
        """Return the case's business key, if the verb declares one; raise `PermanentContract` if it cannot be built."""
        if self.business_key is None:
            return None
        key = _render(self.business_key, data, args)
        if key is None:
            raise PermanentContract(
                f"the business key {self.business_key} refers to a missing argument", code="AmeideTemplateMissingPath"
            )
        if not key:
            raise PermanentContract(f"the business key {self.business_key} came out empty", code="AmeideTemplateEmpty")
        return key

    def say(self, args: Mapping[str, object]) -> str:
        """Return the step's sentence with the arguments filled in."""
        return self.name if self.sentences is None else say_step(self.sentences, args)


def say_step(sentences: Sentences, args: Mapping[str, object]) -> str:
    """Return the step's sentence with the arguments filled in."""
    return _SENTENCE_PLACE.sub(lambda place: str(args.get(place[1], "…")), sentences.step)


def unknown_argument(name: str, known: Collection[str]) -> str:
    """Return a sentence about an argument that a verb does not have, with the most similar one that it has."""
    near = nearest(name, known)
    return f"there is no argument {name[:60]!a}{f' (did you mean {near}?)' if near else ''}"


def load_verbs(folder: Path) -> Contracts:
    """Read the verb contracts below a folder; raise `ContractInvalid` with each problem at its line.

    Policy files are skipped.
    """
    if not folder.is_dir():
        raise ContractInvalid(f"{folder}: there is no such folder of verb contracts")
    try:
        return read_verbs(folder)
    except ContractError as error:
        raise ContractInvalid(str(error)) from None


def workflow_verbs(contracts: Contracts) -> list[WorkflowVerb]:
    """Return the workflow verbs of some contracts, by name."""
    # Apart from the flags, a verb's fields have the same names here and in its contract.
    shared = [part.name for part in fields(WorkflowVerb) if part.name != "flag_contract"]
    return [
        WorkflowVerb(flag_contract=FlagContract(read.flags), **{name: getattr(read, name) for name in shared})
        for _, read in sorted(contracts.workflows.items())
    ]


def _render(template: str, data: Mapping[str, Any], args: Mapping[str, object]) -> str | None:
    """Return the filled template, or None while a placeholder has no plain value."""
    given = {name.replace("-", "_"): value for name, value in args.items()}
    # Texts and paths alternate: the pattern has one group.
    pieces = KEY_PLACES.split(template)
    for index, place in enumerate(pieces[1::2]):
        source, *path = place.split(".")
        found = text_at(data if source == "state" else given, path)
        if found is None:
            return None
        pieces[2 * index + 1] = found
    return "".join(pieces)


def _at(data: Mapping[str, Any], path: list[str]) -> Any:
    value: Any = data
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _MISSING
        value = value[key]
    return value
