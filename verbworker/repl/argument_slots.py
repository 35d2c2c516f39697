"""Which arguments are still missing, and how an answer becomes a value."""

import json
from collections.abc import Mapping

from verbworker.contract.invocation import Value, parse
from verbworker.errors import InvocationInvalid
from verbworker.repl.shapes import ArgumentSlot, VerbShape

CANCEL = "cancel"
_YES = ("true", "yes", "y")
_NO = ("false", "no", "n")


def open_slots(shape: VerbShape, args: Mapping[str, object]) -> list[tuple[ArgumentSlot, str | None]]:
    """Return the arguments to ask for: missing required ones, and invalid ones with the reason."""
    given = {name.replace("_", "-"): value for name, value in args.items()}
    found: list[tuple[ArgumentSlot, str | None]] = []
    for slot in shape.slots:
        if slot.name not in given:
            if slot.is_required:
                found.append((slot, None))
        elif (misfit := slot.misfit(given[slot.name])) is not None:
            found.append((slot, f"{slot.name} {misfit}"))
    return found


def fill(args: Mapping[str, Value], slot: ArgumentSlot, value: Value) -> dict[str, Value]:
    """Return the arguments with one of them answered."""
    others = {name: given for name, given in args.items() if name.replace("_", "-") != slot.name}
    return {**others, slot.name: value}


def read_answer(slot: ArgumentSlot, text: str) -> Value:
    """Parse an answer; raises `InvocationInvalid` with one sentence on what would fit."""
    value = _value(slot, text.strip())
    if (misfit := slot.misfit(value)) is not None:
        raise InvocationInvalid(f"{slot.name} {misfit}")
    return value


def _value(slot: ArgumentSlot, text: str) -> Value:
    if not text:
        raise InvocationInvalid(f"{slot.name} is required; type {CANCEL} to leave")
    match slot.kind:
        case "string":
            return _unquote(text)
        case "boolean":
            return _yes_or_no(slot, text)
        case "enum":
            return _choice(slot, _unquote(text))
        case "integer":
            return _number(slot, text, "a whole number, like 12")
        case "number":
            return _number(slot, text, "a number, like 12 or 0.5")
        case _:
            return _parse_value(text)


def _yes_or_no(slot: ArgumentSlot, text: str) -> bool:
    word = text.lower()
    if word not in (*_YES, *_NO):
        raise InvocationInvalid(f"{slot.name} must be yes or no")
    return word in _YES


def _choice(slot: ArgumentSlot, text: str) -> str:
    near = [value for value in slot.values if value.lower() == text.lower()]
    if text in slot.values or len(near) != 1:
        return text
    return near[0]


def _number(slot: ArgumentSlot, text: str, wanted: str) -> Value:
    value = _parse_value(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvocationInvalid(f"{slot.name} must be {wanted}")
    return value


def _parse_value(text: str) -> Value:
    """Parse the value as it would be read inside an invocation."""
    try:
        args = parse(f"(a.b :value {text})").args
    except InvocationInvalid:
        return text
    return args["value"] if len(args) == 1 else text


def _unquote(text: str) -> str:
    """Remove enclosing quotation marks, which allow any text to be written; other text is unchanged."""
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        return text
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text
    return value if isinstance(value, str) else text
