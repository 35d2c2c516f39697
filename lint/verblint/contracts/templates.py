"""Templates: text with placeholders for identities and keys, the same for the linter and the worker.

    template    = { text | "\\${" | "${" placeholder "}" }
    placeholder = variable | "state." path
    variable    = process_instance_id | process_run_id | step_id | step_instance_id
    path        = identifier { "." identifier }

A backslash is special only before `${`, where it makes the two characters plain text.
"""

from collections.abc import Iterable, Mapping

from verblint.contracts.syntax import DATA_FIELD
from verblint.startup.pattern import pattern
from verblint.startup.value import value

VARIABLES = ("process_instance_id", "process_run_id", "step_id", "step_instance_id")
STATE = "state."

_PIECE = pattern(r"\\\$\{|\$\{([^}]*)\}|\$\{")
State = Mapping[str, object]


class TemplateError(Exception):
    """An invalid template; `start` and `end` delimit the invalid characters."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end


class TemplateMissingPath(Exception):
    """A placeholder whose path is missing from the state, or is not a single plain value."""


class TemplateEmpty(Exception):
    """A template that evaluates to an empty string, which cannot be a key."""


@value
class Placeholder:
    """A variable, or `state.` and a path, with its position in the text."""

    name: str
    start: int
    end: int

    @property
    def path(self) -> tuple[str, ...]:
        """The steps into the state; empty for a variable."""
        return tuple(self.name.split(".")[1:]) if self.name.startswith(STATE) else ()


@value
class Template:
    """A parsed template: texts and placeholders in order."""

    pieces: tuple[str | Placeholder, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Placeholder))

    def evaluate(self, state: State, variables: Mapping[str, str]) -> str:
        """Return the text with every placeholder replaced, or raise TemplateMissingPath or TemplateEmpty."""
        found = (p if isinstance(p, str) else _read(p, state, variables) for p in self.pieces)
        text = "".join(found)
        if not text:
            raise TemplateEmpty("the template came out empty")
        return text


def parse(text: str) -> Template:
    """Parse a template, or raise TemplateError."""
    pieces: list[str | Placeholder] = []
    at = 0
    for match in _PIECE.finditer(text):
        pieces.append(text[at : match.start()])
        at = match.end()
        if match[0].startswith("\\"):
            pieces.append("${")
            continue
        if match[1] is None:
            raise TemplateError("the placeholder is not closed", match.start(), match.end())
        name = match[1]
        if not _is_known(name):
            raise TemplateError(f"${{{name}}} is not a placeholder", match.start(), match.end())
        pieces.append(Placeholder(name, match.start(), match.end()))
    return Template(tuple(piece for piece in (*pieces, text[at:]) if piece))


def is_path(text: str) -> bool:
    """Return whether a text is identifiers joined by dots."""
    return DATA_FIELD.fits(text)


def text_at(state: State, path: Iterable[str]) -> str | None:
    """Return the value at a path as a part of a key; None if missing or not a string, a number or a boolean."""
    found: object = state
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int) else None


def _is_known(name: str) -> bool:
    return name in VARIABLES or (name.startswith(STATE) and is_path(name[len(STATE) :]))


def _read(placeholder: Placeholder, state: State, variables: Mapping[str, str]) -> str:
    if not placeholder.path:
        if placeholder.name not in variables:
            raise TemplateMissingPath(f"{placeholder.name} is not known here")
        return variables[placeholder.name]
    found = text_at(state, placeholder.path)
    if found is None:
        raise TemplateMissingPath(f"{placeholder.name} is missing, or is not a string, a number or a boolean")
    return found
