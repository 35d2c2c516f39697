"""The contract between verbs and gateways: flat `orch_*` flags, and write-once `corr_*` keys."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from verblint.contracts.contract import FlagType, FlagValue
from verbworker.errors import ContractInvalid, PermanentContract
from verbworker.payload.canonical import MAX_INTEGER

MAX_TEXT = 1000
MAX_CORRELATION = 255

_FLAG = re.compile(r"orch_[a-z0-9]+(?:_[a-z0-9]+)*")
_CORRELATION = re.compile(r"corr_[a-z0-9]+(?:_[a-z0-9]+)*")
_PYTHON: Mapping[FlagType, type] = {
    FlagType.BOOLEAN: bool,
    FlagType.INTEGER: int,
    FlagType.STRING: str,
    FlagType.ENUM: str,
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its name, type, initial value, and the values of an enum."""

    name: str
    type: FlagType
    initial: FlagValue
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _FLAG.fullmatch(self.name):
            raise ContractInvalid(f"{self.name!r} is no flag name; write it like orch_docs_received")
        if (self.type is FlagType.ENUM) != bool(self.values):
            raise ContractInvalid(f"the flag {self.name} is of type {self.type}: an enum, and only an enum, has values")
        if len(set(self.values)) < len(self.values):
            raise ContractInvalid(f"the flag {self.name} lists a value twice")
        try:
            self.check(self.initial)
        except PermanentContract as error:
            raise ContractInvalid(f"the initial value does not fit: {error}") from error

    def check(self, value: object) -> None:
        """Raise `PermanentContract` unless `value` fits this flag; true and false are not integers."""
        if type(value) is not _PYTHON[self.type]:
            raise PermanentContract(
                f"the flag {self.name} must be of type {self.type}, not {type(value).__name__}", code="FlagTypeWrong"
            )
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise PermanentContract(f"the flag {self.name} is beyond 2^53-1", code="FlagOutOfRange")
        if self.type is FlagType.ENUM and value not in self.values:
            raise PermanentContract(
                f"the flag {self.name} must be one of {', '.join(self.values)}", code="FlagValueUnknown"
            )
        if isinstance(value, str):
            _check_text(self.name, value, MAX_TEXT)


@dataclass(frozen=True, slots=True)
class FlagContract:
    """All flags a workflow verb declares."""

    flags: Mapping[str, Flag] = field(default_factory=dict)

    @classmethod
    def of(cls, flags: Iterable[Flag]) -> "FlagContract":
        """Return the contract of these flags."""
        return cls({flag.name: flag for flag in flags})

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
            flag.check(value)


def check_correlation(
    existing: Mapping[str, str], new: Mapping[str, object], declared: Collection[str] | None = None
) -> None:
    """Raise `PermanentContract` unless `new` correlation keys fit the `existing` ones: none may change.

    With `declared`, keys that the workflow verb does not name are rejected too.
    """
    for name, value in new.items():
        if not _CORRELATION.fullmatch(name):
            raise PermanentContract(
                f"{name!a} is no name of a correlation key; write it like corr_documents", code="CorrelationName"
            )
        if declared is not None and name not in declared:
            raise PermanentContract(
                f"the correlation key {name} is not in the workflow verb's contract", code="CorrelationUndeclared"
            )
        if type(value) is not str or not value.strip():
            raise PermanentContract(f"the correlation key {name} must be a text with content", code="CorrelationType")
        _check_text(name, value, MAX_CORRELATION)
        if existing.get(name, value) != value:
            raise PermanentContract(
                f"the correlation key {name} was written before and cannot change", code="CorrelationChanged"
            )


def _check_text(name: str, value: str, most: int) -> None:
    if len(value) > most:
        raise PermanentContract(f"{name} is longer than {most} characters", code="TextTooLong")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PermanentContract(f"{name} holds half of a surrogate pair", code="LoneSurrogate")
    if "\0" in value:
        raise PermanentContract(f"{name} holds the character U+0000, which no frame can store", code="NulCharacter")
