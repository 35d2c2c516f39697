"""The diagram of a model: half of its bytes, of which nothing is ever evaluated."""

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
    """The byte of the end tag of the only diagram, when it is plain enough for a parser to run through unwatched.

    Plain is: no markup but tags, no bracket inside a value, and within the limits. Otherwise, or without a diagram, 0.
    """
    start = content.find(_NAME)
    last = content.find(_NAME, start + 1)
    may_be_many = len(content) > elements * len(b"<a/>") and content.count(b"<") > elements
    if start < 0 or last < 0 or content.find(_NAME, last + 1) >= 0 or may_be_many:
        return 0
    end = content.rfind(b"<", start, last)
    inside = content[start:end]
    # Each stretch opens some elements and ends with the end tag of one.
    stretches = inside.split(b"</")
    opened = list(map(bytes.count, stretches, repeat(b"<")))
    # The first bracket closes the tag of the diagram itself. Comments and the like could hide tags, or seem to be some.
    is_plain = content[end : end + 2] == b"</" and inside.count(b">") == sum(opened) + len(stretches)
    if not is_plain or b"!" in inside or b"?" in inside:
        return 0
    # Only an element with an end tag can hold another, so a small diagram cannot be deep.
    return end if len(stretches) + 1 < depth or _deepest(stretches, opened) + 2 < depth else 0


def ends_with_root(content: bytes, end: int) -> bool:
    """True when nothing stands behind a diagram, whose end tag is at a byte, but the end of the element around it."""
    behind = content[end:]
    parts = behind.split(b">")
    has_two_tags = len(parts) == 3 and behind.count(b"<") == 2
    return has_two_tags and parts[1].lstrip().startswith(b"</") and not parts[2].strip()


def ids(inside: bytes) -> list[bytes] | None:
    """Every id in the bytes of a diagram, and perhaps more; None where they are written in an unusual way."""
    # Other quotes and references: no modeler writes them.
    return _ID.findall(inside) if b"'" not in inside and b"&" not in inside else None


def exact_ids(content: bytes) -> list[tuple[str, int]]:
    """Every id of an element in a diagram, with the byte of its tag."""
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
    """How deep elements stand in one another, of which so many are opened in each stretch; some close themselves."""
    staying = map(sub, opened, map(bytes.count, stretches, repeat(b"/>")))
    depths: Iterator[int] = accumulate(map(sub, staying, repeat(1)))
    return 1 + max(depths)
