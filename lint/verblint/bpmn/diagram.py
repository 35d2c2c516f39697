"""The diagram of a model: half of its bytes, and never evaluated."""

from collections.abc import Iterator
from itertools import accumulate, repeat
from operator import sub
from pyexpat import ParserCreate

from verblint.bpmn.element import DIAGRAM, SEPARATOR
from verblint.startup.pattern import pattern

_NAME = b"BPMNDiagram"
_ID = pattern(rb'id\s*=\s*"([^"]*)"')
TAG = f"{DIAGRAM}{SEPARATOR}{_NAME.decode()}"


def end_of_inside(content: bytes, elements: int, depth: int) -> int:
    """Return the offset of the diagram's end tag if the parser can skip the diagram without callbacks, otherwise 0.

    The file must have exactly one diagram, without markup other than tags, without brackets in values, and within the
    limits.
    """
    start = content.find(_NAME)
    last = content.find(_NAME, start + 1)
    may_be_many = len(content) > elements * len(b"<a/>") and content.count(b"<") > elements
    if start < 0 or last < 0 or content.find(_NAME, last + 1) >= 0 or may_be_many:
        return 0
    end = content.rfind(b"<", start, last)
    inside = content[start:end]
    # Each stretch opens some elements and ends with one end tag.
    stretches = inside.split(b"</")
    opened = list(map(bytes.count, stretches, repeat(b"<")))
    # The first bracket closes the diagram's own start tag. Comments and the like could hide tags, or look like tags.
    is_plain = content[end : end + 2] == b"</" and inside.count(b">") == sum(opened) + len(stretches)
    if not is_plain or b"!" in inside or b"?" in inside:
        return 0
    # Only an element with an end tag can contain another, so a small diagram cannot be deep.
    return end if len(stretches) + 1 < depth or _deepest(stretches, opened) + 2 < depth else 0


def ends_with_root(content: bytes, end: int) -> bool:
    """Return whether only the end tag of the root follows the diagram, whose end tag is at `end`."""
    behind = content[end:]
    parts = behind.split(b">")
    has_two_tags = len(parts) == 3 and behind.count(b"<") == 2
    return has_two_tags and parts[1].lstrip().startswith(b"</") and not parts[2].strip()


def ids(inside: bytes) -> list[bytes] | None:
    """Return every id in the bytes of a diagram, and maybe more; None if they are written in an unusual way."""
    # Single quotes and character references: no modeler writes them.
    return _ID.findall(inside) if b"'" not in inside and b"&" not in inside else None


def exact_ids(content: bytes) -> list[tuple[str, int]]:
    """Return every element id in a diagram with the offset of its tag."""
    found: list[tuple[str, int]] = []
    inside = 0
    parser = ParserCreate("utf-8", SEPARATOR)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal inside
        if inside and "id" in attributes:
            found.append((attributes["id"], parser.CurrentByteIndex))
        inside += bool(inside) or name == TAG

    def end(name: str) -> None:
        nonlocal inside
        inside -= bool(inside)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(content, True)
    return found


def _deepest(stretches: list[bytes], opened: list[int]) -> int:
    """Return the nesting depth, given the stretches and how many elements each one opens; some are self-closing."""
    staying = map(sub, opened, map(bytes.count, stretches, repeat(b"/>")))
    depths: Iterator[int] = accumulate(map(sub, staying, repeat(1)))
    return 1 + max(depths)
