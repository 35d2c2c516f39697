"""A tokenizer for the whole of FEEL: it finds every name an expression could read and rejects nothing.

It reports too many names rather than too few. A reported name may be a function, a key or a keyword, but every variable
that the engine reads is included. Two habits of the engine's parser make this harder than it looks: it treats some
invisible characters as blanks, and it reads a keyword without checking where the word ends: `1 ordomain_payload` reads
`domain_payload`.
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

# Keywords that the engine never takes for a name when they are the whole word.
RESERVED = frozenset(
    ("and", "else", "false", "function", "in", "null", "or", "return", "satisfies", "then", "true"),
)

# What the engine skips between tokens; several are invisible, and some are not blanks to other tools.
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
    """One token: its kind, its text as written, and its position in the expression."""

    kind: TokenKind
    text: str
    start: int
    end: int


_ASCII_BLANK = "\t\n\v\f\r "
_ASCII_LETTERS = r"[A-Za-z_$\x00-\x08\x0e-\x1b\x7f]"
# Java identifiers allow most of Unicode, so every non-blank character beyond ASCII counts as a letter.
_LETTERS = rf"(?:{_ASCII_LETTERS}|(?![{BLANKS}])[^\x00-\x7f])"


_LONGEST_VARIABLE = 256  # characters; see the slices below
_INVISIBLE_ASCII = dict.fromkeys((*range(33), 127))


def tokenize(expression: str, start: int = 0) -> Iterator[FeelToken]:
    """Yield the tokens of an expression from an index on, without blanks. Any text has tokens; nothing is rejected."""
    for match in _token(expression.isascii()).finditer(expression, start):
        if match.lastgroup != "blank":
            yield FeelToken(_KINDS[match.lastgroup or ""], match[0], *match.span())


@cache
def _token(is_ascii: bool) -> Pattern[str]:
    """Return the token pattern; for ASCII, as in most expressions, it is much simpler.

    A quote without its partner is one unknown character, and the text after it is still searched.
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
    """Return every name the expression could read as a variable, and maybe more."""
    found: set[str] = set()
    for token in tokenize(expression):
        if token.kind is TokenKind.QUOTED:
            found.add(token.text.strip("`"))
        elif token.kind is TokenKind.NAME:
            found.update(_readings(token.text))
    return frozenset(found - RESERVED)


def mentions(expression: str, variable: str) -> bool:
    """Return whether the expression could read the variable, or hides that it does.

    Comments are searched too, and invisible characters are ignored.
    """
    if variable not in _visible(expression):
        # Every token is part of the expression, so no token can contain it either.
        return False
    for token in tokenize(expression):
        if token.kind is TokenKind.COMMENT and variable in _visible(token.text):
            return True
    return any(_visible(name) == variable for name in names(expression))


def single_name(expression: str) -> str | None:
    """Return the name if the expression is a single plain ASCII name, otherwise None."""
    if not expression.isascii():
        return None
    name = expression.strip(_ASCII_BLANK)
    return name if name.isidentifier() and name not in KEYWORDS else None


def _readings(name: str) -> Iterator[str]:
    """Yield a word, and what remains of it if the engine takes its start for a keyword."""
    yield name
    pending = [0]
    while pending:
        at = pending.pop()
        after = [at + len(word) for word in KEYWORDS if name.startswith(word, at)]
        pending.extend(after)
        # Slices of a very long word would take quadratic space; no variable is that long.
        yield from (name[end:] for end in after if end < len(name) <= end + _LONGEST_VARIABLE)


def _visible(text: str) -> str:
    if text.isascii():
        return text.translate(_INVISIBLE_ASCII)
    # Imported here because hardly any expression has more than ASCII.
    from unicodedata import category

    return "".join(c for c in text if c not in BLANKS and category(c) not in ("Cf", "Cc", "Mn"))
