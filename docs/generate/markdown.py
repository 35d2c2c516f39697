"""Markdown: tables and texts that come from docstrings and help texts."""

import re
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may hold anything but a line break."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines) + "\n"


def code(text: object) -> str:
    """Return a text between backticks, more of them than it has itself; nothing for nothing."""
    words = " ".join(str(text).split())
    if "`" not in words:
        return f"`{words}`" if words else ""
    around = "`" * (_longest_run(words) + 1)
    return f"{around} {words} {around}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital and ends with a full stop."""
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ':', '!', '?')) else '.'}" if text else ""


def fence(text: str, language: str = "text") -> str:
    """Return a block of code."""
    around = "`" * max(3, _longest_run(text) + 1)
    return f"{around}{language}\n{text.rstrip()}\n{around}\n\n"


def anchor(text: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
