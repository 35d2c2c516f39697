"""The fixes that rules offer: remove an element, or write a literal without quotes."""

from collections.abc import Callable

from verblint.bpmn.element import ZEEBE, Element, Place
from verblint.report import Edit, Fix
from verblint.startup.pattern import pattern

_QUOTED = pattern(r'=\s*"([^"]*)"\s*')


def unquote(text: str, place: Place, description: str, fits: Callable[[str], object]) -> Fix | None:
    """Write the string itself if an expression is only a string that `fits`; otherwise there is no fix."""
    match = _QUOTED.fullmatch(text)
    if match is None or not fits(match[1]):
        return None
    return Fix(description, (Edit(place.start, place.end, match[1].encode()),))


def remove(element: Element, description: str) -> Fix:
    """Remove an element, including its line if nothing else is on it, and extension elements that become empty."""
    while element.parent is not None and _is_wrapper(element.parent) and _is_alone(element, element.parent):
        element = element.parent
    content = element.document.source.content
    start = element.start
    while start > 0 and content[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    line_end = _line_end(content, element.end)
    if content[start - 1 : start] != b"\n" or not line_end:
        return Fix(description, (Edit(element.start, element.end, b""),))
    return Fix(description, (Edit(start, element.end + len(line_end), b""),))


def _is_wrapper(parent: Element) -> bool:
    """Return whether an element means nothing when it is empty."""
    return parent.is_a("extensionElements") or parent.is_a("ioMapping", ZEEBE)


def _is_alone(element: Element, parent: Element) -> bool:
    """Return whether the parent has no other child, text or comment."""
    content = element.document.source.content
    return not (content[parent.tag_end : element.start] + content[element.end : parent.close]).strip()


def _line_end(content: bytes, at: int) -> bytes:
    return next((sign for sign in (b"\n", b"\r\n") if content.startswith(sign, at)), b"")
