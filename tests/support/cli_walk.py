"""Command lines that are written down somewhere, read by the command line itself: nothing is run."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from verbworker.cli.lazy_commands import PLACES

# What stands for something in a text, and something that fits there.
PLACEHOLDERS = {
    "ENTRY": "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40",
    "LETTER": "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40",
    "JOB": "2251799813685256",
    "CASE": "case-1",
}


def misuse(words: Sequence[str]) -> str | None:
    """What is wrong with the words behind `verbworker`, or None when they can be read: commands, options, values."""
    # What follows is the shell's.
    given = [PLACEHOLDERS.get(word, word) for word in takewhile(lambda word: word != ">", words)]
    if not given or given[0] not in PLACES:
        return f"there is no command {' '.join(given[:1])}"
    return _misuse(PLACES[given[0]].load(given[0]), given[0], given[1:])


def _misuse(command: Any, name: str, words: list[str]) -> str | None:
    if hasattr(command, "commands"):
        below = command.commands.get(words[0]) if words else None
        return _misuse(below, words[0], words[1:]) if below is not None else f"{name} has no {' '.join(words[:1])}"
    try:
        command.make_context(name, list(words))
    except Exception as error:
        # The parser's errors have a message for people; anything else is a bug of this walk.
        if not hasattr(error, "format_message"):
            raise
        return f"{name}: {error.format_message()}"
    return None


def shell_blocks(text: str) -> list[list[str]]:
    """The commands of each `sh` block of a Markdown text; lines that end in a backslash are joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    joined = [block.replace("\\\n", " ").splitlines() for block in blocks]
    return [[line for line in block if line.strip() and not line.startswith("#")] for block in joined]


def commands_in(text: str) -> Iterator[list[str]]:
    """The words behind every `verbworker` of a Markdown text, in blocks and between backticks."""
    lines = [line for block in shell_blocks(text) for line in block]
    beside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", beside)]
    for line in lines:
        if line.startswith("verbworker "):
            yield shlex.split(line, comments=True)[1:]
