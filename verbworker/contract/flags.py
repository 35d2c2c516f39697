"""The contract between verbs and gateways: flat `orch_*` flags, and write-once `corr_*` keys."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from verblint.contracts.contract import Flag, FlagValue, find_text_misfit
from verblint.contracts.syntax import KEY_NAME
from verbworker.errors import PermanentContract

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
