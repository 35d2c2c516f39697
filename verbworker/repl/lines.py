"""Parses input lines: an order with its words, or a verb to perform."""

import re
from collections.abc import Container
from dataclasses import dataclass

from verbworker.contract.invocation import Invocation, parse

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"?|[()]|[^\s()"]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """A command of the REPL itself, and what follows it."""

    word: str
    rest: str

    def words(self, most: int) -> list[str]:
        """Split what follows into at most `most` words; the last one holds the remainder."""
        return self.rest.split(maxsplit=most - 1)


def read(line: str, verbs: Container[str]) -> Order | Invocation:
    """Parse a line; raises `InvocationInvalid` if it starts like a verb but is malformed.

    A verb's name may come first without parentheses; they are added.
    """
    text = line.strip()
    if text.startswith("("):
        return parse(text)
    word, *more = text.split(maxsplit=1) or [""]
    if word in verbs:
        return parse(f"({text})")
    return Order(word.lower(), more[0] if more else "")


def is_open(text: str) -> bool:
    """Return whether a verb's parentheses or quotation marks are still open."""
    if not text.lstrip().startswith("("):
        return False
    depth = 0
    for word in _WORD.findall(text):
        depth += (word == "(") - (word == ")")
        if word.startswith('"') and not is_closed(word):
            return True
        if depth <= 0:
            return False
    return depth > 0


def is_closed(word: str) -> bool:
    """Return whether a word that starts with a quotation mark ends with an unescaped one."""
    return re.fullmatch(r'"(?:[^"\\]|\\.)*"', word, re.DOTALL) is not None


def split(text: str) -> tuple[list[str], str]:
    """Split the text before the cursor into its finished words and the one being written."""
    words = _WORD.findall(text)
    if not words:
        return [], ""
    last = words[-1]
    is_text_open = last.startswith('"') and not is_closed(last)
    if not is_text_open and (text[-1].isspace() or last in ("(", ")") or last.startswith('"')):
        return words, ""
    return words[:-1], last
