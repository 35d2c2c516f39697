"""Lines from a pipe: the same session with nobody to ask."""

import asyncio
import sys
from typing import BinaryIO

from verbworker.app.output import complain, say
from verbworker.errors import InvocationInvalid
from verbworker.repl.formatting import plain
from verbworker.repl.lines import is_open
from verbworker.repl.session import ReplSession
from verbworker.repl.shapes import ArgumentSlot

_LONGEST = 1024 * 1024


class Nobody:
    """Nobody is there: what is about to happen is said, and happens only where that was agreed to beforehand."""

    def __init__(self, *, agrees: bool) -> None:
        self._agrees = agrees

    async def ask(self, question: str, slot: ArgumentSlot) -> str | None:
        """Refused with the question itself, so that the next try can answer it."""
        raise InvocationInvalid(f"{slot.name} is open, and nobody is here to answer: {question}")

    async def agrees(self, sentence: str) -> bool | None:
        """What `--yes` said."""
        if self._agrees:
            return True
        say(plain(sentence))
        return None


class Pipe:
    """The lines that came so far, and those still to come."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.past: list[str] = []

    async def read(self) -> str | None:
        """The next whole line, over several while a parenthesis is open; an empty one ends it. None at the end."""
        text = ""
        while piece := await asyncio.to_thread(self._source.readline, _LONGEST):
            text += piece.decode("utf-8", "surrogateescape")
            if not piece.strip() or len(text) >= _LONGEST or not is_open(text):
                break
        if not text:
            return None
        self.past.append(text.strip())
        return text


async def run_lines(session: ReplSession, pipe: Pipe) -> int:
    """Do what each line asks for; the worst that happened is the exit code."""
    worst = 0
    while (line := await pipe.read()) is not None:
        answer = await session.evaluate(line)
        for said in answer.said:
            say(plain(said))
        if answer.complaint is not None:
            complain(plain(answer.complaint))
        sys.stdout.flush()
        worst = max(worst, answer.code)
        if answer.leaves:
            break
    return worst
