"""The parser of conditions: recursive descent that stops at the first invalid token."""

from verblint.contracts.syntax import UNSIGNED
from verblint.feel import syntax_errors as reason
from verblint.feel.condition import And, BareFlag, Comparison, FlagRead, Literal, Membership, Not, Or, Test
from verblint.feel.grammar import LITERAL_WORDS, MAX_DEPTH, MAX_INTEGER, MAX_LENGTH, ConditionError, is_flag
from verblint.feel.syntax_errors import Reason
from verblint.feel.tokenizer import KEYWORDS, FeelToken, TokenKind, mentions, tokenize
from verblint.startup import TYPE_CHECKING
from verblint.startup.pattern import pattern

if TYPE_CHECKING:
    from typing import NoReturn

_PAYLOAD = "domain_payload"
_UNSIGNED = pattern(UNSIGNED)
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_WORDS = (TokenKind.NAME, TokenKind.STRING, TokenKind.NUMBER)


def parse_any(text: str) -> Test:
    """Parse any condition, or raise ConditionError."""
    check_text(text)
    tokens = list(tokenize(text, 1))
    _check_payload(text, tokens)
    check_tokens(tokens)
    return ConditionParser(text, tokens).run()


def check_text(text: str) -> None:
    """Reject what no condition may be: too long, not ASCII, not FEEL."""
    if len(text) > MAX_LENGTH:
        message = f"the condition has {len(text):,} characters; {MAX_LENGTH:,} is the most"
        raise ConditionError(Reason(reason.OVER_LIMIT, message, reason.LET_A_VERB_DECIDE), MAX_LENGTH, len(text))
    if not (text.isascii() and text.isprintable()):
        for index, character in enumerate(text):
            if not (" " <= character <= "~" or character in "\t\r\n"):
                raise ConditionError(reason.of_character(character), index, index + 1)
    if not text.startswith("="):
        raise ConditionError(reason.of_text(text), 0, len(text))


def _check_payload(text: str, tokens: list[FeelToken]) -> None:
    if _PAYLOAD not in "".join(text.split()):
        return
    for token in tokens:
        if mentions(token.text, _PAYLOAD) or mentions(token.text, f"{_PAYLOAD}_hash"):
            message = "the condition touches the payload, which is opaque to the engine"
            _refuse(token, reason.PAYLOAD, message, reason.LET_A_VERB_DECIDE)


def check_tokens(tokens: list[FeelToken]) -> None:
    """Reject what is invalid anywhere in a condition: comments, and words without a space between them."""
    before: FeelToken | None = None
    for token in tokens:
        if token.kind is TokenKind.COMMENT:
            hint = "Remove it; the name of the flow is the place for words"
            _refuse(token, reason.SYNTAX, "a condition may not hold a comment", hint)
        if before is not None and before.end == token.start and before.kind in _WORDS and token.kind in _WORDS:
            message = f"{before.text} and {token.text} are glued together"
            _refuse(token, reason.MISSING_OPERATOR, message, f"Write a space: {before.text} {token.text}")
        before = token


def _refuse(token: FeelToken | Literal, code: str, message: str, hint: str) -> "NoReturn":
    raise ConditionError(Reason(code, message, hint), token.start, token.end)


class ConditionParser:
    """One pass over the tokens of one text."""

    def __init__(self, text: str, tokens: list[FeelToken]) -> None:
        self._end = FeelToken(TokenKind.UNKNOWN, "", len(text), len(text))
        self._tokens = tokens
        self._stream = [*tokens, self._end]
        self._at = 0
        self._depth = 0

    def run(self) -> Test:
        """Parse all tokens."""
        test = self._or()
        if self._token is not self._end:
            self._stop(reason.of_continuation(self._token))
        return test

    def _or(self) -> Test:
        tests = [self._and()]
        while self._takes_word("or"):
            tests.append(self._and())
        return tests[0] if len(tests) == 1 else Or(tuple(tests))

    def _and(self) -> Test:
        tests = [self._test()]
        while self._takes_word("and"):
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else And(tuple(tests))

    def _test(self) -> Test:
        token = self._token
        if self._takes("("):
            return self._group(token)
        if self._takes_word("not"):
            opening = self._token
            if not self._takes("("):
                hint = "Write not(...): without parentheses the engine joins the words in another way"
                _refuse(token, reason.MISSING_OPERATOR, "`not` needs parentheses", hint)
            return Not(self._group(opening))
        if not self._begins_test(token):
            self._stop(reason.of_start(self._tokens, self._at))
        return self._flag_test()

    def _begins_test(self, token: FeelToken) -> bool:
        return token.kind is TokenKind.NAME and token.text not in KEYWORDS

    def _group(self, opening: FeelToken) -> Test:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"parentheses are nested more than {MAX_DEPTH} deep; some hundreds stop a broker for good"
            _refuse(opening, reason.OVER_LIMIT, message, reason.LET_A_VERB_DECIDE)
        test = self._or()
        if self._token is self._end:
            _refuse(opening, reason.SYNTAX, "a parenthesis is not closed", "Write ) where the group ends")
        if not self._takes(")"):
            self._stop(reason.of_continuation(self._token))
        self._depth -= 1
        return test

    def _flag_test(self) -> Test:
        flag = self._flag()
        operator = self._token
        if operator.kind is TokenKind.OPERATOR and operator.text in COMPARISONS:
            self._at += 1
            return Comparison(flag, operator.text, self._comparand(operator))
        if self._takes_word("in"):
            return Membership(flag, self._list())
        return BareFlag(flag)

    def _flag(self) -> FlagRead:
        token = self._token
        misuse = reason.of_name(self._tokens, self._at)
        if misuse is not None:
            self._stop(misuse)
        if not is_flag(token.text):
            self._stop(reason.of_flag_name(token.text))
        self._at += 1
        return FlagRead(token.text, token.start, token.end)

    def _comparand(self, operator: FeelToken) -> Literal:
        literal = self._literal()
        if operator.text not in ("=", "!=") and type(literal.value) is not int:
            _refuse(literal, reason.SYNTAX, f"`{operator.text}` compares integers only", "Write = or != instead")
        return literal

    def _list(self) -> tuple[Literal, ...]:
        if not self._takes("("):
            message = "behind `in` the engine takes all that follows for the list unless it is in parentheses"
            self._stop(Reason(reason.LIST_WITHOUT_PARENTHESES, message, 'Write: in ("a", "b")'))
        if self._token.text == ")":
            self._stop(Reason(reason.SYNTAX, "the list is empty", 'Write: in ("a", "b")'))
        literals = [self._literal()]
        while self._takes(","):
            literals.append(self._literal())
        if not self._takes(")"):
            self._stop(Reason(reason.SYNTAX, "the list is not closed here", 'Write: in ("a", "b")'))
        for literal in literals:
            if isinstance(literal.value, bool) or literal.value is None:
                message = "true, false or null in a list is a test of its own that ignores the flag"
                _refuse(literal, reason.MIXED_LIST, message, "Compare with = instead")
            if isinstance(literal.value, str) is not isinstance(literals[0].value, str):
                message = "the list mixes strings and numbers"
                _refuse(literal, reason.MIXED_LIST, message, "Write values of the flag's type only")
        return tuple(literals)

    def _literal(self) -> Literal:
        token = self._token
        self._at += 1
        if token.kind is TokenKind.STRING:
            return _string(token)
        if token.kind is TokenKind.NUMBER:
            return _integer(token, 1, token.start)
        if token.text == "-" and self._token.kind is TokenKind.NUMBER and self._token.start == token.end:
            self._at += 1
            return _integer(self._tokens[self._at - 1], -1, token.start)
        if token.text in LITERAL_WORDS:
            return Literal(LITERAL_WORDS[token.text], token.start, token.end)
        self._at -= 1
        self._stop(reason.of_comparand(self._tokens, self._at))

    @property
    def _token(self) -> FeelToken:
        return self._stream[self._at]

    def _takes(self, operator: str) -> bool:
        token = self._stream[self._at]
        found = token.text == operator and token.kind is TokenKind.OPERATOR
        self._at += found
        return found

    def _takes_word(self, word: str) -> bool:
        token = self._stream[self._at]
        found = token.text == word and token.kind is TokenKind.NAME
        self._at += found
        return found

    def _stop(self, why: Reason) -> "NoReturn":
        raise ConditionError(why, self._token.start, self._token.end)


def _string(token: FeelToken) -> Literal:
    value = token.text[1:-1]
    if "\\" in value or not value.isprintable():
        hint = "Let the flag hold a plain word: the engine does not translate every escape"
        _refuse(token, reason.SYNTAX, "a string in a condition has no escapes and no line ends", hint)
    return Literal(value, token.start, token.end)


def _integer(token: FeelToken, sign: int, start: int) -> Literal:
    if not _UNSIGNED.fullmatch(token.text):
        hint = "Write decimal digits without a leading zero"
        _refuse(token, reason.SYNTAX, f"{token.text} is not an integer", hint)
    value = int(token.text)
    if value > MAX_INTEGER:
        _refuse(token, reason.SYNTAX, f"{token.text} is too large", f"{MAX_INTEGER} is the most")
    return Literal(sign * value, start, token.end)
