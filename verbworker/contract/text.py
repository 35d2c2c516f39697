"""Text from people: short enough to keep, and of characters that the database can store."""

import re
from collections.abc import Mapping
from typing import Any

from verbworker.errors import InvocationInvalid

_SHOULD = re.compile(r"^[A-Z][a-z]+ should ")
LONGEST_REASON = 4_000  # characters: a page of text, the most that a person writes into one field


def require_text(name: str, text: str, longest: int, *, empty: bool = False) -> None:
    """Raise `InvocationInvalid` if a text is blank, unless it may be `empty`, too long, or cannot be stored."""
    if not empty and not text.strip():
        raise InvocationInvalid(f"{name} is empty")
    if len(text) > longest:
        raise InvocationInvalid(f"{name} is longer than {longest} characters")
    if not is_storable(text):
        raise InvocationInvalid(f"{name} holds characters that cannot be kept")


def describe_misfit(problem: Mapping[str, Any]) -> str:
    """Return what a pydantic error says, as the rest of a sentence about the field; never the value."""
    if problem["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return "must be an object"
    words = _SHOULD.sub("must ", str(problem["msg"]).removeprefix("Value error, "))
    return words[:1].lower() + words[1:]


def is_storable(value: object) -> bool:
    """Return whether the database can store every text of a value, at any depth."""
    match value:
        case str():
            return not any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in value)
        case Mapping():
            return all(is_storable(name) and is_storable(inner) for name, inner in value.items())
        case list() | tuple():
            return all(map(is_storable, value))
        case _:
            return True
