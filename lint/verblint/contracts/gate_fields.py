"""The fields of a gate: who decides, what is shown, how decisions are offered, and what is filled in with one."""

from collections.abc import Iterator, Mapping
from typing import Any

from verblint.contracts import syntax
from verblint.contracts.contract import (
    FACT_FORMATS,
    INPUT_TYPES,
    MAX_INTEGER,
    TONES,
    Choice,
    Gate,
    GateFact,
    GateInput,
    Steps,
)
from verblint.contracts.field_shapes import (
    boolean,
    choice,
    either,
    items,
    mapping,
    nullable,
    number,
    one_or_items,
    record,
    text,
)
from verblint.names import READER, nearest

Problem = tuple[Steps, str]

MAX_INPUTS = 20
"""Fields of one decision: more is a form of its own, and work for a verb."""

MAX_COMMENT = 4000
"""Characters of a comment: a page of text."""

_FACT = record(
    GateFact,
    {"field": text(syntax.DATA_FIELD), "label": text(syntax.LABEL)},
    {"format": choice(*FACT_FORMATS), "currency": nullable(text(syntax.CURRENCY))},
)
_CHOICE = record(
    Choice,
    {"name": text(syntax.PLAIN_TEXT)},
    {"label": text(syntax.LABEL), "tone": choice(*TONES), "confirm": text()},
)
_LIMIT = number(-MAX_INTEGER, MAX_INTEGER)
_INPUT = record(
    dict,
    {"type": choice(*INPUT_TYPES)},
    {
        "label": text(syntax.LABEL),
        "required": boolean,
        "values": items(text(syntax.LABEL)),
        "minimum": _LIMIT,
        "maximum": _LIMIT,
        "max_length": number(1, MAX_COMMENT, whole=True),
        "currency": nullable(text(syntax.CURRENCY)),
        "only_for": items(text(syntax.PLAIN_TEXT)),
    },
)
GATE = record(
    dict,
    {},
    {
        "task": nullable(text(syntax.ELEMENT_ID)),
        "decisions": items(either(text(syntax.PLAIN_TEXT), _CHOICE)),
        "audience": nullable(one_or_items(text(syntax.ROLE))),
        "four_eyes": boolean,
        "distinct_from": items(text(syntax.ELEMENT_ID)),
        "show": items(_FACT),
        "inputs": mapping(syntax.ARGUMENT_NAME, _INPUT),
    },
)
# Which fields of an input belong to one type only.
_OF_TYPE = {
    "values": "choice",
    "minimum": "amount",
    "maximum": "amount",
    "max_length": "comment",
    "currency": "amount",
}


def make_gate(
    name: str,
    *,
    task: str | None = None,
    decisions: tuple[str | Choice, ...] = (),
    inputs: Mapping[str, dict[str, Any]] | None = None,
    **others: Any,
) -> Gate:
    """Return a gate of its fields; a decision is a name, or a name with its look."""
    return Gate(
        name,
        task or name,
        tuple(one.name if isinstance(one, Choice) else one for one in decisions),
        choices=tuple(one for one in decisions if isinstance(one, Choice)),
        inputs={key: GateInput(key, **fields) for key, fields in (inputs or {}).items()},
        **others,
    )


def gate_problems(gates: Mapping[str, Gate]) -> Iterator[Problem]:
    """Yield where the parts of gates contradict each other."""
    for name, gate in gates.items():
        for index, other in enumerate(gate.distinct_from):
            if other not in gates:
                near = nearest(other, gates)
                yield (
                    ("gates", name, "distinct_from", index),
                    f"{other} is not declared in gates{f'; did you mean {near}?' if near else ''}",
                )
        if READER in gate.roles:
            yield ("gates", name, "audience"), f"the role {READER} may only look; name the role that decides"
        for index, decision in enumerate(gate.decisions):
            # Two texts that are the same were found while the list was read.
            if decision in gate.decisions[:index] and any(one.name == decision for one in gate.choices):
                yield ("gates", name, "decisions", index), f"{decision} is listed twice"
        if len(gate.inputs) > MAX_INPUTS:
            yield ("gates", name, "inputs"), f"a decision has at most {MAX_INPUTS} inputs"
        yield from _fact_problems(name, gate)
        for field in gate.inputs.values():
            yield from (
                (("gates", name, "inputs", field.name, *steps), words) for steps, words in _problems(field, gate)
            )


def _fact_problems(name: str, gate: Gate) -> Iterator[Problem]:
    known: set[str] = set()
    for index, fact in enumerate(gate.show):
        if fact.field in known:
            yield ("gates", name, "show", index), f"{fact.field} is listed twice"
        known.add(fact.field)
        if fact.currency is not None and fact.format != "money":
            yield ("gates", name, "show", index, "currency"), "only the format money has a currency"


def _problems(field: GateInput, gate: Gate) -> Iterator[Problem]:
    for name, kind in _OF_TYPE.items():
        if getattr(field, name) not in (None, ()) and field.type != kind:
            yield (name,), f"only the type {kind} has {name}"
    if field.type == "choice" and not field.values:
        yield (), "a choice has values"
    if field.minimum is not None and field.maximum is not None and field.minimum > field.maximum:
        yield ("maximum",), "must not be less than minimum"
    for index, decision in enumerate(field.only_for):
        if decision not in gate.decisions:
            near = nearest(decision, gate.decisions)
            hint = f"; did you mean {near}?" if near else ""
            yield ("only_for", index), f"{decision} is not one of the decisions{hint}"
