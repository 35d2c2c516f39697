"""A user task's assignment, dates and form, as headers of its job."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from verblint.bpmn.element import BPMN, ZEEBE, Element

PREFIX = "io.camunda.zeebe:"
_PLAIN = ("assignee", "formKey")
_NAMES = ("candidateGroups", "candidateUsers")
_DATES = ("dueDate", "followUpDate")


def read_headers(task: Element) -> dict[str, str]:
    """Return the headers; a value starting with = names a variable to read. Raises `ValueError` with a reason."""
    found: dict[str, str] = {}
    for holder in task.children:
        if holder.local == "extensionElements" and holder.namespace == BPMN:
            for extension in holder.children:
                if extension.namespace == ZEEBE:
                    found |= {name: text for name, text in extension.values.items() if text and name in _WRITE}
    return {PREFIX + name: _WRITE[name](text) for name, text in found.items()}


def resolve_headers(headers: Mapping[str, str], variables: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the headers with variables resolved; an unset variable omits its header."""
    if not any(_is_read(name, text) for name, text in headers.items()):
        return headers
    read = {name: _read(text, variables) if _is_read(name, text) else text for name, text in headers.items()}
    return {name: str(value) for name, value in read.items() if value is not None}


def _is_read(name: str, text: str) -> bool:
    return name.startswith(PREFIX) and text.startswith("=")


def _read(text: str, variables: Mapping[str, Any]) -> object:
    return variables.get(text[1:])


def _variable_or(text: str) -> str:
    if not text.startswith("="):
        return text
    name = text[1:].strip()
    if not (name.isidentifier() and name.isascii()):
        raise ValueError("has an expression that is more than one variable")
    return f"={name}"


def _names(text: str) -> str:
    if text.startswith("="):
        raise ValueError("is an expression; write names separated by commas")
    return json.dumps([name.strip() for name in text.split(",")], separators=(",", ":"))


def _date(text: str) -> str:
    """Format a date as Zeebe writes it into a header: without seconds if they are zero."""
    if text.startswith("="):
        return _variable_or(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"has an invalid date: {text}") from None
    exact = "minutes" if not (date.second or date.microsecond) else "auto"
    return date.isoformat(timespec=exact).replace("+00:00", "Z")


_WRITE = {
    **dict.fromkeys(_PLAIN, _variable_or),
    **dict.fromkeys(_NAMES, _names),
    **dict.fromkeys(_DATES, _date),
}
