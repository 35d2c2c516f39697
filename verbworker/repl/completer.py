"""Completion: what may follow the words before the cursor, with a short description of each."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from verbworker.repl.lines import split
from verbworker.repl.shapes import ArgumentSlot, Shapes, VerbShape

_BARE = re.compile(r'[^\s()":]+')
_READ_OTHERWISE = re.compile(r"true|false|null|-?[0-9].*")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that may replace the last letters before the cursor."""

    text: str
    replaces: int
    meta: str = ""


@dataclass(frozen=True, slots=True)
class SessionNames:
    """What the session knows so far: its orders, the numbers it gave, and the decisions of each gate."""

    orders: Mapping[str, str]
    numbers: Sequence[str] = ()
    gates: Mapping[str, Sequence[str]] = field(default_factory=dict)


def suggest(text: str, shapes: Shapes, known: SessionNames) -> list[Suggestion]:
    """Suggest what may follow; nothing where any text may."""
    words, begun = split(text)
    following = ((_as_begun(word, begun), meta) for word, meta in _find_next(words, shapes, known))
    return [Suggestion(word, len(begun), meta) for word, meta in following if word.startswith(begun)]


def suggest_answer(text: str, slot: ArgumentSlot) -> list[Suggestion]:
    """Suggest answers to the question for one argument."""
    begun = text.lstrip()
    values = ("yes", "no") if slot.kind == "boolean" else slot.values
    return [Suggestion(value, len(begun)) for value in values if value.lower().startswith(begun.lower())]


def shape_at(text: str, shapes: Shapes) -> VerbShape | None:
    """Return the verb whose arguments are being written."""
    words, begun = split(text)
    named = [word for word in (*words, begun) if word != "("][:1]
    return shapes.get(named[0]) if named else None


def _find_next(words: Sequence[str], shapes: Shapes, known: SessionNames) -> Iterator[tuple[str, str]]:
    match words:
        case []:
            yield from known.orders.items()
            yield from _verbs(shapes)
        case ["("] | ["verbs"]:
            yield from _verbs(shapes)
        case ["(", verb, *given] | [verb, *given] if verb in shapes:
            yield from _arguments(shapes[verb], given)
        case ["runbook" | "events"]:
            yield from ((number, "") for number in known.numbers)
        case ["decide"]:
            yield from ((where, " | ".join(takes) or "any word") for where, takes in known.gates.items())
        case ["decide", where]:
            yield from ((decision, "") for decision in known.gates.get(where, ()))


def _as_begun(word: str, begun: str) -> str:
    """Quote the word if the user started with a quotation mark."""
    return json.dumps(word, ensure_ascii=False) if begun.startswith('"') and not word.startswith('"') else word


def _verbs(shapes: Shapes) -> Iterator[tuple[str, str]]:
    return ((shape.name, shape.summary) for shape in shapes.values())


def _arguments(shape: VerbShape, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    if given and given[-1].startswith(":"):
        slot = shape.slot(given[-1][1:])
        if slot is not None:
            yield from ((value, "") for value in _values(slot))
        return
    if ")" in given:
        return
    for slot in sorted(shape.slots, key=lambda slot: not slot.is_required):
        if f":{slot.name}" not in given:
            yield f":{slot.name}", slot.hint


def _values(slot: ArgumentSlot) -> Iterator[str]:
    if slot.kind == "boolean":
        yield from ("true", "false")
    for value in slot.values:
        is_bare = _BARE.fullmatch(value) and not _READ_OTHERWISE.fullmatch(value)
        yield value if is_bare else json.dumps(value, ensure_ascii=False)
