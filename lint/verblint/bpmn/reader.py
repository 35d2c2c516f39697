"""The reader: bytes of a BPMN file in, one tree of elements out, and anything hostile refused.

The parser is expat. What it would let pass and an engine would not, or only at a cost, is refused here:
document types (and with them every entity trick), other encodings, and documents that are too large,
too deep or have too many elements.
"""

from collections.abc import Callable
from pyexpat import ErrorString, ExpatError, ParserCreate

from verblint.bpmn.diagram import TAG as DIAGRAM_TAG
from verblint.bpmn.diagram import end_of_inside, ends_with_root
from verblint.bpmn.element import SEPARATOR, Document, Element, name_of
from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.source import Position, Source
from verblint.startup.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Loading `typing` would take a tenth of a start.
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
    """The reader will not read this file; the code says which of its rules was broken, and where."""

    def __init__(self, code: str, message: str, position: Position) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line, self.column = position


@value
class Limits:
    """How much the reader takes before it refuses."""

    size: int = 2 * 1024 * 1024
    depth: int = 100
    elements: int = 50_000


DEFAULT_LIMITS = Limits()


def read(content: bytes, name: str = "<bytes>", limits: Limits = DEFAULT_LIMITS) -> Element:
    """The root element of a document, or ModelError."""
    source = Source(name, content)
    if len(content) > limits.size:
        # Whoever reads the file may have stopped one byte beyond the limit.
        message = f"the file has more than {limits.size:,} bytes, which is the most a model may have"
        raise ModelError(OVER_LIMIT, message, Position(1, 1))
    if content.startswith(_WIDE_STARTS):
        raise ModelError(FOREIGN_ENCODING, "the file is UTF-16 or UTF-32; save it as UTF-8", Position(1, 1))
    return _Reading(source, limits).run()


class _Reading:
    """One pass of expat over one source.

    It notes only what cannot be worked out from the bytes later: most files are in order, and nobody will ever ask
    where in them a text begins.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._document = Document(source)
        self._unwatched_until = end_of_inside(source.content, limits.elements, limits.depth)
        # The encoding is fixed, so that what the declaration claims can only be checked, never obeyed.
        self._parser = parser = ParserCreate("utf-8", SEPARATOR)
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._document_type
        parser.CommentHandler = self._interruption
        parser.ProcessingInstructionHandler = self._interruption
        self._handlers: tuple[_Start | None, _End | None] = (None, None)

    def run(self) -> Element:
        """Parse it all and return the root."""
        content, parser = self._source.content, self._parser
        roots = self._listen()
        end = self._unwatched_until
        try:
            if end and not ends_with_root(content, end):
                parser.Parse(content[:end], False)
                # The parser has come to the end of the diagram, or has not met one where it seemed to be.
                self._wake()
                parser.Parse(content[end:], True)
            else:
                parser.Parse(content, True)
                self._close_unwatched(roots[0])
        except ExpatError as error:
            message = f"not well-formed XML: {ErrorString(error.code)}"
            self._refuse(NOT_WELL_FORMED, message, parser.ErrorByteIndex)
        finally:
            self._let_go()
        return roots[0]

    def _close_unwatched(self, root: Element) -> None:
        """Note the ends of a diagram that was the last of a document, and of its root, if nobody watched them."""
        if not root.close:
            chunks = len(self._document.chunks)
            diagram = root.children[-1]
            diagram.close, diagram.last_chunk = self._unwatched_until, chunks
            root.close, root.last_chunk = self._source.content.rindex(b"</"), chunks

    def _wake(self) -> None:
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._handlers
        self._parser.CharacterDataHandler = self._document.chunks.append

    def _let_go(self) -> None:
        """Forget who listens: listeners know the parser, and circles would have to wait for the garbage collector."""
        for occasion in _OCCASIONS:
            setattr(self._parser, occasion, None)
        self._handlers = (None, None)

    def _listen(self) -> list[Element]:
        """Let the parser call what builds the tree, and return the list in which the root will be."""
        document, parser = self._document, self._parser
        chunks = document.chunks
        names = _Names(document.elements)
        most, deepest = self._limits.elements, self._limits.depth
        roots: list[Element] = []
        above: Element | None = None
        count = depth = 0

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal above, count, depth
            count += 1
            depth += 1
            if count > most or depth > deepest:
                self._refuse_size(count)
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
            assert above is not None, "what ends has begun"
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
        """What the parser calls inside a diagram that is not plain: it is held to the limits and left out."""
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
            # XML 1.1 has other line ends and other control characters than the parser knows.
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

    def _refuse_size(self, count: int) -> "NoReturn":
        if count > self._limits.elements:
            self._refuse(OVER_LIMIT, f"more than {self._limits.elements:,} elements")
        self._refuse(OVER_LIMIT, f"elements are nested more than {self._limits.depth} deep")

    def _refuse(self, code: str, message: str, offset: int | None = None) -> "NoReturn":
        at = self._parser.CurrentByteIndex if offset is None else offset
        raise ModelError(code, message, self._source.position(at)) from None


class _Names(dict[str, tuple[str, str, ElementGroup]]):
    """Element names as expat writes them, each with its namespace, its local name and all elements of that name."""

    def __init__(self, elements: dict[tuple[str, str], ElementGroup]) -> None:
        self._elements = elements

    def __missing__(self, name: str) -> tuple[str, str, ElementGroup]:
        namespace, local = name_of(name)
        alike = self._elements.setdefault((namespace, local), ElementGroup())
        self[name] = resolved = (namespace, local, alike)
        return resolved
