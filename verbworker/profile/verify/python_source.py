"""Spelling: names and texts of a contract as Python source, in the one form that a formatter leaves as it is."""

import keyword
import re
from collections.abc import Collection, Iterable
from typing import Any

WIDTH = 120
_LONGEST_STEM = 30
_PIECE = 100
_INDENT = "    "


class Names:
    """The names of one scope: each is given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str, forms: Collection[str]) -> str:
        """The stem itself, or with the first number that helps: with it every form is a name that was free.

        In a form `{}` stands for the stem, `{C}` for its capitals and `{P}` for its words run together.
        """
        number = 1
        while True:
            own = wanted if number == 1 else f"{wanted}_{number}"
            names = {form.format(own, C=own.upper(), P=pascal(own)) for form in forms}
            if not names & self._taken and not any(map(keyword.iskeyword, names)):
                self._taken |= names
                return own
            number += 1


def stem(text: str) -> str:
    """The words of a text as a lower-case name; there is always one, and it begins with a letter."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower())[:_LONGEST_STEM].strip("_")
    if not words:
        return "other"
    return words if words[0].isalpha() else f"n{words}"


def pascal(own: str) -> str:
    """A lower-case name as the name of a class."""
    return "".join(word.capitalize() for word in own.split("_"))


def constant(name: str, text: str) -> str:
    """A constant that is a text, over several lines when it is long."""
    whole = "".join(_units(text))
    if len(line := f'{name}: Final = "{whole}"') <= WIDTH:
        return line
    return "\n".join((f"{name}: Final = (", *(f"{_INDENT}{piece}" for piece in _broken(text, 0)), ")"))


def literal(name: str, values: Collection[str]) -> str:
    """A type whose values are these texts."""
    flat = f"{name} = Literal[{', '.join(_quoted(value) for value in values)}]"
    if len(flat) <= WIDTH:
        return flat
    comma = "," if len(values) > 1 else ""
    lines = [line for value in values for line in _element(value, 1, comma)]
    return "\n".join((f"{name} = Literal[", *lines, "]"))


def spelled(text: str) -> list[str]:
    """A text as one or more texts in quotes that follow each other, none of them long."""
    return _broken(text, 0, room=_PIECE)


def exploded(value: Any, depth: int = 0) -> str:
    """A plain value with each of its parts on a line of its own."""
    inside, outside = _INDENT * (depth + 1), _INDENT * depth
    match value:
        case dict() if value:
            lines = [f"{inside}{_quoted(key)}: {exploded(part, depth + 1)}," for key, part in sorted(value.items())]
            return "\n".join(("{", *lines, f"{outside}}}"))
        case list() if value:
            lines = []
            for part in value:
                if isinstance(part, str):
                    lines += _element(part, depth + 1, ",")
                else:
                    lines.append(f"{inside}{exploded(part, depth + 1)},")
            return "\n".join(("[", *lines, f"{outside}]"))
        case str():
            return _quoted(value)
        case _:
            return repr(value)


def _element(text: str, depth: int, comma: str) -> list[str]:
    indent = _INDENT * depth
    return [f"{indent}{piece}" for piece in _broken(text, len(indent) + len(comma))[:-1]] + [
        f"{indent}{_broken(text, len(indent) + len(comma))[-1]}{comma}"
    ]


def _quoted(text: str) -> str:
    return f'"{"".join(_units(text))}"'


def _broken(text: str, margin: int, *, room: int | None = None) -> list[str]:
    """A text in quotes, or several that stand for it when one is too long for its line."""
    units = _units(text)
    most = WIDTH - max(margin, len(_INDENT)) - 2 if room is None else room
    if sum(map(len, units)) <= most:
        return [f'"{"".join(units)}"']
    pieces: list[str] = [""]
    for unit in units:
        if len(pieces[-1]) + len(unit) > _PIECE:
            pieces.append("")
        pieces[-1] += unit
    return [f'"{piece}"' for piece in pieces]


def _units(text: str) -> list[str]:
    """Each character as it is written between double quotes; what a terminal may show in two columns is escaped."""
    return [_unit(character) for character in text]


def _unit(character: str) -> str:
    if character == '"':
        # A formatter would choose other quotes rather than a backslash.
        return r"\x22"
    if character == "\\":
        return r"\\"
    if character.isprintable() and ord(character) < 0x250:
        return character
    return ascii(character)[1:-1]
