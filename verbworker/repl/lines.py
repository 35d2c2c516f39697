"""Lines: what somebody typed, told apart: an order with its words, or a verb to perform."""

import re
from collections.abc import Container
from dataclasses import dataclass

from verbworker.contract.invocation import Invocation, parse

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"?|[()]|[^\s()"]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """A word of the REPL itself, and what follows it."""

    word: str
    rest: str

    def words(self, most: int) -> list[str]:
        """What follows, in at most so many words: the last one holds everything that is left."""
        return self.rest.split(maxsplit=most - 1)


def read(line: str, verbs: Container[str]) -> Order | Invocation:
    """What a line asks for; raises `InvocationInvalid` where it begins like a verb and goes on otherwise.

    A verb's name may stand alone at the beginning, as people say it: the parentheses are put around it.
    """
    text = line.strip()
    if text.startswith("("):
        return parse(text)
    word, *more = text.split(maxsplit=1) or [""]
    if word in verbs:
        return parse(f"({text})")
    return Order(word.lower(), more[0] if more else "")


def is_open(text: str) -> bool:
    """Whether a verb's parentheses or quotation marks wait for their other half."""
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
    """Whether a word that begins with a quotation mark ends with one that counts."""
    return re.fullmatch(r'"(?:[^"\\]|\\.)*"', word, re.DOTALL) is not None


def split(text: str) -> tuple[list[str], str]:
    """The words before the cursor that are finished, and the one that is being written."""
    words = _WORD.findall(text)
    if not words:
        return [], ""
    last = words[-1]
    is_text_open = last.startswith('"') and not is_closed(last)
    if not is_text_open and (text[-1].isspace() or last in ("(", ")") or last.startswith('"')):
        return words, ""
    return words[:-1], last
