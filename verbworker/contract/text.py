"""Text from people: short enough to keep, and of characters that the database can store."""

import re
from collections.abc import Mapping
from typing import Any

from verbworker.errors import InvocationInvalid

_SHOULD = re.compile(r"^[A-Z][a-z]+ should ")
# Characters that terminals, editors and browsers obey without showing them: C0 and C1 controls, separators of lines,
# changes of direction, the byte order mark and the invisible alphabet. Joiners are letters in some scripts and stay.
_HIDDEN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f"
_HIDDEN_ANYWHERE = re.compile(f"[{_HIDDEN}]")
_HIDDEN_IN_LINES = re.compile(f"(?![\\n\\t])[{_HIDDEN}]")
_LONGEST_TOLD = 60  # characters of a name that is not ours; enough to recognise it
LONGEST_NAME = 256  # characters of a name, key or id: the limit of the engine's own stores
LONGEST_SUBJECT = 255  # characters, as OpenID Connect has it
LONGEST_REASON = 4_000  # characters: a page of text, the most that a person writes into one field


def require_text(name: str, text: str, longest: int, *, empty: bool = False) -> None:
    """Raise `InvocationInvalid` if a text is blank, unless it may be `empty`, too long, or cannot be stored."""
    if not empty and not text.strip():
        raise InvocationInvalid(f"{name} is empty")
    if len(text) > longest:
        raise InvocationInvalid(f"{name} is longer than {longest} characters")
    if not is_storable(text):
        raise InvocationInvalid(f"{name} holds characters that cannot be kept")


def require_name(name: str, text: str, longest: int) -> None:
    """Raise `InvocationInvalid` if a text is no name: as `require_text`, and it may hold no hidden characters."""
    if holds_controls(text):
        raise InvocationInvalid(f"{name} holds control characters")
    require_text(name, text, longest)


def holds_controls(text: str) -> bool:
    """Return whether a text holds characters that are obeyed and not seen."""
    return _HIDDEN_ANYWHERE.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether a text from outside can be kept as a name: storable, and without hidden characters."""
    return is_storable(text) and not holds_controls(text)


def is_subject(text: object) -> bool:
    """Return whether a claim can be the subject of a person."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_SUBJECT and is_name(text)


def is_tenant(text: object) -> bool:
    """Return whether a text from outside can name a tenant. `*` is none: sessions that serve all tenants say so."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_NAME:
        return False
    return is_name(text) and text != "*"


def escape_hidden(text: str, *, has_lines: bool = True) -> str:
    """Return a text as it may be shown: hidden characters as escapes. Ends of lines and tabs stay if it `has_lines`."""
    return (_HIDDEN_IN_LINES if has_lines else _HIDDEN_ANYWHERE).sub(_escape, text)


def tell_name(name: object) -> str:
    """Return a name that came from outside as it is told back: short, and with hidden characters as escapes."""
    return escape_hidden(str(name)[:_LONGEST_TOLD], has_lines=False)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def describe_misfit(problem: Mapping[str, Any]) -> str:
    """Return what a pydantic error says, as the rest of a sentence about the field; never the value."""
    if problem["type"] in ("dict_type", "model_type", "model_attributes_type"):
        return "must be an object"
    words = _SHOULD.sub("must ", str(problem["msg"]).removeprefix("Value error, "))
    # pydantic quotes the character that an id stumbles over.
    return escape_hidden(words[:1].lower() + words[1:], has_lines=False)


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
