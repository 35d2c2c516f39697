"""The elements of an XML document, each with its position in the file."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile
from pyexpat import ParserCreate
from re import Match

from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.source import Position, Source
from verblint.startup.pattern import pattern
from verblint.startup.value import field, value

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
AMEIDE = "https://ameide.io/schema/bpmn/extensions/v1"
FLEANS = ("https://fleans.io/schema/bpmn/1.0", "http://fleans.io/schema/bpmn/fleans")  # its own, and its former one
VERBWORKER = "urn:verbworker:bpmn:v1"
DIAGRAM = "http://www.omg.org/spec/BPMN/20100524/DI"
CAMUNDA_7 = "http://camunda.org/schema/1.0/bpmn"
# Namespaces of drawing tools, and those whose values are checked by their own rules and readers.
KNOWN_NAMESPACES = frozenset(
    {
        *(BPMN, ZEEBE, CAMUNDA_7, AMEIDE, VERBWORKER, DIAGRAM, ""),
        "http://www.omg.org/spec/DD/20100524/DC",
        "http://www.omg.org/spec/DD/20100524/DI",
        "http://www.w3.org/2001/XMLSchema-instance",
        "http://www.w3.org/XML/1998/namespace",
        "http://camunda.org/schema/modeler/1.0",
        "http://bpmn.io/schema/bpmn/biocolor/1.0",
        "http://www.omg.org/spec/BPMN/non-normative/color/1.0",
    }
)

# A local name cannot contain a line feed, so the last one in a key always ends the namespace.
SEPARATOR = "\n"
# A quoted value may contain ">", so the end of a tag is found by skipping quoted values.
_TAG = pattern(rb"""<([^\s/>]++)(?:[^"'>]+|"[^"]*"|'[^']*')*+>""")
_RAW_ATTRIBUTE = pattern(rb"""\s+([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE_OR_LINE_END = pattern(rb"&[#\w]+;|\r\n")


@value(guarded=False)
class Place:
    """A range of bytes in an element: what a finding points at or a fix replaces."""

    element: "Element"
    start: int
    end: int

    @property
    def position(self) -> Position:
        """The position of the first character."""
        return self.element.document.source.position(self.start)

    @property
    def end_position(self) -> Position:
        """The position after the last character."""
        return self.element.document.source.position(self.end)


@value(guarded=False)
class Attribute:
    """One attribute of a start tag: its resolved name, its decoded value, and on demand the bytes of both."""

    element: "Element"
    namespace: str
    local: str
    value: str

    @property
    def key(self) -> str:
        """Its key in the values of the element."""
        return key_of(self.local, self.namespace)

    @property
    def name_start(self) -> int:
        """The offset of the name."""
        return self._span[0]

    @property
    def start(self) -> int:
        """The offset of the value, after its opening quote."""
        return self._span[1]

    @property
    def end(self) -> int:
        """The offset of the closing quote."""
        return self._span[2]

    @property
    def _span(self) -> tuple[int, int, int]:
        # Computed on demand, because it is not needed for most attributes, and then for all of an element: one element
        # may have thousands.
        known = self.element.document.spans
        if (spans := known.get(self.element.start)) is None:
            spans = known[self.element.start] = dict(
                zip(self.element.values, self.element.attribute_spans(), strict=True)
            )
        return spans[self.key]

    @property
    def place(self) -> Place:
        """The value between its quotes."""
        return Place(self.element, self.start, self.end)

    @property
    def whole(self) -> Place:
        """Name, equals sign and quoted value."""
        return Place(self.element, self.name_start, self.end + 1)

    def part(self, start: int, end: int) -> Place:
        """Return the bytes of characters `start` to `end` of the decoded value."""
        offsets = self._offsets()
        return Place(self.element, offsets[start], offsets[end])

    def _offsets(self) -> list[int]:
        """Return the offset of every character of the value, and of its end."""
        raw = self.element.document.source.content[self.start : self.end]
        offsets: list[int] = []
        at = 0
        for match in _REFERENCE_OR_LINE_END.finditer(raw):
            offsets.extend(_characters(raw[at : match.start()], self.start + at))
            offsets.append(self.start + match.start())
            at = match.end()
        offsets.extend(_characters(raw[at:], self.start + at))
        return [*offsets, self.end]


def key_of(local: str, namespace: str = "") -> str:
    """Return the key of an attribute in the values of an element."""
    return f"{namespace}{SEPARATOR}{local}" if namespace else local


def name_of(key: str) -> tuple[str, str]:
    """Return the namespace and local name of a key."""
    namespace, _, local = key.rpartition(SEPARATOR)
    return namespace, local


def _characters(raw: bytes, begin: int) -> Iterator[int]:
    # Every byte except a UTF-8 continuation byte starts a character.
    return (begin + index for index, byte in enumerate(raw) if byte & 0xC0 != 0x80)


@value(slots=False, eq=False, guarded=False)
class Document:
    """The data shared by all elements of one file: its source, character data and interruptions.

    Character data is stored once, in document order; an element knows its own range of it. The content of diagrams is
    left out. `spans` are those of attributes that were asked for, by the offset of their element.
    """

    source: Source
    chunks: list[str] = field(default_factory=list)
    interruptions: list[int] = field(default_factory=list)
    elements: dict[tuple[str, str], ElementGroup] = field(default_factory=dict)
    spans: dict[int, dict[str, tuple[int, int, int]]] = field(default_factory=dict)

    def take_apart(self) -> None:
        """Break reference cycles in the tree, so that it is freed immediately and not by the garbage collector."""
        for group in self.elements.values():
            for element in group:
                if element.children:
                    element.children = ()
        self.elements.clear()

    @cached_property
    def attribute_names(self) -> frozenset[tuple[str, str]]:
        """The namespace and local name of all attributes."""
        return frozenset(map(name_of, set[str]().union(*[group.keys for group in self.elements.values()])))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of all elements and attributes."""
        return frozenset(namespace for names in (self.elements, self.attribute_names) for namespace, _ in names)

    @property
    def is_plain(self) -> bool:
        """Whether nothing can be hidden in the file: it is ASCII, without backticks and delete characters."""
        content = self.source.content
        return content.isascii() and b"`" not in content and b"\x7f" not in content

    def may_hold(self, word: str) -> bool:
        """Return False if no text or value outside the diagram contains an ASCII word, so that none needs checking."""
        content, sought = self.source.content, word.encode()
        start, close = self._diagram
        if content.find(sought, 0, start) >= 0 or content.find(sought, close) >= 0 or self._is_obscured:
            return True
        return bool(self._pieced_text) and word in self._pieced_text

    @cached_property
    def _diagram(self) -> tuple[int, int]:
        """The offsets between which the diagram is; hardly more than the last tag follows it."""
        diagrams = self.elements.get((DIAGRAM, "BPMNDiagram"))
        return (diagrams[0].start, diagrams[0].close) if diagrams else (len(self.source.content),) * 2

    @cached_property
    def _is_obscured(self) -> bool:
        """Whether characters may be written as references, other than the line ends that modelers write in labels."""
        content = self.source.content
        return b"&" in content and content.count(b"&#") > content.count(b"&#10;") + content.count(b"&#xA;")

    @cached_property
    def _pieced_text(self) -> str:
        """All text, if some of it may be written differently in the file."""
        return "".join(self.chunks) if self.interruptions or b"<![CDATA[" in self.source.content else ""


class Element:
    """One XML element; its name and the names of its attributes use namespace URIs.

    `values` are the attributes by key: the local name, after its namespace if it has one. `start` is the offset of the
    opening bracket, `close` that of the end tag or, without one, of the first byte after the element. Treat it as
    frozen: only the reader modifies it.
    """

    __slots__ = (
        *("document", "namespace", "local", "values", "parent", "children"),
        *("start", "close", "first_chunk", "last_chunk"),
    )

    def __init__(
        self,
        document: Document,
        namespace: str,
        local: str,
        values: Mapping[str, str],
        parent: "Element | None",
        start: int,
        first_chunk: int,
    ) -> None:
        self.document = document
        self.namespace = namespace
        self.local = local
        self.values = values
        self.parent = parent
        self.start = start
        self.first_chunk = first_chunk
        self.last_chunk = self.close = 0
        self.children: Sequence[Element] = ()

    def __repr__(self) -> str:
        return f"<{self.local} id={self.id!r} line={self.line}>"

    @property
    def id(self) -> str:
        """The `id` attribute, or an empty string."""
        return self.values.get("id", "")

    @property
    def line(self) -> int:
        """The line of the opening angle bracket."""
        return self.place.position.line

    @property
    def place(self) -> Place:
        """The start tag."""
        return Place(self, self.start, self.tag_end)

    @property
    def whole(self) -> Place:
        """The element with its content."""
        return Place(self, self.start, self.end)

    @property
    def tag_end(self) -> int:
        """The offset after the start tag."""
        return self._tag().end()

    @property
    def end(self) -> int:
        """The offset after the whole element."""
        content, tag_end = self.document.source.content, self.tag_end
        return tag_end if content[tag_end - 2 : tag_end] == b"/>" else content.index(b">", self.close) + 1

    @property
    def text(self) -> str:
        """All character data inside, in document order, without comments and processing instructions.

        This is what the engine evaluates: it also joins the text on both sides of a comment.
        """
        chunks, first = self.document.chunks, self.first_chunk
        return chunks[first] if self.last_chunk == first + 1 else "".join(chunks[first : self.last_chunk])

    @property
    def interruptions(self) -> list[int]:
        """The offsets of comments and processing instructions inside."""
        # Slow to import, and needed by hardly any file.
        from bisect import bisect_left

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
        """Every attribute in document order, without namespace declarations."""
        return [self.written(key) for key in self.values]

    def get(self, local: str, namespace: str = "") -> str | None:
        """Return the value of an attribute, or None."""
        return self.values.get(key_of(local, namespace) if namespace else local)

    def attribute(self, local: str, namespace: str = "") -> Attribute | None:
        """Return the attribute with its place, or None."""
        key = key_of(local, namespace) if namespace else local
        return self.written(key) if key in self.values else None

    def written(self, key: str) -> Attribute:
        """Return the attribute with a key that exists."""
        return Attribute(self, *name_of(key), self.values[key])

    def is_a(self, local: str, namespace: str = BPMN) -> bool:
        """Return whether the element has this name."""
        return self.local == local and self.namespace == namespace

    def find(self, local: str, namespace: str = BPMN) -> "Element | None":
        """Return the first child with this name, or None."""
        for child in self.children:
            if child.local == local and child.namespace == namespace:
                return child
        return None

    def find_all(self, local: str, namespace: str = BPMN) -> Iterator["Element"]:
        """Return the children with this name."""
        return (child for child in self.children if child.local == local and child.namespace == namespace)

    def walk(self, local: str | None = None, namespace: str = BPMN) -> Iterator["Element"]:
        """Yield this element and all below it in document order; with a name, only those with that name."""
        if local is not None:
            group = self.document.elements.get((namespace, local), ())
            yield from self._inside(group) if group and self.parent is not None else group
            return
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))

    def _inside(self, group: Sequence["Element"]) -> Iterator["Element"]:
        from bisect import bisect_left

        first = bisect_left(group, self.start, key=lambda element: element.start)
        # After an empty element the next one may start at `close`; it is not inside.
        return takewhile(lambda element: element is self or element.start < self.close, islice(group, first, None))

    def part(self, start: int, end: int) -> Place:
        """Return the bytes of characters `start` to `end` of `text`; `start` must be less than `end`."""
        return Place(self, self._offset(start), self._offset(end - 1, after=True))

    def _offset(self, index: int, *, after: bool = False) -> int:
        """Return the offset where a character of `text` starts, or with `after` where it ends."""
        pieces = self._pieces()
        number = 0
        while index >= len(pieces[number][0]):
            index -= len(pieces[number][0])
            number += 1
        chunk, begin = pieces[number]
        if not after:
            return begin + len(chunk[:index].encode())
        if len(chunk) > 1:
            return begin + len(chunk[: index + 1].encode())
        # A piece of one character may be longer in the file: a reference or a Windows line end.
        match = _REFERENCE_OR_LINE_END.match(self.document.source.content, begin)
        return match.end() if match else begin + len(chunk.encode())

    def _pieces(self) -> list[tuple[str, int]]:
        """Return the pieces the text is written in, each with its offset."""
        pieces: list[tuple[str, int]] = []
        parser = ParserCreate("utf-8")
        parser.CharacterDataHandler = lambda text: pieces.append((text, self.start + parser.CurrentByteIndex))
        parser.Parse(self.document.source.content[self.start : self.end], True)
        return pieces

    def attribute_spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield the offsets of every attribute in document order: its name, its value and its closing quote."""
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
