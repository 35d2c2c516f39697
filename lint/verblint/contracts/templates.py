"""Templates: text with placeholders for identities and keys, the same to the linter and to the worker.

    template    = { text | "\\${" | "${" placeholder "}" }
    placeholder = variable | "state." path
    variable    = process_instance_id | process_run_id | step_id | step_instance_id
    path        = identifier { "." identifier }

A backslash means something only before `${`, where it makes the two characters plain text.
"""

from collections.abc import Mapping

from verblint.startup.pattern import pattern
from verblint.startup.value import value

VARIABLES = ("process_instance_id", "process_run_id", "step_id", "step_instance_id")
STATE = "state."

_PATH = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_PIECE = pattern(r"\\\$\{|\$\{([^}]*)\}|\$\{")
Scalar = str | int | bool
State = Mapping[str, object]


class TemplateError(Exception):
    """A text that is no template; `start` and `end` are the characters to blame."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end


class TemplateMissingPath(Exception):
    """A placeholder names something that the state does not have, or that is not one plain value."""


class TemplateEmpty(Exception):
    """A template came out as an empty text, which can be no key."""


@value
class Placeholder:
    """A variable, or `state.` and a path, with its place in the text."""

    name: str
    start: int
    end: int

    @property
    def path(self) -> tuple[str, ...]:
        """The steps into the state; empty for a variable."""
        return tuple(self.name.split(".")[1:]) if self.name.startswith(STATE) else ()


@value
class Template:
    """A parsed template: texts and placeholders in the order they are written."""

    pieces: tuple[str | Placeholder, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders in the order they are written."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Placeholder))

    def evaluate(self, state: State, variables: Mapping[str, str]) -> str:
        """The text with every placeholder replaced, or TemplateMissingPath, or TemplateEmpty."""
        found = (p if isinstance(p, str) else _read(p, state, variables) for p in self.pieces)
        text = "".join(found)
        if not text:
            raise TemplateEmpty("the template came out empty")
        return text


def parse(text: str) -> Template:
    """The template that a text is, or TemplateError."""
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
    """True for identifiers joined by dots."""
    return _PATH.fullmatch(text) is not None


def _is_known(name: str) -> bool:
    return name in VARIABLES or (name.startswith(STATE) and is_path(name[len(STATE) :]))


def _read(placeholder: Placeholder, state: State, variables: Mapping[str, str]) -> str:
    if not placeholder.path:
        if placeholder.name not in variables:
            raise TemplateMissingPath(f"{placeholder.name} is not known here")
        return variables[placeholder.name]
    found: object = state
    for step in placeholder.path:
        found = found.get(step) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, str | int):
        return str(found)
    raise TemplateMissingPath(f"{placeholder.name} is missing, or is not a text, a number or a truth")
