"""Insert text at the tags of an element, so that the rest of a model keeps its bytes."""

from collections.abc import Callable

from verblint.bpmn.element import ZEEBE, Element
from verblint.report import Edit, Fix
from verblint.startup.pattern import pattern

_NAMESPACE = f' xmlns:zeebe="{ZEEBE}"'
_RAW_NAME = pattern(rb"<([^\s/>]+)")
_ZEEBE_PREFIX = pattern(rb"xmlns:([^\s=]+)\s*=\s*[\"']" + ZEEBE.replace(".", r"\.").encode() + rb"[\"']")
_INDENT = "  "


def insert_extension(element: Element, local: str, description: str) -> Fix:
    """Add an empty zeebe element to the extension elements of a BPMN element, with the layout of the lines around."""
    name, declared = name_with_prefix(element, local)
    written = f"<{name}{declared} />"
    holder = element.find("extensionElements")
    if holder is not None and holder.children:
        first = holder.children[0]
        return Fix(description, (Edit(first.start, first.start, f"{written}{_blank_before(holder)}".encode()),))
    if holder is not None:
        return Fix(description, (into_end(holder, written),))
    space = _blank_before(element)
    inner = f"{space}{_INDENT}{written}{space}" if space else written
    return Fix(description, (into_start(element, f"{space}{wrap_extension(element, inner)}"),))


def into_group(element: Element, local: str, written: Callable[[str], str]) -> Edit:
    """Insert text into a zeebe group of an element, creating the group and its parent if needed.

    `written` gets the declaration that each inserted element needs: the group's own prefix may be another one.
    """
    holder = element.find("extensionElements")
    group = None if holder is None else holder.find(local, ZEEBE)
    if group is not None:
        return into_end(group, written(_NAMESPACE))
    grouped = f"<zeebe:{local}{_NAMESPACE}>{written('')}</zeebe:{local}>"
    return into_start(element, wrap_extension(element, grouped)) if holder is None else into_end(holder, grouped)


def wrap_extension(element: Element, inner: str) -> str:
    """Return extension elements for an element. Its own prefix is that of BPMN, under any name."""
    prefix, colon, _ = raw_name(element).rpartition(":")
    name = f"{prefix}{colon}extensionElements"
    return f"<{name}>{inner}</{name}>"


def into_start(element: Element, inner: str) -> Edit:
    """Insert text where extension elements belong: after the documentation, before everything else."""
    documented = [child.end for child in element.find_all("documentation")]
    if _is_empty(element) or not documented:
        return behind_tag(element, inner)
    return Edit(documented[-1], documented[-1], inner.encode())


def into_end(element: Element, inner: str) -> Edit:
    """Insert text before the end tag."""
    return behind_tag(element, inner) if _is_empty(element) else Edit(element.close, element.close, inner.encode())


def behind_tag(element: Element, inner: str) -> Edit:
    """Insert text after the start tag; a self-closing tag is opened for it."""
    if not _is_empty(element):
        return Edit(element.tag_end, element.tag_end, inner.encode())
    return Edit(element.tag_end - 2, element.tag_end, f">{inner}</{raw_name(element)}>".encode())


def raw_name(element: Element) -> str:
    """Return the name as written, with its prefix."""
    found = _RAW_NAME.match(element.document.source.content, element.start)
    assert found is not None, "the reader saw this tag"
    return found[1].decode()


def _is_empty(element: Element) -> bool:
    return element.document.source.content[element.tag_end - 2 : element.tag_end] == b"/>"


def _blank_before(element: Element) -> str:
    """Return the line break and indentation before the first child; empty if there is none."""
    if not element.children:
        return ""
    space = element.document.source.content[element.tag_end : element.children[0].start]
    return space.decode() if space.startswith((b"\n", b"\r\n")) and not space.strip() else ""


def name_with_prefix(element: Element, local: str) -> tuple[str, str]:
    """Return a name with the prefix that the model declares for zeebe, or with a declaration of its own."""
    above: Element | None = element
    while above is not None:
        declared = _ZEEBE_PREFIX.search(above.document.source.content, above.start, above.tag_end)
        if declared is not None:
            return f"{declared[1].decode()}:{local}", ""
        above = above.parent
    return f"zeebe:{local}", _NAMESPACE
