"""Contracts as plain values: what the files of verbs and policies declare, and where.

Linter and runtime work with these values; only `verblint.contracts.contract_files` reads the files.
"""

from collections.abc import Mapping
from enum import StrEnum

from verblint.bpmn.source import Position
from verblint.startup.value import field, value

# Beyond it, JSON numbers lose digits in other languages.
MAX_INTEGER = 2**53 - 1
MAX_FLAG_TEXT = 1000  # characters; a flag steers a process, and longer text belongs in the payload
# Bytes of a payload: without a budget in the contract, and in any case.
DEFAULT_BUDGET = 64 * 1024
MAX_BUDGET = 1024 * 1024  # a quarter of Zeebe's default message size: a job carries more than its payload

FlagValue = bool | int | str
Steps = tuple[str | int, ...]


class FlagType(StrEnum):
    """The four types a flag may have."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"
    ENUM = "enum"


_PYTHON: Mapping[FlagType, type] = {
    FlagType.BOOLEAN: bool,
    FlagType.INTEGER: int,
    FlagType.STRING: str,
    FlagType.ENUM: str,
}


@value
class Origin:
    """A part of a contract file: the file, the path to the part, and the positions of everything in the file.

    The position of a mapping's entry is that of its key; the position of a list's item is that of the item.
    """

    file: str
    positions: Mapping[Steps, Position] = field(default_factory=dict)
    path: Steps = ()

    def at(self, *steps: str | int) -> "Origin":
        """Return a part below this one."""
        return Origin(self.file, self.positions, (*self.path, *steps))

    @property
    def position(self) -> Position:
        """The position of the part; if it is missing, that of what should contain it."""
        path = self.path
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, Position(1, 1))

    def __str__(self) -> str:
        line, column = self.position
        return f"{self.file}:{line}:{column}"


@value
class Misfit:
    """Why a value does not fit: an error code for programs, and the rest of a sentence about the value."""

    code: str
    message: str


def find_text_misfit(text: str, most: int) -> Misfit | None:
    """Return why no frame can store a text, or None if one can."""
    if len(text) > most:
        return Misfit("TextTooLong", f"is longer than {most} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return Misfit("LoneSurrogate", "holds half of a surrogate pair")
    if "\0" in text:
        return Misfit("NulCharacter", "holds the character U+0000, which no frame can store")
    return None


@value
class Flag:
    """One `orch_*` flag: its name, type, initial value, and the values of an enum."""

    name: str
    type: FlagType
    initial: FlagValue
    values: tuple[str, ...] = ()

    def find_problem(self) -> tuple[str, str] | None:
        """Return a field that contradicts another, and why, or None if all fit."""
        if (self.type is FlagType.ENUM) != bool(self.values):
            return "values", "an enum, and only an enum, has values"
        if len(set(self.values)) < len(self.values):
            return "values", "a value is listed twice"
        misfit = self.find_misfit(self.initial)
        return None if misfit is None else ("initial", misfit.message)

    def find_misfit(self, value: object) -> Misfit | None:
        """Return why a value does not fit this flag, or None if it does; true and false are not integers."""
        if type(value) is not _PYTHON[self.type]:
            return Misfit("FlagTypeWrong", f"must be of type {self.type}, not {type(value).__name__}")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            return Misfit("FlagOutOfRange", "is beyond 2^53-1")
        if self.type is FlagType.ENUM and value not in self.values:
            return Misfit("FlagValueUnknown", f"must be one of {', '.join(self.values)}")
        return find_text_misfit(value, MAX_FLAG_TEXT) if isinstance(value, str) else None


FACT_FORMATS = ("text", "money", "date", "datetime", "number", "yes/no", "list", "link")
"""How a fact of a task may be shown."""


@value
class GateFact:
    """One fact that a gate's task shows: a field of the payload, its label, and how its value is written.

    `currency` is that of an amount of money which names none itself.
    """

    field: str
    label: str
    format: str = "text"
    currency: str | None = None


TONES = ("positive", "negative", "neutral")
"""What a decision is for the person who asked."""

INPUT_TYPES = ("amount", "comment", "date", "choice", "yes/no")
"""What a person may give with a decision."""


@value
class Choice:
    """How one decision of a gate is offered: its label, its tone, and the question before it is made."""

    name: str
    label: str | None = None
    tone: str = "neutral"
    confirm: str | None = None


@value
class GateInput:
    """A field that a person fills in with a decision; `only_for` are the decisions it belongs to, empty for all."""

    name: str
    type: str
    label: str | None = None
    required: bool = False
    values: tuple[str, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    currency: str | None = None
    only_for: tuple[str, ...] = ()


@value
class Gate:
    """A human gate: its user task, the decisions it accepts, and who may decide.

    `audience` is a role, or several of which a person needs one. With `four_eyes`, the person who asked for the case
    may not decide; `distinct_from` are gates whose deciders may not. `show` are the facts that a decision needs,
    `choices` the decisions with a look of their own, and `inputs` what is filled in with one.
    """

    name: str
    task: str
    decisions: tuple[str, ...] = ()
    audience: str | tuple[str, ...] | None = None
    four_eyes: bool = False
    distinct_from: tuple[str, ...] = ()
    show: tuple[GateFact, ...] = ()
    choices: tuple[Choice, ...] = ()
    inputs: Mapping[str, GateInput] = field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the audience; empty means that anyone may decide."""
        return (self.audience,) if isinstance(self.audience, str) else self.audience or ()


@value
class Sentences:
    """Texts for people: the step itself, its summary, and the question for a missing argument."""

    step: str
    summary: str | None = None
    clarify: Mapping[str, str] = field(default_factory=dict)


@value
class Argument:
    """One argument of the caller."""

    type: str
    required: bool = False
    values: tuple[str, ...] = ()
    default: object = None
    summary: str | None = None

    def find_misfit(self, value: object) -> str | None:
        """Return why a value does not fit, as `must be of type integer`, or None if it does."""
        match self.type, value:
            case ("string", str()) | ("boolean", bool()):
                return None
            case "enum", str():
                return None if value in self.values else f"must be one of {', '.join(self.values)}"
            case ("integer" | "number", int()) if not isinstance(value, bool):
                return None if abs(value) <= MAX_INTEGER else "is beyond 2^53-1"
            case "number", float() if value - value == 0:  # neither infinite nor NaN
                return None
        return f"must be of type {self.type}"


@value(kw_only=True)
class WorkflowVerbFields:
    """A verb performed by a process.

    `errors` are the codes each sub-verb may end with. A sub-verb that is not in it may end with any code.
    `outcome_flag` is the enum flag whose last value names how a case ended.
    """

    name: str
    version: int
    process: str
    origin: Origin
    schema: str = ""
    sentences: Sentences | None = None
    args: Mapping[str, Argument] = field(default_factory=dict)
    wait: str = "fire-and-track"
    business_key: str | None = None
    correlation: Mapping[str, str] = field(default_factory=dict)
    budget: int = DEFAULT_BUDGET
    integrity: str = "plain"
    initial: Mapping[str, str] = field(default_factory=dict)
    outcome: Mapping[str, str] = field(default_factory=dict)
    outcome_flag: str | None = None
    sub_verbs: tuple[str, ...] = ()
    flags: Mapping[str, Flag] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    policy: str | None = None
    policies: Mapping[str, str] = field(default_factory=dict)
    compensation: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str | None = None
    owner: str | None = None

    def policy_of(self, sub_verb: str) -> str:
        """Return the name of the policy of a sub-verb, or an empty string if none is declared."""
        return self.policies.get(sub_verb, self.policy or "")


@value(kw_only=True)
class DirectVerb:
    """A verb performed by a function; `writes` are the payload fields it may change.

    `writes` is None if the contract does not declare them: such a verb may change anything.
    """

    name: str
    origin: Origin
    version: int = 1
    writes: tuple[str, ...] | None = None
    sentences: Sentences | None = None
    args: Mapping[str, Argument] = field(default_factory=dict)
    mode: str | None = None
    on_unknown: str | None = None
    policy: str | None = None


@value(kw_only=True)
class RetryFields:
    """How often a sub-verb is tried, and how the delays grow."""

    maximum_attempts: int
    initial_interval_seconds: float
    maximum_interval_seconds: float
    backoff_coefficient: float
    non_retryable_error_types: tuple[str, ...] = ()


@value(kw_only=True)
class PolicyFields:
    """The limits that a sub-verb runs under."""

    name: str
    schedule_to_close_timeout_seconds: float
    start_to_close_timeout_seconds: float
    retry: RetryFields
    origin: Origin

    @property
    def attempts(self) -> int:
        """How often a sub-verb is tried; the engine calls this number retries."""
        return self.retry.maximum_attempts


@value
class Contracts:
    """Every contract of a project. Empty contracts mean that the linter was given no verbs."""

    workflows: Mapping[str, WorkflowVerbFields] = field(default_factory=dict)
    directs: Mapping[str, DirectVerb] = field(default_factory=dict)
    policies: Mapping[str, PolicyFields] = field(default_factory=dict)

    def of_process(self, process: str) -> WorkflowVerbFields | None:
        """Return the workflow verb of a process, by process id."""
        return next((verb for verb in self.workflows.values() if verb.process == process), None)
