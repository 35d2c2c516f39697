"""The reader: bytes of a BPMN file in, one tree of elements out, and anything hostile refused.

The parser is expat. What it would let pass and an engine would not, or only at a cost, is refused here:
document types (and with them every entity trick), other encodings, and documents that are too large,
too deep or have too many elements.
"""

from collections.abc import Sequence
from typing import NoReturn
from xml.parsers import expat

from verblint.element import Document, Element
from verblint.source import Position, Source
from verblint.value import value

NOT_WELL_FORMED = "HB001"
DOCUMENT_TYPE = "HB002"
FOREIGN_ENCODING = "HB003"
OVER_LIMIT = "HB004"

_UTF8_MARK = b"\xef\xbb\xbf"
# The first bytes of UTF-16 and UTF-32 documents, with or without a byte order mark.
_WIDE_STARTS = (b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00")
# A line feed cannot stand in a local name, so the last one always ends the namespace.
_SEPARATOR = "\n"


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
    """One pass of expat over one source."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._document = Document(source)
        self._open: list[Element] = []
        self._root: Element | None = None
        self._count = 0
        # The encoding is fixed, so that what the declaration claims can only be checked, never obeyed.
        self._parser = parser = expat.ParserCreate("utf-8", _SEPARATOR)
        parser.ordered_attributes = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._document_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction

    def run(self) -> Element:
        """Parse it all and return the root."""
        try:
            self._parser.Parse(self._source.content, True)
        except expat.ExpatError as error:
            self._refuse(
                NOT_WELL_FORMED,
                f"not well-formed XML: {expat.ErrorString(error.code)}",
                self._parser.ErrorByteIndex,
            )
        assert self._root is not None, "expat refuses a document without a root"
        return self._root

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

    def _start(self, name: str, attributes: Sequence[str]) -> None:
        self._count += 1
        if self._count > self._limits.elements:
            self._refuse(OVER_LIMIT, f"more than {self._limits.elements:,} elements")
        if len(self._open) >= self._limits.depth:
            self._refuse(OVER_LIMIT, f"elements are nested more than {self._limits.depth} deep")
        parent = self._open[-1] if self._open else None
        values = {_resolved(attributes[i]): attributes[i + 1] for i in range(0, len(attributes), 2)}
        element = Element(self._document, *_resolved(name), values, parent, self._parser.CurrentByteIndex)
        element.first_chunk = len(self._document.chunks)
        if parent is None:
            self._root = element
        else:
            parent.children.append(element)
        self._open.append(element)

    def _end(self, name: str) -> None:
        element = self._open.pop()
        element.last_chunk = len(self._document.chunks)
        at = self._parser.CurrentByteIndex
        content = self._source.content
        # Of an empty element expat gives the byte after the tag, of any other the byte of its end tag.
        bare = not element.children and element.first_chunk == element.last_chunk
        element.end = at if bare and content[at - 2 : at] == b"/>" else content.index(b">", at) + 1

    def _characters(self, text: str) -> None:
        self._document.chunks.append(text)
        self._document.chunk_starts.append(self._parser.CurrentByteIndex)

    def _comment(self, text: str) -> None:
        self._document.interruptions.append(self._parser.CurrentByteIndex)

    def _instruction(self, target: str, text: str) -> None:
        self._document.interruptions.append(self._parser.CurrentByteIndex)

    def _refuse(self, code: str, message: str, offset: int | None = None) -> NoReturn:
        at = self._parser.CurrentByteIndex if offset is None else offset
        raise ModelError(code, message, self._source.position(at)) from None


def _resolved(name: str) -> tuple[str, str]:
    namespace, _, local = name.rpartition(_SEPARATOR)
    return namespace, local
