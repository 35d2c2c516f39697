"""A command in a real terminal, and the screen that a person in front of it sees."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect  # type: ignore[import-untyped]  # it ships no types

from tests.support.command import COMMAND, environment

ROWS, COLUMNS = 40, 120
ENTER, TAB, CTRL_C, CTRL_D = "\r", "\t", "\x03", "\x04"
_TIMEOUT = 60.0
_GLANCE = 0.05
_PART = re.compile(
    r"\x1b\[(?P<numbers>[0-9;?]*)[ ]?(?P<command>[A-Za-z])"  # what moves, clears and colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78]"  # titles and character sets
    r"|(?P<letter>[^\x1b])",
    re.DOTALL,
)


class Screen:
    """Rows of letters, drawn as a terminal draws them; what went out at the top is kept."""

    def __init__(self) -> None:
        self._above: list[str] = []
        self._rows = [[" "] * COLUMNS for _ in range(ROWS)]
        self._row = self._column = 0
        self._rest = ""

    @property
    def rows(self) -> list[str]:
        """What is on the screen, from the top to the last row that has anything."""
        return "\n".join("".join(row).rstrip() for row in self._rows).rstrip().split("\n")

    @property
    def text(self) -> str:
        """Everything that was drawn and not cleared."""
        return "\n".join([*self._above, *self.rows])

    def feed(self, written: str) -> str:
        """Draw what a program wrote and return what the terminal answers; half a sequence waits for its other half."""
        written, at, answer = self._rest + written, 0, ""
        while found := _PART.match(written, at):
            at = found.end()
            if found["letter"] is not None:
                self._draw(found["letter"])
            elif (found["command"], found["numbers"]) == ("n", "6"):
                answer += f"\x1b[{self._row + 1};{self._column + 1}R"
            elif found["command"] is not None:
                self._obey(found["command"], found["numbers"])
        self._rest = written[at:]
        return answer

    def _draw(self, letter: str) -> None:
        match letter:
            case "\r":
                self._column = 0
            case "\n":
                self._down()
            case "\b":
                self._column = max(self._column - 1, 0)
            case _ if letter.isprintable():
                if self._column == COLUMNS:
                    self._column = 0
                    self._down()
                self._rows[self._row][self._column] = letter
                self._column += 1

    def _down(self) -> None:
        if self._row < ROWS - 1:
            self._row += 1
            return
        self._above.append("".join(self._rows.pop(0)).rstrip())
        self._rows.append([" "] * COLUMNS)

    def _obey(self, command: str, numbers: str) -> None:
        given = [int(number) for number in numbers.split(";") if number.isdigit()]
        count = given[0] if given else 0
        match command:
            case "A":
                self._row = max(self._row - max(count, 1), 0)
            case "B":
                self._row = min(self._row + max(count, 1), ROWS - 1)
            case "C":
                self._column = min(self._column + max(count, 1), COLUMNS - 1)
            case "D":
                self._column = max(self._column - max(count, 1), 0)
            case "H":
                self._row, self._column = (part - 1 for part in (given if len(given) == 2 else (1, 1)))
            case "J":
                self._clear(self._row if count == 0 else 0, self._column if count == 0 else 0)
            case "K":
                self._rows[self._row][self._column :] = [" "] * (COLUMNS - self._column)

    def _clear(self, row: int, column: int) -> None:
        self._rows[row][column:] = [" "] * (COLUMNS - column)
        for below in range(row + 1, ROWS):
            self._rows[below] = [" "] * COLUMNS


class Seat:
    """Somebody's place in front of a running command."""

    def __init__(self, child: pexpect.spawn) -> None:
        self._child = child
        self.screen = Screen()

    def press(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def enter(self, line: str) -> None:
        """Write a line and press Enter."""
        self.press(line + ENTER)

    def until(self, words: str, *, times: int = 1) -> None:
        """Look at the screen until it shows something so often."""
        self._look(lambda: self.screen.text.count(words) >= times, f"never showed {words!r}")

    def until_below(self, words: str) -> None:
        """Look at the line at the bottom until it says something."""
        self._look(lambda: words in self.screen.rows[-1], f"never said {words!r} at the bottom")

    def until_prompted(self, prompt: str) -> None:
        """Look until a prompt waits for its first letter: keys pressed before go to the terminal itself."""

        def is_waiting() -> bool:
            prompts = [row for row in self.screen.rows if row.startswith(prompt)]
            return prompts[-1:] == [prompt]

        self._look(is_waiting, f"never waited at {prompt!r}")

    def _look(self, holds: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, f"{complaint}:\n{self.screen.text}"
            assert self._glance() or holds(), f"it ended and {complaint}:\n{self.screen.text}"

    def _glance(self) -> bool:
        """Draw what came by now, and answer as a terminal does; False when there will be no more."""
        try:
            self._child.send(self.screen.feed(self._child.read_nonblocking(65536, _GLANCE)))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        return True

    def exit_code(self) -> int:
        """Look until it has ended, and say how."""
        deadline = time.monotonic() + _TIMEOUT
        while self._glance():
            assert time.monotonic() < deadline, f"it never ended:\n{self.screen.text}"
        self._child.wait()
        code: int = self._child.exitstatus if self._child.exitstatus is not None else -self._child.signalstatus
        return code


@contextmanager
def seated(*arguments: str, directory: Path, state: Path, dsn: str, **settings: str) -> Iterator[Seat]:
    """`verbworker` in a terminal of its own, ended in any case."""
    given = {"TERM": "xterm", "XDG_STATE_HOME": str(state), **settings}
    child = pexpect.spawn(
        str(COMMAND),
        list(arguments),
        env=environment(dsn, **given),
        cwd=str(directory),
        dimensions=(ROWS, COLUMNS),
        encoding="utf-8",
        timeout=_TIMEOUT,
    )
    child.delaybeforesend = None
    try:
        yield Seat(child)
    finally:
        child.close(force=True)
