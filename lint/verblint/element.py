"""The elements of an XML document, each of which remembers the bytes it came from."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from re import Match
from re import compile as pattern

from verblint.source import Position, Source
from verblint.value import field, value

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
AMEIDE = "https://ameide.io/schema/bpmn/extensions/v1"
VERBWORKER = "urn:verbworker:bpmn:v1"

# A quoted value may hold ">", so the end of a tag is found by stepping over the quotes.
_TAG = pattern(rb"""<([^\s/>]++)(?:[^"'>]+|"[^"]*"|'[^']*')*+>""")
_RAW_ATTRIBUTE = pattern(rb"""\s+([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE_OR_LINE_END = pattern(rb"&[#\w]+;|\r\n")


@value
class Place:
    """A stretch of bytes inside an element: what a finding points at and what a fix replaces."""

    element: "Element"
    start: int
    end: int

    @property
    def position(self) -> Position:
        """Where the stretch begins."""
        return self.element.document.source.position(self.start)

    @property
    def end_position(self) -> Position:
        """Where the stretch ends (the first character after it)."""
        return self.element.document.source.position(self.end)


@value
class Attribute:
    """One attribute of a start tag: resolved name, decoded value, and the bytes of name and value."""

    element: "Element"
    namespace: str
    local: str
    value: str
    name_start: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        """The value between its quotes."""
        return Place(self.element, self.start, self.end)

    @property
    def whole(self) -> Place:
        """Name, equals sign and quoted value together."""
        return Place(self.element, self.name_start, self.end + 1)

    def part(self, start: int, end: int) -> Place:
        """The bytes that hold characters `start` to `end` of the decoded value."""
        offsets = self._offsets()
        return Place(self.element, offsets[start], offsets[end])

    def _offsets(self) -> list[int]:
        """The byte offset of every character of the value, and of its end."""
        raw = self.element.document.source.content[self.start : self.end]
        offsets: list[int] = []
        at = 0
        for match in _REFERENCE_OR_LINE_END.finditer(raw):
            offsets.extend(_characters(raw[at : match.start()], self.start + at))
            offsets.append(self.start + match.start())
            at = match.end()
        offsets.extend(_characters(raw[at:], self.start + at))
        return [*offsets, self.end]


def _characters(raw: bytes, begin: int) -> Iterator[int]:
    # Every byte but a UTF-8 continuation byte starts a character.
    return (begin + index for index, byte in enumerate(raw) if byte & 0xC0 != 0x80)


@value(eq=False)
class Document:
    """What all elements of one file share: its source, its character data and its interruptions.

    Character data is kept once, in document order; an element knows which run of it is its own.
    """

    source: Source
    chunks: list[str] = field(default_factory=list)
    chunk_starts: "array[int]" = field(default_factory=lambda: array("Q"))
    interruptions: list[int] = field(default_factory=list)


@value(frozen=False, eq=False)
class Element:
    """One XML element; its name and the names of its attributes are (namespace URI, local name).

    `start` and `end` are the bytes of the whole element. Treat it as frozen: only the reader writes it.
    """

    document: Document
    namespace: str
    local: str
    values: Mapping[tuple[str, str], str]
    parent: "Element | None"
    start: int
    end: int = 0
    children: list["Element"] = field(default_factory=list)
    first_chunk: int = 0
    last_chunk: int = 0

    def __repr__(self) -> str:
        return f"<{self.local} id={self.id!r} line={self.line}>"

    @property
    def id(self) -> str:
        """The `id` attribute, or an empty string."""
        return self.values.get(("", "id"), "")

    @property
    def line(self) -> int:
        """The line of the opening angle bracket."""
        return self.place.position.line

    @property
    def column(self) -> int:
        """The column of the opening angle bracket."""
        return self.place.position.column

    @property
    def place(self) -> Place:
        """The start tag."""
        return Place(self, self.start, self.tag_end)

    @property
    def whole(self) -> Place:
        """The element with everything inside."""
        return Place(self, self.start, self.end)

    @property
    def tag_end(self) -> int:
        """The byte after the start tag."""
        return self._tag().end()

    @property
    def text(self) -> str:
        """All character data inside, in document order, comments and processing instructions left out.

        This is what the engine evaluates: it too joins the text on both sides of a comment.
        """
        return "".join(self.document.chunks[self.first_chunk : self.last_chunk])

    @property
    def interruptions(self) -> list[int]:
        """The byte offsets of comments and processing instructions inside."""
        marks = self.document.interruptions
        return marks[bisect_left(marks, self.start) : bisect_left(marks, self.end)]

    @property
    def ancestors(self) -> Iterator["Element"]:
        """The enclosing elements, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def attributes(self) -> list[Attribute]:
        """Every attribute in document order, namespace declarations left out."""
        named = zip(self.values.items(), self._attribute_spans(), strict=True)
        return [Attribute(self, ns, local, value, *span) for ((ns, local), value), span in named]

    def get(self, local: str, namespace: str = "") -> str | None:
        """The value of an attribute, or None."""
        return self.values.get((namespace, local))

    def attribute(self, local: str, namespace: str = "") -> Attribute | None:
        """The attribute with its place, or None."""
        if (namespace, local) not in self.values:
            return None
        return next(a for a in self.attributes if a.local == local and a.namespace == namespace)

    def is_a(self, local: str, namespace: str = BPMN) -> bool:
        """True when the element has this name."""
        return self.local == local and self.namespace == namespace

    def find(self, local: str, namespace: str = BPMN) -> "Element | None":
        """The first child with this name, or None."""
        return next(self.find_all(local, namespace), None)

    def find_all(self, local: str, namespace: str = BPMN) -> Iterator["Element"]:
        """The children with this name."""
        return (child for child in self.children if child.local == local and child.namespace == namespace)

    def walk(self, local: str | None = None, namespace: str = BPMN) -> Iterator["Element"]:
        """This element and everything below it in document order; with a name, only those so named."""
        pending = [self]
        while pending:
            element = pending.pop()
            if local is None or (element.local == local and element.namespace == namespace):
                yield element
            pending.extend(reversed(element.children))

    def part(self, start: int, end: int) -> Place:
        """The bytes that hold characters `start` to `end` of `text`; `start` must be below `end`."""
        return Place(self, self._offset(start), self._offset(end - 1, after=True))

    def _offset(self, index: int, *, after: bool = False) -> int:
        """The byte where a character of `text` begins, or with `after` where it ends."""
        number = self.first_chunk
        while index >= len(self.document.chunks[number]):
            index -= len(self.document.chunks[number])
            number += 1
        chunk, begin = self.document.chunks[number], self.document.chunk_starts[number]
        if not after:
            return begin + len(chunk[:index].encode())
        if len(chunk) > 1:
            return begin + len(chunk[: index + 1].encode())
        # A chunk of one character may be written longer: as a reference, or as a Windows line end.
        match = _REFERENCE_OR_LINE_END.match(self.document.source.content, begin)
        return match.end() if match else begin + len(chunk.encode())

    def _attribute_spans(self) -> Iterator[tuple[int, int, int]]:
        content, at = self.document.source.content, self._tag().end(1)
        while match := _RAW_ATTRIBUTE.match(content, at):
            at = match.end()
            name = match[1]
            if name != b"xmlns" and not name.startswith(b"xmlns:"):
                group = 2 if match[2] is not None else 3
                yield match.start(1), match.start(group), match.end(group)

    def _tag(self) -> Match[bytes]:
        match = _TAG.match(self.document.source.content, self.start)
        assert match is not None, "the reader saw this tag"
        return match
