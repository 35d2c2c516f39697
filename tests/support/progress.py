"""Says what goes on while a command works for long: one line that moves at a terminal, one now and then elsewhere.

`python tests/support/progress.py "installing 120 packages" pip install ...` runs a command so. Needs no package.
"""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

_AT_TERMINAL = 0.2
_ELSEWHERE = 10.0


class Progress:
    """A sentence, how long it has been true, and the last thing that was heard."""

    def __init__(self, sentence: str, out: TextIO, *, every: float | None = None) -> None:
        self._sentence = sentence
        self._out = out
        self._moves = out.isatty()
        self._every = every or (_AT_TERMINAL if self._moves else _ELSEWHERE)
        self._began = time.monotonic()
        self._ended = threading.Event()
        self.heard = ""

    def run(self) -> None:
        """Show it until it has ended."""
        if not self._moves:
            self._print(self._sentence)
        while not self._ended.wait(self._every):
            self._show()

    def end(self, words: str) -> None:
        """Show how it ended."""
        self._ended.set()
        self._print(f"{self._sentence}: {words} after {self._seconds()} s")

    def _show(self) -> None:
        line = f"{self._sentence}: {self._seconds()} s" + (f", {self.heard}" if self.heard else "")
        if self._moves:
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[2K{line[:width]}")
            self._out.flush()
        else:
            self._print(line)

    def _seconds(self) -> int:
        return int(time.monotonic() - self._began)

    def _print(self, line: str) -> None:
        self._out.write(("\r\x1b[2K" if self._moves else "") + line + "\n")
        self._out.flush()


@contextmanager
def progress(sentence: str, out: TextIO | None = None, *, every: float | None = None) -> Iterator[Progress]:
    """Show a sentence and its seconds while the block runs."""
    shown = Progress(sentence, out or sys.stdout, every=every)
    thread = threading.Thread(target=shown.run, daemon=True)
    thread.start()
    words = "failed"
    try:
        yield shown
        words = "done"
    finally:
        shown.end(words)
        thread.join()


def main(sentence: str, command: Sequence[str], *, every: float | None = None) -> int:
    """Run a command; what it said is shown if it fails. Returns its exit code."""
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            with progress(sentence, every=every) as shown:
                for line in process.stdout:
                    said.append(line)
                    shown.heard = " ".join(line.split()[:4])
                code = process.wait()
                if code:
                    raise subprocess.CalledProcessError(code, command)
        except subprocess.CalledProcessError:
            sys.stderr.write("".join(said))
        except KeyboardInterrupt:
            process.terminate()
            return 130
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
