"""One file's bytes, and the arithmetic between byte offsets and the lines and columns people read."""

from bisect import bisect_right

from verblint.pattern import pattern
from verblint.value import field, value

_LINE_END = pattern(rb"\r\n|\n|\r")


class Position(tuple[int, int]):
    """A line and a column, both counted from 1; a column counts characters, not bytes."""

    __slots__ = ()

    def __new__(cls, line: int, column: int) -> "Position":
        """A place in a file."""
        return super().__new__(cls, (line, column))

    @property
    def line(self) -> int:
        """The line."""
        return self[0]

    @property
    def column(self) -> int:
        """The column."""
        return self[1]


@value(eq=False)
class Source:
    """The bytes of one file under the name its reader knows it by.

    `starts` are its lines', once somebody asked; `asked` are line, offset and column of the last answer.
    """

    name: str
    content: bytes
    starts: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=lambda: [0, 0, 0])

    def position(self, offset: int) -> Position:
        """The line and column of a byte offset; a byte order mark stands where the first line begins."""
        starts = self._line_starts()
        offset = max(offset, starts[0])
        line = bisect_right(starts, offset)
        known, at, column = self.asked
        # A file may be one long line with a finding at every step: count on from the last answer.
        if line != known or offset < at:
            at, column = starts[line - 1], 1
        column += len(self.content[at:offset].decode("utf-8", "replace"))
        self.asked[:] = line, offset, column
        return Position(line, column)

    def line(self, number: int) -> str:
        """The text of a line without its line end."""
        starts = self._line_starts()
        end = starts[number] if number < len(starts) else len(self.content)
        return self.content[starts[number - 1] : end].decode("utf-8", "replace").rstrip("\r\n")

    def _line_starts(self) -> list[int]:
        # Filled on first use: a clean model never asks for a position.
        if not self.starts:
            first = 3 if self.content.startswith(b"\xef\xbb\xbf") else 0
            self.starts.append(first)
            self.starts.extend(match.end() for match in _LINE_END.finditer(self.content))
        return self.starts
