"""The grammar of conditions: parses a text, or explains why it is invalid.

Nearly every condition compares one flag with one literal, which one pattern recognizes. The full parser is imported
only for the others.
"""

from verblint.contracts.syntax import FLAG_NAME
from verblint.feel.condition import Comparison, FlagRead, Literal, Test, Value
from verblint.startup import TYPE_CHECKING
from verblint.startup.pattern import pattern

if TYPE_CHECKING:
    from verblint.feel.syntax_errors import Reason

MAX_LENGTH = 1000  # characters; a condition that people can read is far shorter
MAX_DEPTH = 16  # parentheses; bounds the recursion
MAX_INTEGER = 2**53 - 1  # beyond it FEEL's numbers and JSON's differ
LITERAL_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}

_PLAIN = pattern(rf'= *({FLAG_NAME.expression}) *(!?=) *("[a-zA-Z0-9_.-]*"|true|false|null|0|[1-9][0-9]{{0,14}}) *')


class ConditionError(Exception):
    """An invalid condition; `start` and `end` delimit the invalid characters of the text."""

    def __init__(self, reason: "Reason", start: int, end: int) -> None:
        super().__init__(reason.message)
        self.code = reason.code
        self.message = reason.message
        self.hint = reason.hint
        self.start = start
        self.end = end


def is_flag(name: str) -> bool:
    """Return whether a name is a valid flag name."""
    return FLAG_NAME.fits(name)


def parse(text: str) -> Test:
    """Parse the text of a condition, including its leading equals sign, or raise ConditionError."""
    plain = plain_comparison(text)
    if plain is not None:
        return plain
    from verblint.feel.condition_parser import parse_any

    return parse_any(text)


def plain_comparison(text: str) -> Comparison | None:
    """Return the test if it compares one flag with one literal and nothing is unusual, or None."""
    match = _PLAIN.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        return None
    literal = match[3]
    if literal[0] == '"':
        value: Value = literal[1:-1]
    else:
        value = LITERAL_WORDS[literal] if literal in LITERAL_WORDS else int(literal)
    return Comparison(FlagRead(match[1], *match.span(1)), match[2], Literal(value, *match.span(3)))
