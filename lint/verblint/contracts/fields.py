"""The fields of verb contracts and of policies, and what must hold between the fields of one verb.

A complete workflow verb:

    verb: kyc.open-case                  # domain.verb
    version: 1
    strategy: workflow                   # default: direct
    sentences: {step: ..., summary: ..., clarify: ...}
    args:                                # what the caller passes
      entity: {type: string, required: true}
    process: kyc-open-case               # the id of the BPMN process
    wait: fire-and-track                 # or blocking
    correlation:
      business_key: "${state.entity_ref}"
      keys: {corr_documents: "${state.case_id}"}   # written once, read by subscriptions only
    payload:
      schema: kyc.open-case/v1
      budget: 65536                      # bytes
      initial: {entity_ref: args.entity}
      outcome: {decision: data.review_decision}
    sub_verbs: [kyc.request-documents]   # direct verbs only
    flags:
      orch_review_outcome: {type: enum, values: [pending, approved, rejected], initial: pending}
    outcome: orch_review_outcome         # the flag whose last value names how the case ended
    messages: {documents-received: corr_documents}   # message name: its correlation key
    gates:
      review:
        task: Review                     # the id of the user task
        decisions: [{name: approve, label: Approve, tone: positive, confirm: "Approve for good?"}, reject]
        inputs: {limit: {type: amount, currency: EUR, only_for: [approve]}}   # filled in with a decision
        audience: reviewer
        show: [{field: entity_ref, label: Customer}]       # the facts that the task's page shows first
    policy: standard                     # of every sub-verb ...
    policies: {kyc.request-documents: patient}       # ... except these
    compensation: {kyc.request-documents: kyc.withdraw-request}   # step: what undoes it
    errors: {kyc.request-documents: [CASE_CLOSED]}   # step: the error codes it may end with

A direct verb has `verb`, `version`, `sentences`, `args`, `mode` and `writes`: the payload fields it may change.
A complete policy:

    name: standard
    schedule_to_close_timeout_seconds: 3600    # from the first try to the last
    start_to_close_timeout_seconds: 30         # one try
    retry:
      maximum_attempts: 3
      initial_interval_seconds: 1
      maximum_interval_seconds: 60
      backoff_coefficient: 2.0
      non_retryable_error_types: [EntityUnknown]
"""

from collections.abc import Callable, Iterator, Mapping
from re import findall
from typing import Any

from verblint.contracts import syntax
from verblint.contracts.contract import (
    MAX_BUDGET,
    Argument,
    DirectVerb,
    Flag,
    FlagType,
    Origin,
    PolicyFields,
    RetryFields,
    Sentences,
    WorkflowVerbFields,
)
from verblint.contracts.field_shapes import (
    Part,
    Shape,
    anything,
    boolean,
    choice,
    items,
    mapping,
    nullable,
    number,
    one,
    record,
    text,
)
from verblint.contracts.gate_fields import GATE, Problem, gate_problems, make_gate
from verblint.names import OWN_JOBS

MAX_ATTEMPTS = 1_000_000  # practically unlimited, and within the 32 bits of an engine's retries
MAX_COEFFICIENT = 1_000  # more is a typing error: the third pause would be a million times the first
TEN_YEARS = 10 * 366 * 86_400
"""The most seconds of a timeout or an interval."""

_MIN_BUDGET = 1024  # bytes; the envelope around the data needs a few hundred
_MAX_VERSION = 999_999_999  # a schema's name has room for nine digits

_ARGUMENT = record(
    Argument,
    {"type": choice("string", "integer", "number", "boolean", "enum")},
    {"required": boolean, "values": items(text()), "default": anything, "summary": nullable(text())},
)
_SENTENCES = record(
    Sentences, {"step": text()}, {"summary": nullable(text()), "clarify": mapping(syntax.ARGUMENT_NAME, text())}
)
_FLAG = record(
    dict,
    {"type": choice(*FlagType), "initial": anything},
    {"values": items(text(syntax.PLAIN_TEXT)), "summary": nullable(text())},
)
_CORRELATION = record(
    dict,
    {},
    {
        "business_key": nullable(text(syntax.KEY_TEMPLATE)),
        "keys": mapping(syntax.KEY_NAME, text(syntax.KEY_TEMPLATE)),
    },
)
_PAYLOAD = record(
    dict,
    {},
    {
        "schema": nullable(text(syntax.SCHEMA_NAME)),
        "budget": number(_MIN_BUDGET, MAX_BUDGET, whole=True),
        "integrity": choice("plain", "signed"),
        "initial": mapping(syntax.DATA_FIELD, text(syntax.FROM_ARGUMENT)),
        "outcome": mapping(syntax.DATA_FIELD, text(syntax.FROM_DATA)),
    },
)
_VERB = text(syntax.VERB_NAME)
_VERSION = number(1, _MAX_VERSION, whole=True)
_OF_EVERY_VERB: Mapping[str, Shape] = {
    "sentences": nullable(_SENTENCES),
    "args": mapping(syntax.ARGUMENT_NAME, _ARGUMENT),
    "summary": nullable(text()),
    "owner": nullable(text()),
    "policy": nullable(text(syntax.POLICY_NAME)),
}
WORKFLOW = record(
    dict,
    {"verb": _VERB, "version": _VERSION, "strategy": choice("workflow"), "process": text(syntax.ELEMENT_ID)},
    {
        **_OF_EVERY_VERB,
        "wait": choice("fire-and-track", "blocking"),
        "correlation": _CORRELATION,
        "payload": _PAYLOAD,
        "sub_verbs": items(_VERB),
        "flags": mapping(syntax.FLAG_NAME, _FLAG),
        "outcome": nullable(text(syntax.FLAG_NAME)),
        "messages": mapping(syntax.TEXT, text(syntax.KEY_NAME)),
        "gates": mapping(syntax.ELEMENT_ID, GATE),
        "policies": mapping(syntax.VERB_NAME, text(syntax.POLICY_NAME)),
        "compensation": mapping(syntax.VERB_NAME, _VERB),
        "errors": mapping(syntax.VERB_NAME, items(text(syntax.ERROR_CODE))),
    },
)
# The function of a direct verb defines how it works; the contract describes it.
DIRECT = record(
    dict,
    {"verb": _VERB},
    {
        **_OF_EVERY_VERB,
        "version": _VERSION,
        "strategy": choice("direct"),
        "mode": nullable(choice("transactional", "external")),
        "writes": nullable(items(text(syntax.DATA_FIELD))),
        "on_unknown": nullable(choice("rerun", "probe", "hold")),
        "idempotency_window": anything,
        "payload": anything,
        "flags": anything,
    },
)
_KEPT = ("version", "writes", "sentences", "args", "mode", "on_unknown", "policy")


def read_verb(part: Part) -> WorkflowVerbFields | DirectVerb | None:
    """Return the verb that a part declares, or None if a field is wrong."""
    strategy = part.value.get("strategy", "direct") if isinstance(part.value, dict) else "direct"
    if strategy not in ("direct", "workflow"):
        # Without a strategy it is not known which fields there may be.
        part.fault("must be direct or workflow", "strategy")
        return None
    given = (WORKFLOW if strategy == "workflow" else DIRECT)(part)
    if given is None:
        return None
    verb = _make_workflow(given, part.origin) if strategy == "workflow" else _make_direct(given, part.origin)
    for steps, message in _problems(verb):
        part.fault(message, *steps)
    return verb


def policy_file(add: Callable[[PolicyFields], None], *, is_exact: bool) -> Shape:
    """Return the shape of a policy file; every policy in it that has no fault is added.

    With `is_exact`, seconds must be whole numbers and the list of error types must be present, even if it is empty.
    """
    seconds = number(0, TEN_YEARS, above=True, whole=is_exact)
    errors = {"non_retryable_error_types": items(text(syntax.ERROR_TYPE))}
    numbers = {
        "maximum_attempts": number(1, MAX_ATTEMPTS, whole=True),
        "initial_interval_seconds": seconds,
        "maximum_interval_seconds": seconds,
        "backoff_coefficient": number(1, MAX_COEFFICIENT),
    }
    retry = record(RetryFields, {**numbers, **errors} if is_exact else numbers, {} if is_exact else errors)
    timeouts = dict.fromkeys(("schedule_to_close_timeout_seconds", "start_to_close_timeout_seconds"), seconds)
    policy = record(dict, {"name": text(syntax.POLICY_NAME), **timeouts, "retry": retry}, {})

    def read(part: Part) -> None:
        given = policy(part)
        if given is None:
            return
        found = PolicyFields(origin=part.origin, **given)
        if found.retry.maximum_interval_seconds < found.retry.initial_interval_seconds:
            part.fault("must not be less than initial_interval_seconds", "retry", "maximum_interval_seconds")
        add(found)

    return record(dict, {"version": one(), "policies": items(Shape(read, policy.schema))}, {})


def _make_workflow(given: dict[str, Any], origin: Origin) -> WorkflowVerbFields:
    name, _ = given.pop("verb"), given.pop("strategy")
    correlation, payload = given.pop("correlation", {}), given.pop("payload", {})
    flags, gates = given.pop("flags", {}), given.pop("gates", {})
    return WorkflowVerbFields(
        name=name,
        origin=origin,
        schema=payload.pop("schema", None) or f"{name}/v{given['version']}",
        outcome_flag=given.pop("outcome", None),
        business_key=correlation.get("business_key"),
        correlation=correlation.get("keys", {}),
        flags={flag: _make_flag(flag, **fields) for flag, fields in flags.items()},
        gates={gate: make_gate(gate, **fields) for gate, fields in gates.items()},
        **payload,
        **given,
    )


def _make_flag(name: str, *, type: str, initial: Any, values: tuple[str, ...] = (), summary: str | None = None) -> Flag:
    return Flag(name, FlagType(type), initial, values)


def _make_direct(given: dict[str, Any], origin: Origin) -> DirectVerb:
    return DirectVerb(name=given["verb"], origin=origin, **{name: given[name] for name in _KEPT if name in given})


def _problems(verb: WorkflowVerbFields | DirectVerb) -> Iterator[Problem]:
    """Yield where the parts of one contract contradict each other."""
    if verb.name.startswith(OWN_JOBS):
        yield ("verb",), f"{verb.name} is reserved: the runtime's own job types begin with {OWN_JOBS}"
    yield from _argument_problems(verb.args)
    if verb.sentences is not None:
        yield from _sentence_problems(verb.sentences, verb.args)
    if isinstance(verb, DirectVerb):
        return
    for flag in verb.flags.values():
        if (problem := flag.find_problem()) is not None:
            yield ("flags", flag.name, problem[0]), problem[1]
    if verb.outcome_flag is not None and verb.outcome_flag not in verb.flags:
        yield ("outcome",), f"{verb.outcome_flag} is not declared in flags"
    elif verb.outcome_flag is not None and verb.flags[verb.outcome_flag].type is not FlagType.ENUM:
        yield ("outcome",), f"{verb.outcome_flag} is not an enum: its values name the outcomes"
    for where, steps in (("policies", verb.policies), ("compensation", verb.compensation), ("errors", verb.errors)):
        yield from (((where, step), f"{step} is not in sub_verbs") for step in steps if step not in verb.sub_verbs)
    for message, key in verb.messages.items():
        if key not in verb.correlation:
            yield ("messages", message), f"{key} is not declared in correlation.keys"
    yield from gate_problems(verb.gates)
    for target, source in verb.initial.items():
        if source.removeprefix("args.") not in verb.args:
            yield ("payload", "initial", target), f"{source} is not declared in args"
    for where, targets in (("initial", verb.initial), ("outcome", verb.outcome)):
        for target in targets:
            if any(other.startswith(f"{target}.") for other in targets):
                yield ("payload", where, target), f"{target} is both a value and an object with fields"


def _argument_problems(args: Mapping[str, Argument]) -> Iterator[Problem]:
    for name, argument in args.items():
        if (argument.type == "enum") != bool(argument.values):
            yield ("args", name), "an enum, and only an enum, has values"
        elif argument.default is not None and (misfit := argument.find_misfit(argument.default)) is not None:
            yield ("args", name, "default"), misfit
        if argument.required and argument.default is not None:
            yield ("args", name, "default"), "a required argument has no default"


def _sentence_problems(sentences: Sentences, args: Mapping[str, Argument]) -> Iterator[Problem]:
    for part, sentence in (("step", sentences.step), ("summary", sentences.summary or "")):
        for name in findall(syntax.SENTENCE_PLACE, sentence):
            if name not in args:
                yield ("sentences", part), f"{{{name}}} is not declared in args"
    for name in sentences.clarify:
        if name not in args:
            yield ("sentences", "clarify", name), f"{name} is not declared in args"
