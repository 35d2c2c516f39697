"""Why a token is invalid at its place in a condition, and what to write instead."""

from collections.abc import Sequence
from unicodedata import name as unicode_name

from verblint.feel.tokenizer import KEYWORDS, FeelToken, TokenKind
from verblint.startup.value import value

NOT_FEEL = "HB201"
SYNTAX = "HB202"
NOT_A_FLAG = "HB203"
CALL = "HB205"
ARITHMETIC = "HB206"
PATH_OR_FILTER = "HB207"
PAYLOAD = "HB208"
FLAG_AGAINST_VARIABLE = "HB209"
MISSING_OPERATOR = "HB210"
LIST_WITHOUT_PARENTHESES = "HB211"
MIXED_LIST = "HB212"
NOT_ASCII = "HB213"
OVER_LIMIT = "HB214"
CONSTANT = "HB217"

LET_A_VERB_DECIDE = "Let a sub-verb compute it and set a flag, then write: =orch_<name> = true"
_COMPUTING_WORDS = ("if", "for", "some", "every", "function", "between", "instance", "external")
_LITERAL_WORDS = ("true", "false", "null")
_OTHER_LANGUAGES = {
    "'": ("single quotes are not FEEL", 'Write strings in double quotes: "a"'),
    '"': ("a string is not closed", 'Write a double quote at its end: "a"'),
    "`": ("a backtick is not closed", "Write flags without backticks"),
    "&": ("`&&` is not FEEL", "Write: and"),
    "|": ("`||` is not FEEL", "Write: or"),
    "!": ("`!` is not FEEL", "Write: not(...)"),
}


@value
class Reason:
    """A code, a sentence about what is wrong, and one about what to write."""

    code: str
    message: str
    hint: str


def of_character(character: str) -> Reason:
    """Explain why a character is not allowed in a condition."""
    name = unicode_name(character, "a control character")
    message = f"the character U+{ord(character):04X} ({name}) is not allowed in a condition"
    return Reason(NOT_ASCII, message, "Write plain ASCII: some characters look like others, some cannot be seen")


def of_text(text: str) -> Reason:
    """Explain why a text that does not start with an equals sign is not a condition."""
    if text.startswith(("${", "#{")):
        return Reason(NOT_FEEL, "the condition is written for Camunda 7", 'Write FEEL: =orch_<name> = "value"')
    if not text:
        return Reason(NOT_FEEL, "the condition is empty", 'Write: =orch_<name> = "value"')
    return Reason(NOT_FEEL, "the condition does not begin with an equals sign", "Write = in front of it")


def of_start(tokens: Sequence[FeelToken], at: int) -> Reason:
    """Explain why a token cannot start a test."""
    if at >= len(tokens):
        return Reason(SYNTAX, "the condition stops too early", 'A flag is expected: orch_<name> = "value"')
    token = tokens[at]
    if token.kind in (TokenKind.STRING, TokenKind.NUMBER) or token.text in _LITERAL_WORDS:
        return _of_leading_literal(tokens, at)
    if token.kind is TokenKind.QUOTED:
        return Reason(NOT_A_FLAG, "a name in backticks is not a flag", "Write orch_<name> without backticks")
    if token.text in _COMPUTING_WORDS:
        return Reason(CALL, f"the condition computes with `{token.text}`", LET_A_VERB_DECIDE)
    if token.text in ("[", "]", "{"):
        return Reason(PATH_OR_FILTER, "the condition builds a list, a range or a context", LET_A_VERB_DECIDE)
    return _of_stray(token)


def of_continuation(token: FeelToken) -> Reason:
    """Explain why a token cannot follow a complete test."""
    if token.text in _COMPUTING_WORDS:
        return Reason(CALL, f"the condition computes with `{token.text}`", LET_A_VERB_DECIDE)
    if token.kind is TokenKind.NAME and token.text.startswith("or"):
        message = f"an operator is missing before `{token.text}`; the engine would read: or {token.text[2:]}"
        return Reason(MISSING_OPERATOR, message, f"Write: and {token.text}, or: or {token.text}")
    if token.kind in (TokenKind.NAME, TokenKind.QUOTED, TokenKind.STRING, TokenKind.NUMBER):
        return Reason(MISSING_OPERATOR, f"an operator is missing before {token.text}", "Write and, or, or a comparison")
    if token.text in ("=", "!=", "<", "<=", ">", ">="):
        return Reason(SYNTAX, "a test cannot be compared again", "Join two tests with and, or with or")
    return _of_stray(token)


def of_name(tokens: Sequence[FeelToken], at: int) -> Reason | None:
    """Explain why the name at a position cannot be a flag, or return None if it may be one."""
    token = tokens[at]
    end = _end_of_words(tokens, at)
    following = tokens[end].text if end < len(tokens) else ""
    if following == "(":
        name = " ".join(word.text for word in tokens[at:end])
        return Reason(CALL, f"the condition calls {name}(...)", LET_A_VERB_DECIDE)
    if end == at + 1:
        return _of_operator(following, token.text)
    return None


def of_comparand(tokens: Sequence[FeelToken], at: int) -> Reason:
    """Explain why a token cannot be the value a flag is compared with."""
    if at >= len(tokens):
        return Reason(SYNTAX, "the condition stops before the value", "Write a string, an integer, true, false or null")
    token = tokens[at]
    if token.text in _COMPUTING_WORDS:
        return Reason(CALL, f"the condition computes with `{token.text}`", LET_A_VERB_DECIDE)
    if token.kind is TokenKind.QUOTED or (token.kind is TokenKind.NAME and token.text not in KEYWORDS):
        against = Reason(FLAG_AGAINST_VARIABLE, f"a flag is compared with the variable {token.text}", LET_A_VERB_DECIDE)
        return of_name(tokens, at) or against
    if token.text == "=":
        return Reason(SYNTAX, "`==` is not FEEL", "Write one equals sign")
    if token.text in ("[", "{"):
        return Reason(PATH_OR_FILTER, "a flag is compared with a list, a range or a context", LET_A_VERB_DECIDE)
    return _of_stray(token)


def of_flag_name(name: str) -> Reason:
    """Explain why a name is not the name of a flag."""
    if name.lower().startswith("orch"):
        hint = "Write lower-case words joined by single underscores: orch_<word>_<word>"
        return Reason(NOT_A_FLAG, f"`{name}` is not how a flag is written", hint)
    if name.startswith("corr_"):
        return Reason(NOT_A_FLAG, f"`{name}` is a correlation key; only a subscription may read it", LET_A_VERB_DECIDE)
    hint = "Conditions read orch_* only. " + LET_A_VERB_DECIDE
    return Reason(NOT_A_FLAG, f"`{name}` is not a flag", hint)


def _of_leading_literal(tokens: Sequence[FeelToken], at: int) -> Reason:
    rest = tokens[at + 1 : at + 3]
    operator = rest[0].text if rest else ""
    computing = _of_operator(operator, tokens[at].text)
    if computing is not None:
        return computing
    if len(rest) == 2 and operator in ("=", "!=", "<", "<=", ">", ">=") and rest[1].text.startswith("orch_"):
        return Reason(SYNTAX, "the flag must be on the left", f"Write: {rest[1].text} ... {tokens[at].text}")
    return Reason(CONSTANT, "the condition does not depend on a flag", "Make it the default flow, or test a flag")


def _of_operator(operator: str, left: str) -> Reason | None:
    if operator in ("+", "-", "*", "/", "**"):
        dash = " (a dash is a minus, also inside a name)" if operator == "-" else ""
        return Reason(ARITHMETIC, f"the condition computes `{left} {operator} ...`{dash}", LET_A_VERB_DECIDE)
    if operator in (".", "["):
        what = "a path into" if operator == "." else "a filter on"
        return Reason(PATH_OR_FILTER, f"the condition uses {what} `{left}`", LET_A_VERB_DECIDE)
    return None


def _of_stray(token: FeelToken) -> Reason:
    computing = _of_operator(token.text, "...")
    if computing is not None:
        return computing
    if token.text == "@":
        return Reason(CALL, "the condition computes with a date or a duration", LET_A_VERB_DECIDE)
    if token.text == ")":
        return Reason(SYNTAX, "a closing parenthesis has no partner here", "Remove it")
    message, hint = _OTHER_LANGUAGES.get(
        token.text, (f"`{token.text}` is not allowed here", "See the grammar of conditions")
    )
    return Reason(SYNTAX, message, hint)


def _end_of_words(tokens: Sequence[FeelToken], at: int) -> int:
    """Return the index after a run of names: names of FEEL functions may contain blanks."""
    end = at + 1
    while (
        end < len(tokens) and tokens[end].kind is TokenKind.NAME and tokens[end].text not in ("in", "and", "or", "not")
    ):
        end += 1
    return end
