"""The bytes of one file, and the conversion of byte offsets to lines and columns."""

from itertools import accumulate

from verblint.startup.value import field, value

_BLOCK = 4096  # bytes; decoding that many for one column costs nothing one would notice
# After this many lookups, the starts of all lines are computed.
_FEW = 8
_CONTINUATION = bytes(range(0x80, 0xC0))


class Position(tuple[int, int]):
    """A line and a column, both counted from 1; a column counts characters, not bytes."""

    __slots__ = ()

    def __new__(cls, line: int, column: int) -> "Position":
        """Create a position."""
        return super().__new__(cls, (line, column))

    @property
    def line(self) -> int:
        """The line."""
        return self[0]

    @property
    def column(self) -> int:
        """The column."""
        return self[1]


@value(frozen=False, eq=False)
class Source:
    """The bytes of one file, under the name given to the reader.

    `starts` are the offsets of its lines, `blocks` the number of characters before each block of bytes; both are
    computed when lookups are frequent enough. Treat it as frozen.
    """

    name: str
    content: bytes
    starts: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    asked: int = 0

    def position(self, offset: int) -> Position:
        """Return the line and column of a byte offset; a byte order mark is at the start of the first line."""
        offset = max(offset, self._first)
        line, begin = self._line_of(offset)
        if offset - begin <= _BLOCK:
            return Position(line, len(self.content[begin:offset].decode("utf-8", "replace")) + 1)
        # A file may be one long line with many findings, so character counts are cached.
        return Position(line, self._characters_before(offset) - self._characters_before(begin) + 1)

    def _line_of(self, offset: int) -> tuple[int, int]:
        """Return the line of a byte and the offset where the line starts."""
        self.asked += 1
        if self.asked <= _FEW and b"\r" not in self.content:
            before = self.content.rfind(b"\n", 0, offset)
            return self.content.count(b"\n", 0, offset) + 1, max(before + 1, self._first)
        # Imported here because few files have that many lookups.
        from bisect import bisect_right

        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, starts[line - 1]

    def line(self, number: int) -> str:
        """Return the text of a line without its line end."""
        starts = self._line_starts()
        end = starts[number] if number < len(starts) else len(self.content)
        return self.content[starts[number - 1] : end].decode("utf-8", "replace").rstrip("\r\n")

    def _characters_before(self, offset: int) -> int:
        if not self.blocks:
            counts = (_count(self.content[at : at + _BLOCK]) for at in range(0, len(self.content), _BLOCK))
            self.blocks.extend(accumulate(counts, initial=0))
        number = offset // _BLOCK
        return self.blocks[number] + _count(self.content[number * _BLOCK : offset])

    @property
    def _first(self) -> int:
        """The offset after a byte order mark."""
        return 3 if self.content.startswith(b"\xef\xbb\xbf") else 0

    def _line_starts(self) -> list[int]:
        if not self.starts:
            lines = self.content[self._first :].splitlines(keepends=True)
            self.starts.extend(accumulate(map(len, lines), initial=self._first))
            if lines and not lines[-1].endswith((b"\n", b"\r")):
                self.starts.pop()
        return self.starts


def _count(raw: bytes) -> int:
    """Count the UTF-8 characters that start in some bytes."""
    return len(raw.translate(None, _CONTINUATION))
