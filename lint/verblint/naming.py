"""How messages name things, and the names that belong to the runtime."""

from collections.abc import Iterable

from verblint.element import BPMN, ZEEBE, Element

# Job types that begin like this are the runtime's own: its listeners, and the task that undoes what was done.
OWN_JOBS = "verbworker."
COMPENSATE = "verbworker.compensate"
# Job types that begin like this belong to connectors.
FOREIGN_JOBS = "io.camunda"

CAMUNDA_7 = "http://camunda.org/schema/1.0/bpmn"

_PREFIXES = {BPMN: "", ZEEBE: "zeebe:"}


def described(element: Element) -> str:
    """An element in a sentence: its kind, and its id when it has one."""
    kind = f"{_PREFIXES.get(element.namespace, '')}{element.local}"
    return f"{kind} {element.id}" if element.id else kind


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown name: the nearest known one, or nothing."""
    near = nearest(name, known)
    return f"Write {near}" if near else "Remove it"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like another, or an empty string when none is."""
    # Loaded when a name is wrong, which is the exception.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1)), "")
