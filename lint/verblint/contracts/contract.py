"""Verb contracts as the linter sees them: only what verbs promise about their processes."""

from collections.abc import Mapping
from enum import StrEnum

from verblint.startup.value import field, value

FlagValue = bool | int | str


class FlagType(StrEnum):
    """The four types a flag may have."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"
    ENUM = "enum"


@value
class Origin:
    """The place where a contract is written."""

    file: str
    line: int = 1
    column: int = 1


@value
class FlagField:
    """One `orch_*` flag: its type, the values of an enum, and its initial value."""

    name: str
    type: FlagType
    values: tuple[str, ...]
    initial: FlagValue
    origin: Origin


@value
class GateField:
    """A human gate: its user task and the possible decisions."""

    name: str
    task: str
    decisions: tuple[str, ...]
    origin: Origin


@value(kw_only=True)
class WorkflowVerbFields:
    """A verb performed by a process.

    `errors` are the codes each sub-verb may end with. A sub-verb that is not in it may end with any code.
    """

    name: str
    version: int
    process: str
    origin: Origin
    sub_verbs: tuple[str, ...] = ()
    flags: Mapping[str, FlagField] = field(default_factory=dict)
    policy: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)
    compensation: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    correlation: tuple[str, ...] = ()
    messages: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, GateField] = field(default_factory=dict)

    def policy_of(self, sub_verb: str) -> str:
        """Return the name of the policy of a sub-verb, or an empty string if none is declared."""
        return self.policies.get(sub_verb, self.policy)


@value
class DirectVerb:
    """A verb performed by a function; `writes` are the payload fields it may change.

    `writes` is None if the contract does not declare them: such a verb may change anything.
    """

    name: str
    version: int
    writes: tuple[str, ...] | None
    origin: Origin


@value
class PolicyFields:
    """How often a sub-verb is tried; the engine calls this number retries."""

    name: str
    attempts: int
    origin: Origin


@value
class Contracts:
    """Every contract of a project. Empty contracts mean that the linter was given no verbs."""

    workflows: Mapping[str, WorkflowVerbFields] = field(default_factory=dict)
    directs: Mapping[str, DirectVerb] = field(default_factory=dict)
    policies: Mapping[str, PolicyFields] = field(default_factory=dict)

    def of_process(self, process: str) -> WorkflowVerbFields | None:
        """Return the workflow verb of a process, by process id."""
        return next((verb for verb in self.workflows.values() if verb.process == process), None)
