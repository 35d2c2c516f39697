"""Names and texts of a contract as Python source, in a form that a formatter leaves unchanged."""

import keyword
import re
from collections.abc import Collection, Iterable
from typing import Any

WIDTH = 120  # characters; as wide as this project's own code
# What no lower-case name holds.
OTHER_SIGNS = re.compile(r"[^a-z0-9]+")
_LONGEST_STEM = 30  # characters; a constant and a value beside it fit one line
_PIECE = 100  # characters; a piece of a long text, with indentation and quotes, fits `WIDTH`
_INDENT = "    "


class Names:
    """The names of one scope, each assigned once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str, forms: Collection[str]) -> str:
        """Return the stem, or the stem with the first number for which every form is an unused name.

        In a form `{}` is the stem, `{C}` its upper case and `{P}` its words in Pascal case.
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
    """Return a text as a lower-case name; never empty, and always starts with a letter."""
    words = OTHER_SIGNS.sub("_", text.lower())[:_LONGEST_STEM].strip("_")
    if not words:
        return "other"
    return words if words[0].isalpha() else f"n{words}"


def pascal(own: str) -> str:
    """Return a lower-case name as a class name."""
    return "".join(word.capitalize() for word in own.split("_"))


def constant(name: str, text: str) -> str:
    """Return a string constant, over several lines if it is long."""
    whole = "".join(_units(text))
    if len(line := f'{name}: Final = "{whole}"') <= WIDTH:
        return line
    return "\n".join((f"{name}: Final = (", *(f"{_INDENT}{piece}" for piece in _broken(text, 0)), ")"))


def literal(name: str, values: Collection[str]) -> str:
    """Return a `Literal` type of these texts."""
    flat = f"{name} = Literal[{', '.join(_quote(value) for value in values)}]"
    if len(flat) <= WIDTH:
        return flat
    comma = "," if len(values) > 1 else ""
    lines = [line for value in values for line in _element(value, 1, comma)]
    return "\n".join((f"{name} = Literal[", *lines, "]"))


def split_text(text: str) -> list[str]:
    """Return a text as one or more adjacent quoted strings, none of them long."""
    return _broken(text, 0, room=_PIECE)


def format_literal(value: Any, depth: int = 0) -> str:
    """Return a plain value with each of its parts on its own line."""
    inside, outside = _INDENT * (depth + 1), _INDENT * depth
    match value:
        case dict() if value:
            lines = [
                f"{inside}{_quote(key)}: {format_literal(part, depth + 1)}," for key, part in sorted(value.items())
            ]
            return "\n".join(("{", *lines, f"{outside}}}"))
        case list() if value:
            lines = []
            for part in value:
                if isinstance(part, str):
                    lines += _element(part, depth + 1, ",")
                else:
                    lines.append(f"{inside}{format_literal(part, depth + 1)},")
            return "\n".join(("[", *lines, f"{outside}]"))
        case str():
            return _quote(value)
        case _:
            return repr(value)


def _element(text: str, depth: int, comma: str) -> list[str]:
    indent = _INDENT * depth
    return [f"{indent}{piece}" for piece in _broken(text, len(indent) + len(comma))[:-1]] + [
        f"{indent}{_broken(text, len(indent) + len(comma))[-1]}{comma}"
    ]


def _quote(text: str) -> str:
    return f'"{"".join(_units(text))}"'


def _broken(text: str, margin: int, *, room: int | None = None) -> list[str]:
    """Return a quoted text, or several pieces if it is too long for its line."""
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
    """Return each character as written in double quotes; those a terminal may show in two columns are escaped."""
    return [_unit(character) for character in text]


def _unit(character: str) -> str:
    if character == '"':
        # A formatter would change the quotes rather than keep a backslash.
        return r"\x22"
    if character == "\\":
        return r"\\"
    if character.isprintable() and ord(character) < 0x250:
        return character
    return ascii(character)[1:-1]
