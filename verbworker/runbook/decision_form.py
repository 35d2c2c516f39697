"""The form of a decision: who makes it, how each is offered, what is filled in, and whether that fits.

Every way to decide checks here: the console, commands, the API, the client and the engine's task list.
"""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from verblint.contracts.contract import Choice, Gate, GateInput
from verblint.contracts.gate_fields import MAX_COMMENT, MAX_INPUTS
from verblint.names import nearest
from verblint.startup.value import fields
from verbworker.contract.text import require_text, tell_name
from verbworker.errors import InvocationInvalid

# Eighteen digits before the point hold every sum of money, and six after it every currency's.
_AMOUNT = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,6})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


def form_of(gate: Gate) -> dict[str, object]:
    """Return the form of a gate as it is stored with the gate, without what is as usual."""
    form: dict[str, object] = {}
    if gate.choices:
        form["choices"] = [_as_row(choice) for choice in gate.choices]
    if gate.inputs:
        form["inputs"] = [_as_row(one) for one in gate.inputs.values()]
    return form


def audience_of(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the roles that may decide at a gate, by its detail; empty means any."""
    roles = detail.get("audience") or ()
    return (roles,) if isinstance(roles, str) else tuple(roles)


def choices_of(detail: Mapping[str, Any]) -> list[Choice]:
    """Return how the decisions of a gate are offered, in their order."""
    looks = {row["name"]: Choice(**row) for row in detail.get("choices", ())}
    return [looks.get(name) or Choice(name) for name in detail.get("decisions", ())]


def inputs_of(detail: Mapping[str, Any]) -> dict[str, GateInput]:
    """Return what is filled in with a decision, by name."""
    found = (GateInput(**{**row, **_tuples(row)}) for row in detail.get("inputs", ()))
    return {one.name: one for one in found}


def read_inputs(detail: Mapping[str, Any], decision: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return what a person filled in as it is stored; raises `InvocationInvalid` with one sentence if it does not fit.

    An empty text counts as not filled in.
    """
    declared = inputs_of(detail)
    if len(given) > MAX_INPUTS:
        raise InvocationInvalid(f"more than {MAX_INPUTS} inputs are given")
    filled = {name: value for name, value in given.items() if value is not None and value != ""}
    for name in filled:
        if name not in declared:
            near = nearest(name, sorted(declared))
            raise InvocationInvalid(
                f"there is no input {tell_name(name)!a}{f' (did you mean {near}?)' if near else ''}"
            )
        if declared[name].only_for and decision not in declared[name].only_for:
            raise InvocationInvalid(f"the input {name} is for {' or '.join(declared[name].only_for)} only")
    for name, one in declared.items():
        if one.required and name not in filled and (not one.only_for or decision in one.only_for):
            raise InvocationInvalid(f"the input {name} is missing")
    return {name: _read(one, filled[name]) for name, one in declared.items() if name in filled}


def _read(declared: GateInput, value: object) -> object:
    match declared.type, value:
        case "amount", (int() | float() | str()) if not isinstance(value, bool):
            return _amount(declared, str(value).strip())
        case "comment", str():
            require_text(f"the input {declared.name}", value, declared.max_length or MAX_COMMENT)
            return value
        case "date", str() if (day := _day(value.strip())) is not None:
            return day.isoformat()
        case "choice", str() if value in declared.values:
            return value
        case "yes/no", bool():
            return value
        case "yes/no", str() if value.strip().lower() in _YES_NO:
            return _YES_NO[value.strip().lower()]
    raise InvocationInvalid(f"the input {declared.name} must be {_describe(declared)}")


def _amount(declared: GateInput, text: str) -> str:
    if _AMOUNT.fullmatch(text) is None:
        raise InvocationInvalid(f"the input {declared.name} must be {_describe(declared)}")
    if declared.minimum is not None and Decimal(text) < Decimal(str(declared.minimum)):
        raise InvocationInvalid(f"the input {declared.name} must be at least {declared.minimum}")
    if declared.maximum is not None and Decimal(text) > Decimal(str(declared.maximum)):
        raise InvocationInvalid(f"the input {declared.name} must be at most {declared.maximum}")
    return text


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _describe(declared: GateInput) -> str:
    match declared.type:
        case "amount":
            return "an amount, like 1250.00"
        case "date":
            return "a date, like 2030-01-31"
        case "choice":
            return f"one of {', '.join(declared.values)}"
        case "yes/no":
            return "yes or no"
        case _:
            return "a text"


def _as_row(one: Choice | GateInput) -> dict[str, object]:
    values = {name: getattr(one, name) for name in fields(type(one))}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, (), False)
    }


def _tuples(row: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(row[name]) for name in ("values", "only_for") if name in row}
