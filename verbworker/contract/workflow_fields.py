"""The fields of a verb contract, `verbs/<domain>/<verb>.yaml`, and the syntax of each."""

from typing import Annotated, Any, Literal

from pydantic import Field

from verbworker.contract.contract_file import ContractText, Like
from verbworker.contract.policy import PolicyName
from verbworker.contract.verb import ERROR_CODE, MOST_CODE
from verbworker.payload.envelope import DEFAULT_BUDGET, HARD_LIMIT

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_VERB = rf"{_WORD}(?:\.{_WORD})+"
_ARGUMENT = r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*"

VerbName = Annotated[str, Like(_VERB, "a verb's name, like kyc.open-case")]
FlagName = Annotated[str, Like(r"orch_[a-z0-9]+(?:_[a-z0-9]+)*", "a flag's name, like orch_docs_received")]
KeyName = Annotated[str, Like(r"corr_[a-z0-9]+(?:_[a-z0-9]+)*", "a correlation key's name, like corr_documents")]
ArgumentName = Annotated[str, Like(_ARGUMENT, "an argument's name, like case-type")]
ElementId = Annotated[str, Like(r"[A-Za-z_][A-Za-z0-9_.-]*", "an element id of BPMN")]
SchemaName = Annotated[str, Like(rf"{_VERB}/v[1-9][0-9]{{0,8}}", "a schema with its version, like kyc.open-case/v1")]
DataField = Annotated[str, Like(rf"{_NAME}(?:\.{_NAME})*", "a payload field, like entity_ref")]
FromArgument = Annotated[str, Like(rf"args\.{_ARGUMENT}", "an argument, like args.entity")]
FromData = Annotated[str, Like(rf"data(?:\.{_NAME})+", "a field of the data, like data.review_decision")]
Template = Annotated[
    str, Like(rf"(?:[^$]|\$\{{(?:state|args)(?:\.{_NAME})+\}}){{1,200}}", "a text with places like ${state.entity_ref}")
]
# What a gateway's condition can contain between its quotes.
Plain = Annotated[str, Like(r"[ !#-\[\]-~]{1,200}", "plain ASCII without quotes and backslashes")]
ErrorCode = Annotated[str, Like(ERROR_CODE, f"an error code: 1 to {MOST_CODE} printable ASCII characters")]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Sentences(ContractText):
    """Texts for people: the step itself, its summary, and the question for a missing argument."""

    step: Text
    summary: Text | None = None
    clarify: dict[ArgumentName, Text] = Field(default_factory=dict)


class Argument(ContractText):
    """One argument of the caller."""

    type: Literal["string", "integer", "number", "boolean", "enum"]
    required: bool = False
    values: tuple[Text, ...] = ()
    default: Any = None
    summary: Text | None = None


class CorrelationFields(ContractText):
    """How an instance is found: a business key, and the keys in its messages."""

    business_key: Template | None = None
    keys: dict[KeyName, Template] = Field(default_factory=dict)


class Payload(ContractText):
    """The payload of the process: its schema, budget in bytes, integrity, and mappings in and out."""

    schema_name: SchemaName | None = Field(default=None, alias="schema")
    budget: int = Field(default=DEFAULT_BUDGET, ge=1024, le=HARD_LIMIT)
    integrity: Literal["plain", "signed"] = "plain"
    initial: dict[DataField, FromArgument] = Field(default_factory=dict)
    outcome: dict[DataField, FromData] = Field(default_factory=dict)


class WrittenFlag(ContractText):
    """One flag: its type, initial value, and the values of an enum."""

    type: Literal["boolean", "integer", "string", "enum"]
    initial: Any
    values: tuple[Plain, ...] = ()
    summary: Text | None = None


class WrittenGate(ContractText):
    """A human gate: its user task, the decisions it accepts, and its audience."""

    task: ElementId | None = None
    decisions: tuple[Plain, ...] = ()
    audience: Text | None = None


class _Contract(ContractText):
    """Fields of every verb."""

    verb: VerbName
    sentences: Sentences | None = None
    args: dict[ArgumentName, Argument] = Field(default_factory=dict)
    summary: Text | None = None
    owner: Text | None = None


class WorkflowContract(_Contract):
    """A workflow verb: performed by a process."""

    version: int = Field(ge=1, le=999_999_999)
    strategy: Literal["workflow"]
    process: ElementId
    wait: Literal["fire-and-track", "blocking"] = "fire-and-track"
    correlation: CorrelationFields = CorrelationFields()
    payload: Payload = Payload()
    sub_verbs: tuple[VerbName, ...] = ()
    flags: dict[FlagName, WrittenFlag] = Field(default_factory=dict)
    messages: dict[Text, KeyName] = Field(default_factory=dict)
    gates: dict[ElementId, WrittenGate] = Field(default_factory=dict)
    policy: PolicyName | None = None
    policies: dict[VerbName, PolicyName] = Field(default_factory=dict)
    compensation: dict[VerbName, VerbName] = Field(default_factory=dict)
    errors: dict[VerbName, tuple[ErrorCode, ...]] = Field(default_factory=dict)


class DirectContract(_Contract):
    """A direct verb: performed by a function. The code defines how it works; this describes it to the linter."""

    version: int = Field(default=1, ge=1, le=999_999_999)
    strategy: Literal["direct"] = "direct"
    mode: Literal["transactional", "external"] | None = None
    writes: tuple[DataField, ...] | None = None
    on_unknown: Literal["rerun", "probe", "hold"] | None = None
    idempotency_window: Any = None
    policy: PolicyName | None = None
    payload: Any = None
    flags: Any = None
