"""The reader: parses the bytes of a BPMN file into an element tree and rejects hostile input.

The parser is expat. The reader also rejects what expat accepts and an engine does not, or only at a cost: document
types (and with them all entity attacks), other encodings, and documents that are too large, too deep or have too many
elements.
"""

from collections.abc import Callable
from pyexpat import ErrorString, ExpatError, ParserCreate

from verblint.bpmn.diagram import TAG as DIAGRAM_TAG
from verblint.bpmn.diagram import end_of_inside, ends_with_root
from verblint.bpmn.element import SEPARATOR, Document, Element, name_of
from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.source import Position, Source
from verblint.startup import TYPE_CHECKING
from verblint.startup.value import value

if TYPE_CHECKING:
    from typing import NoReturn

NOT_WELL_FORMED = "HB001"
DOCUMENT_TYPE = "HB002"
FOREIGN_ENCODING = "HB003"
OVER_LIMIT = "HB004"

_UTF8_MARK = b"\xef\xbb\xbf"
# The first bytes of UTF-16 and UTF-32 documents, with or without a byte order mark.
_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00")

_OCCASIONS = (
    *("XmlDeclHandler", "StartDoctypeDeclHandler", "CommentHandler", "ProcessingInstructionHandler"),
    *("StartElementHandler", "EndElementHandler", "CharacterDataHandler"),
)

_Start = Callable[[str, dict[str, str]], None]
_End = Callable[[str], None]


class ModelError(Exception):
    """A file that the reader rejects; `code` is that of the violated rule, `line` and `column` are the place."""

    def __init__(self, code: str, message: str, position: Position) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line, self.column = position


@value
class Limits:
    """The limits of a model: bytes, nesting depth, elements, attributes of one element, and findings told of a file."""

    size: int = 2 * 1024 * 1024
    depth: int = 100
    elements: int = 50_000
    attributes: int = 500
    findings: int = 1_000


DEFAULT_LIMITS = Limits()


def read(content: bytes, name: str = "<bytes>", limits: Limits = DEFAULT_LIMITS) -> Element:
    """Return the root element of a document, or raise ModelError."""
    source = Source(name, content)
    if len(content) > limits.size:
        # The caller may have stopped reading one byte after the limit, so the exact size is unknown.
        message = f"the file has more than {limits.size:,} bytes, which is the most a model may have"
        raise ModelError(OVER_LIMIT, message, Position(1, 1))
    if content.startswith(_WIDE_STARTS):
        raise ModelError(FOREIGN_ENCODING, "the file is UTF-16 or UTF-32; save it as UTF-8", Position(1, 1))
    return _XmlReading(source, limits).run()


class _XmlReading:
    """One pass of expat over one source.

    It records only what cannot be derived from the bytes later: most files have no findings, so most positions are
    never needed.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._document = Document(source)
        self._unwatched_until = end_of_inside(source.content, limits.elements, limits.depth)
        # The encoding is fixed, so the declaration can only be checked, never followed.
        self._parser = parser = ParserCreate("utf-8", SEPARATOR)
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._document_type
        parser.CommentHandler = self._interruption
        parser.ProcessingInstructionHandler = self._interruption
        self._handlers: tuple[_Start | None, _End | None] = (None, None)

    def run(self) -> Element:
        """Parse the whole source and return the root."""
        content, parser = self._source.content, self._parser
        roots = self._listen()
        end = self._unwatched_until
        try:
            if end and not ends_with_root(content, end):
                parser.Parse(content[:end], False)
                # The parser is at the end of the diagram, or found no diagram where one seemed to be.
                self._wake()
                parser.Parse(content[end:], True)
            else:
                parser.Parse(content, True)
                self._close_without_callbacks(roots[0])
        except ExpatError as error:
            message = f"not well-formed XML: {ErrorString(error.code)}"
            self._refuse(NOT_WELL_FORMED, message, parser.ErrorByteIndex)
        finally:
            self._let_go()
        return roots[0]

    def _close_without_callbacks(self, root: Element) -> None:
        """Record the ends of the root and of a final diagram if they were parsed without callbacks."""
        if not root.close:
            chunks = len(self._document.chunks)
            diagram = root.children[-1]
            diagram.close, diagram.last_chunk = self._unwatched_until, chunks
            root.close, root.last_chunk = self._source.content.rindex(b"</"), chunks

    def _wake(self) -> None:
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._handlers
        self._parser.CharacterDataHandler = self._document.chunks.append

    def _let_go(self) -> None:
        """Remove the callbacks: they refer to the parser, and only the garbage collector would free such cycles."""
        for occasion in _OCCASIONS:
            setattr(self._parser, occasion, None)
        self._handlers = (None, None)

    def _listen(self) -> list[Element]:
        """Install the callbacks that build the tree, and return the list that will contain the root."""
        document, parser = self._document, self._parser
        chunks = document.chunks
        names = _Names(document.elements)
        most, deepest, widest = self._limits.elements, self._limits.depth, self._limits.attributes
        roots: list[Element] = []
        above: Element | None = None
        count = depth = 0

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal above, count, depth
            count += 1
            depth += 1
            if count > most or depth > deepest or len(attributes) > widest:
                self._refuse_size(count, len(attributes))
            namespace, local, alike = names[name]
            parent = above
            above = Element(document, namespace, local, attributes, parent, parser.CurrentByteIndex, len(chunks))
            alike.append(above)
            if parent is None:
                roots.append(above)
            elif parent.children:
                parent.children.append(above)  # type: ignore[attr-defined]  # the list below
            else:
                parent.children = [above]
            if name == DIAGRAM_TAG:
                parser.StartElementHandler, parser.EndElementHandler = (
                    (None, None) if self._unwatched_until else self._watch(deepest - depth, most - count, leave)
                )
                parser.CharacterDataHandler = None

        def end(name: str) -> None:
            nonlocal above, depth
            assert above is not None, "what ends has started"
            above.last_chunk = len(chunks)
            above.close = parser.CurrentByteIndex
            above = above.parent
            depth -= 1

        def leave(name: str, passed: int) -> None:
            nonlocal count
            count += passed
            self._wake()
            end(name)

        self._handlers = start, end
        self._wake()
        return roots

    def _watch(self, deepest: int, most: int, leave: Callable[[str, int], None]) -> tuple[_Start, _End]:
        """Return the callbacks for a diagram that is not plain: its content counts for the limits and is left out."""
        depth = count = 0

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal depth, count
            depth += 1
            count += 1
            if depth > deepest or count > most:
                self._refuse_size(count - most + self._limits.elements)

        def end(name: str) -> None:
            nonlocal depth
            depth -= 1
            if depth < 0:
                leave(name, count)

        return start, end

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if version != "1.0":
            # XML 1.1 has other line ends and control characters than the parser supports.
            self._refuse(FOREIGN_ENCODING, f'XML version {version} is not read; write version="1.0"')
        declared = (encoding or "utf-8").lower()
        if declared not in ("utf-8", "us-ascii", "ascii"):
            self._refuse(
                FOREIGN_ENCODING,
                f'encoding {encoding} is not read; save the file as UTF-8 and write encoding="UTF-8"',
            )
        if declared != "utf-8" and not self._source.content.removeprefix(_UTF8_MARK).isascii():
            self._refuse(
                FOREIGN_ENCODING,
                f'the file declares {encoding} and holds other characters; write encoding="UTF-8"',
            )

    def _document_type(self, *_: object) -> None:
        self._refuse(DOCUMENT_TYPE, "a DOCTYPE is not allowed in a model; remove it with its entities")

    def _interruption(self, *_: str) -> None:
        self._document.interruptions.append(self._parser.CurrentByteIndex)

    def _refuse_size(self, count: int, attributes: int = 0) -> "NoReturn":
        if count > self._limits.elements:
            self._refuse(OVER_LIMIT, f"more than {self._limits.elements:,} elements")
        if attributes > self._limits.attributes:
            self._refuse(OVER_LIMIT, f"an element has more than {self._limits.attributes:,} attributes")
        self._refuse(OVER_LIMIT, f"elements are nested more than {self._limits.depth} deep")

    def _refuse(self, code: str, message: str, offset: int | None = None) -> "NoReturn":
        at = self._parser.CurrentByteIndex if offset is None else offset
        raise ModelError(code, message, self._source.position(at)) from None


class _Names(dict[str, tuple[str, str, ElementGroup]]):
    """Element names as expat writes them, each with its namespace, local name and all elements of that name."""

    def __init__(self, elements: dict[tuple[str, str], ElementGroup]) -> None:
        self._elements = elements

    def __missing__(self, name: str) -> tuple[str, str, ElementGroup]:
        namespace, local = name_of(name)
        alike = self._elements.setdefault((namespace, local), ElementGroup())
        self[name] = resolved = (namespace, local, alike)
        return resolved
