"""Lines from a pipe: the same session without a person to ask."""

import asyncio
import sys
from typing import BinaryIO

from verbworker.app.output import complain, say
from verbworker.errors import InvocationInvalid
from verbworker.repl.formatting import plain
from verbworker.repl.lines import is_open
from verbworker.repl.session import ReplSession
from verbworker.repl.shapes import ArgumentSlot

_LONGEST_INPUT = 1024 * 1024  # bytes; a pipe without line ends must not fill the memory


class UnattendedInput:
    """Replaces the person: prints what would happen, and agrees only if that was allowed beforehand."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees

    async def ask(self, question: str, slot: ArgumentSlot) -> str | None:
        """Refuse with the question itself, so that the next try can answer it."""
        raise InvocationInvalid(f"{slot.name} is missing, and a pipe cannot answer: {question}")

    async def agrees(self, sentence: str) -> bool | None:
        """Return True with `--yes`; otherwise print the sentence and return None."""
        if self._agrees:
            return True
        say(plain(sentence))
        return None


class Pipe:
    """The lines read so far, and those still to come."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.past: list[str] = []

    async def read(self) -> str | None:
        """Return the next input or None at the end; it spans lines while a parenthesis is open and none is blank."""
        text = ""
        while piece := await asyncio.to_thread(self._source.readline, _LONGEST_INPUT):
            text += piece.decode("utf-8", "surrogateescape")
            if not piece.strip() or len(text) >= _LONGEST_INPUT or not is_open(text):
                break
        if not text:
            return None
        self.past.append(text.strip())
        return text


async def run_lines(session: ReplSession, pipe: Pipe) -> int:
    """Evaluate each line; returns the worst exit code."""
    worst = 0
    while (line := await pipe.read()) is not None:
        answer = await session.evaluate(line)
        for line in answer.lines:
            say(plain(line))
        if answer.complaint is not None:
            complain(plain(answer.complaint))
        sys.stdout.flush()
        worst = max(worst, answer.code)
        if answer.leaves:
            break
    return worst
