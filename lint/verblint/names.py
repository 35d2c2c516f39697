"""How messages name things, and the names that belong to the runtime."""

from collections.abc import Collection

from verblint.bpmn.element import BPMN, ZEEBE, Element

# Job types that begin like this are the runtime's own: its listeners, and the task that undoes what was done.
OWN_JOBS = "verbworker."
COMPENSATE = "verbworker.compensate"
# Element templates whose ids begin like this are made by `verbworker verbs templates`.
OWN_TEMPLATES = "io.verbworker."
# Job types that begin like this belong to connectors.
FOREIGN_JOBS = "io.camunda"

_COMPARABLE = 1000
_PREFIXES = {BPMN: "", ZEEBE: "zeebe:"}


def described(element: Element) -> str:
    """An element in a sentence: its kind, and its id when it has one."""
    kind = f"{_PREFIXES.get(element.namespace, '')}{element.local}"
    return f"{kind} {element.id}" if element.id else kind


def extended_by(element: Element, prefix: str) -> str:
    """What an extension element stands in: the BPMN element it extends, or its own extension's under a prefix.

    Empty where no extension may stand.
    """
    holder = element.parent
    if holder is None:
        return ""
    if holder.namespace == element.namespace:
        return f"{prefix}:{holder.local}"
    return holder.parent.local if holder.is_a("extensionElements") and holder.parent is not None else ""


def suggestion(name: str, known: Collection[str]) -> str:
    """What to write instead of an unknown name: the nearest known one, or nothing."""
    near = nearest(name, known)
    return f"Write {near}" if near else "Remove it"


def nearest(name: str, known: Collection[str]) -> str:
    """The known name most like another, or an empty string when none is, or when there are too many to compare."""
    if len(known) > _COMPARABLE:
        return ""
    # Comparing takes a thousand times longer than looking, and a file may be wrong in every line.
    alike = [other for other in known if _could_be(other, name)]
    if not alike:
        return ""
    # Loaded when a name is wrong, which is the exception.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, alike, 1)), "")


def _could_be(other: str, name: str) -> bool:
    """A slip of the pen leaves the length about right, and the first or the last letter."""
    return abs(len(other) - len(name)) <= 2 and (other[:1] == name[:1] or other[-1:] == name[-1:])
