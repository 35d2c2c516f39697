"""The contract between verbs and gateways: flat `orch_*` flags, and write-once `corr_*` keys."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from verblint.contracts.contract import Flag, FlagValue, find_text_misfit
from verblint.contracts.syntax import KEY_NAME
from verbworker.errors import PermanentContract

FLAG_PREFIX = "orch_"
MAX_CORRELATION = 255  # characters; engines index the key


@dataclass(frozen=True, slots=True)
class FlagContract:
    """All flags a workflow verb declares."""

    flags: Mapping[str, Flag] = field(default_factory=dict)

    def initial(self) -> dict[str, FlagValue]:
        """Return the flags a process starts with: all of them, because an unset flag is an incident at a gateway."""
        return {flag.name: flag.initial for flag in self.flags.values()}

    def check(self, flags: Mapping[str, object]) -> None:
        """Raise `PermanentContract` unless a verb may set these flags; it may omit flags, but not invent any."""
        for name, value in flags.items():
            flag = self.flags.get(name)
            if flag is None:
                raise PermanentContract(
                    f"the flag {name!a} is not in the workflow verb's contract", code="FlagUndeclared"
                )
            misfit = flag.find_misfit(value)
            if misfit is not None:
                raise PermanentContract(f"the flag {name} {misfit.message}", code=misfit.code)


@dataclass(frozen=True, slots=True)
class FlagDrift:
    """How the flags that a job brings differ from those last written: certainly from outside, or perhaps only older."""

    foreign: tuple[str, ...] = ()
    differing: Mapping[str, object] = field(default_factory=dict)


def compare_flags(
    recorded: Mapping[str, object], variables: Mapping[str, object], asked: Iterable[str]
) -> FlagDrift | None:
    """Return how the `asked` variables of a job differ from the flags last written for its instance; None if not."""
    foreign: list[str] = []
    differing: dict[str, object] = {}
    for name in asked:
        if name in variables:
            value = variables[name]
            if name not in recorded or type(value) not in (bool, int, str):
                foreign.append(name)
            elif type(value) is not type(recorded[name]) or value != recorded[name]:
                differing[name] = value
        elif name in recorded:
            foreign.append(name)
    return FlagDrift(tuple(foreign), differing) if foreign or differing else None


def describe_foreign(name: str, recorded: Mapping[str, object], variables: Mapping[str, object]) -> str:
    """Return a sentence about a flag that was changed in the engine: its name and what it was, not what it became."""
    if name not in recorded:
        return f"the flag {name} was set outside verbworker: this case never had it"
    was = f"it was {json.dumps(recorded[name])}"
    if name not in variables:
        return f"the flag {name} was removed outside verbworker: {was}"
    return f"the flag {name} was changed outside verbworker: {was}"


def check_correlation(
    existing: Mapping[str, str], new: Mapping[str, object], declared: Collection[str] | None = None
) -> None:
    """Raise `PermanentContract` unless `new` correlation keys fit the `existing` ones: none may change.

    With `declared`, keys that the workflow verb does not name are rejected too.
    """
    for name, value in new.items():
        if not KEY_NAME.fits(name):
            raise PermanentContract(
                f"{name!a} is not the name of a correlation key; write it like corr_documents", code="CorrelationName"
            )
        if declared is not None and name not in declared:
            raise PermanentContract(
                f"the correlation key {name} is not in the workflow verb's contract", code="CorrelationUndeclared"
            )
        if type(value) is not str or not value.strip():
            raise PermanentContract(f"the correlation key {name} must be a text with content", code="CorrelationType")
        misfit = find_text_misfit(value, MAX_CORRELATION)
        if misfit is not None:
            raise PermanentContract(f"the correlation key {name} {misfit.message}", code=misfit.code)
        if existing.get(name, value) != value:
            raise PermanentContract(
                f"the correlation key {name} was written before and cannot change", code="CorrelationChanged"
            )
