"""A tokenizer for the whole of FEEL: it finds every name an expression could read, and judges nothing.

It errs on one side only. A name it reports may turn out to be a function, a key or a keyword; a variable that
the engine reads is always among them. Two habits of the engine's parser make that harder than it looks: it
takes some invisible characters for blanks, and it reads a keyword without looking where the word ends:
`1 ordomain_payload` reads `domain_payload`.
"""

from collections.abc import Iterator
from enum import Enum
from functools import cache
from re import DOTALL, VERBOSE, Pattern

from verblint.startup.pattern import pattern
from verblint.startup.value import value

KEYWORDS = frozenset(
    """
    and between else every external false for function if in instance not null of or return satisfies some
    then true
    """.split()  # noqa: SIM905  a word list reads better than a list of words
)

# The keywords that the engine never takes for a name when they stand alone.
RESERVED = frozenset(
    ("and", "else", "false", "function", "in", "null", "or", "return", "satisfies", "then", "true"),
)

# What the engine skips between tokens; several of these are invisible and some are not blanks elsewhere.
BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


class TokenKind(Enum):
    """What a token is."""

    NAME = "name"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    OPERATOR = "operator"
    COMMENT = "comment"
    UNKNOWN = "unknown"


_KINDS = {kind.value: kind for kind in TokenKind}


@value(guarded=False)
class FeelToken:
    """One token: its kind, its text as written, and where it stands in the expression."""

    kind: TokenKind
    text: str
    start: int
    end: int


_ASCII_BLANK = "\t\n\v\f\r "
_ASCII_LETTERS = r"[A-Za-z_$\x00-\x08\x0e-\x1b\x7f]"
# Java's identifiers admit most of Unicode, so every character beyond ASCII that is not a blank is taken for a letter.
_LETTERS = rf"(?:{_ASCII_LETTERS}|(?![{BLANKS}])[^\x00-\x7f])"


_LONGEST_VARIABLE = 256
_INVISIBLE_ASCII = dict.fromkeys((*range(33), 127))


def tokenize(expression: str, start: int = 0) -> Iterator[FeelToken]:
    """The tokens of an expression from a character on, blanks left out. Any text has tokens; nothing is refused."""
    for match in _token(expression.isascii()).finditer(expression, start):
        if match.lastgroup != "blank":
            yield FeelToken(_KINDS[match.lastgroup or ""], match[0], *match.span())


@cache
def _token(is_ascii: bool) -> Pattern[str]:
    """What a token looks like; in plain ASCII, as most expressions are, much less can occur.

    A quote without its partner is one unknown character, and what follows it is still searched.
    """
    blanks, letters = (_ASCII_BLANK, _ASCII_LETTERS) if is_ascii else (BLANKS, _LETTERS)
    return pattern(
        rf"""
          (?P<blank>    [{blanks}]+ )
        | (?P<comment>  //[^\n]* | /\*.*?\*/ )
        | (?P<string>   "(?:\\.|[^"\\])*" )
        | (?P<quoted>   `[^`]+` )
        | (?P<name>     {letters} (?:{letters} | [0-9])* )
        | (?P<number>   [0-9]+(?:\.[0-9]+)? | \.[0-9]+ )
        | (?P<operator> \*\*|<=|>=|!=|\.\.|->|[-+*/<>=(){{}}\[\].,:?@] )
        | (?P<unknown>  . )
        """,
        VERBOSE | DOTALL,
    )


def names(expression: str) -> frozenset[str]:
    """Every name the expression could read as a variable, and perhaps more."""
    found: set[str] = set()
    for token in tokenize(expression):
        if token.kind is TokenKind.QUOTED:
            found.add(token.text.strip("`"))
        elif token.kind is TokenKind.NAME:
            found.update(_readings(token.text))
    return frozenset(found - RESERVED)


def mentions(expression: str, variable: str) -> bool:
    """True when the expression could read the variable, or was made to look as if it did not.

    Comments are searched too, and characters that cannot be seen are ignored.
    """
    if variable not in _visible(expression):
        # Every token is a stretch of the expression, so no token can hold it either.
        return False
    for token in tokenize(expression):
        if token.kind is TokenKind.COMMENT and variable in _visible(token.text):
            return True
    return any(_visible(name) == variable for name in names(expression))


def single_name(expression: str) -> str | None:
    """The name when the expression is one plain ASCII name and nothing else, otherwise None."""
    if not expression.isascii():
        return None
    name = expression.strip(_ASCII_BLANK)
    return name if name.isidentifier() and name not in KEYWORDS else None


def _readings(name: str) -> Iterator[str]:
    """A word as it stands, and what is left of it when the engine takes its beginning for a keyword."""
    yield name
    pending = [0]
    while pending:
        at = pending.pop()
        after = [at + len(word) for word in KEYWORDS if name.startswith(word, at)]
        pending.extend(after)
        # Slices of a very long word would take quadratic room; no variable is that long.
        yield from (name[end:] for end in after if end < len(name) <= end + _LONGEST_VARIABLE)


def _visible(text: str) -> str:
    if text.isascii():
        return text.translate(_INVISIBLE_ASCII)
    # A library of its own, and hardly any expression has more than ASCII.
    from unicodedata import category

    return "".join(c for c in text if c not in BLANKS and category(c) not in ("Cf", "Cc", "Mn"))
