"""Edits that remove an element without leaving a blank line."""

from verblint.bpmn.element import Element
from verblint.report.finding import Edit, Fix


def remove(element: Element, description: str) -> Fix:
    """Remove an element, including its line if nothing else is on it, and extension elements that become empty."""
    while element.parent is not None and len(element.parent.children) == 1 and not element.parent.id:
        element = element.parent
    content = element.document.source.content
    start = element.start
    while start > 0 and content[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    stands_alone = content[start - 1 : start] == b"\n" and content[element.end : element.end + 1] in (b"\n", b"\r")
    if not stands_alone:
        return Fix(description, (Edit(element.start, element.end, b""),))
    end = content.index(b"\n", element.end) + 1 if b"\n" in content[element.end :] else len(content)
    return Fix(description, (Edit(start, end, b""),))
