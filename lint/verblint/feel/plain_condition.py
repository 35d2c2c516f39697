"""Expressions of plain models: the part of FEEL that the embedded engine runs over any variables.

    condition = "=" and, or, not(...) and parentheses as in hollow models, over
    test      = operand [ ("=" | "!=" | "<" | "<=" | ">" | ">=") operand | "in" "(" LIST ")" ]
    operand   = PATH | LITERAL                  at least one of two operands is a path
    value     = "=" ( PATH | LITERAL )          of a mapping, a correlation key or a timer

A path is a name, or names joined by dots. Literals are strings without escapes, numbers, true, false and null.
"""

from collections.abc import Mapping

from verblint.feel import syntax_errors as reason
from verblint.feel.condition import BareFlag, Comparison, FlagRead, Literal, Membership, Relation, Test, Value
from verblint.feel.condition_parser import COMPARISONS, ConditionParser, check_text, check_tokens
from verblint.feel.grammar import LITERAL_WORDS, ConditionError
from verblint.feel.syntax_errors import Reason
from verblint.feel.tokenizer import KEYWORDS, FeelToken, TokenKind, tokenize
from verblint.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_plain(text: str) -> Test:
    """Parse a condition of a plain model, including its equals sign, or raise ConditionError."""
    return _parser(text).run()


def parse_value(text: str) -> FlagRead | Literal:
    """Parse an expression that is one path or one literal, including its equals sign, or raise ConditionError."""
    return _parser(text).run_value()


def _parser(text: str) -> "_PlainParser":
    check_text(text)
    tokens = list(tokenize(text, 1))
    check_tokens(tokens)
    return _PlainParser(text, tokens)


class PathValues(Mapping[str, Value]):
    """Variables by path: what is not there is null, and a path into a list gives the list of its items' values."""

    def __init__(self, variables: "Mapping[str, Any]") -> None:
        self._variables = variables

    def __getitem__(self, path: str) -> "Any":
        """Return the value at a path."""
        name, *rest = path.split(".")
        value = self._variables.get(name)
        for key in rest:
            value = _step_into(value, key)
        return value

    def __iter__(self) -> "Any":
        """Iterate over the names of the variables."""
        return iter(self._variables)

    def __len__(self) -> int:
        """Return how many variables there are."""
        return len(self._variables)


def _step_into(value: "Any", key: str) -> "Any":
    if isinstance(value, list):
        return [_step_into(item, key) for item in value]
    return value.get(key) if isinstance(value, Mapping) else None


class _PlainParser(ConditionParser):
    """The parser of conditions, with other tests."""

    def run_value(self) -> FlagRead | Literal:
        """Parse all tokens as one operand."""
        operand = self._operand()
        if self._token is not self._end:
            self._stop(reason.of_name(self._tokens, self._at - 1) or reason.of_continuation(self._token))
        return operand

    def _flag_test(self) -> Test:
        left = self._operand()
        operator = self._token
        if operator.kind is TokenKind.OPERATOR and operator.text in COMPARISONS:
            self._at += 1
            return self._compare(left, operator, self._operand())
        if isinstance(left, Literal):
            self._stop_at(left, "the condition compares no variable")
        if self._takes_word("in"):
            return Membership(left, self._list())
        return BareFlag(left)

    def _begins_test(self, token: FeelToken) -> bool:
        return self._is_operand(token)

    def _compare(self, left: FlagRead | Literal, operator: FeelToken, right: FlagRead | Literal) -> Test:
        if isinstance(right, Literal):
            if isinstance(left, Literal):
                self._stop_at(right, "the condition compares no variable")
            return Comparison(left, operator.text, right)
        if isinstance(left, Literal):
            return Comparison(right, _MIRRORED[operator.text], left)
        return Relation(left, operator.text, right)

    def _operand(self) -> FlagRead | Literal:
        token = self._token
        if token.kind is TokenKind.NAME and token.text not in KEYWORDS:
            return self._path()
        if self._is_operand(token):
            return self._literal()
        if token is self._end:
            self._stop(Reason(reason.SYNTAX, "the expression stops too early", "Write a variable or a literal"))
        self._stop(reason.of_comparand(self._tokens, self._at))

    def _path(self) -> FlagRead:
        first = last = self._token
        self._at += 1
        names = [first.text]
        while self._takes("."):
            last = self._token
            if last.kind is not TokenKind.NAME or last.text in KEYWORDS:
                self._stop(Reason(reason.SYNTAX, "a path stops at its dot", "Write a name behind it"))
            names.append(last.text)
            self._at += 1
        misuse = reason.of_name(self._tokens, self._at - 1)
        if misuse is not None:
            self._stop(misuse)
        return FlagRead(".".join(names), first.start, last.end)

    def _literal(self) -> Literal:
        token = self._token
        is_negative = token.text == "-"
        number = self._stream[self._at + 1] if is_negative else token
        if number.kind is not TokenKind.NUMBER or "." not in number.text:
            return super()._literal()
        self._at += 2 if is_negative else 1
        return Literal(float(f"{token.text if is_negative else ''}{number.text}"), token.start, number.end)

    def _is_operand(self, token: FeelToken) -> bool:
        if token.kind is TokenKind.NAME:
            return token.text not in KEYWORDS or token.text in LITERAL_WORDS
        is_negative = token.text == "-" and self._stream[self._at + 1].kind is TokenKind.NUMBER
        return token.kind in (TokenKind.STRING, TokenKind.NUMBER) or is_negative

    def _stop_at(self, literal: Literal, message: str) -> "NoReturn":
        why = Reason(reason.CONSTANT, message, "Compare a variable, or make it the default flow")
        raise ConditionError(why, literal.start, literal.end)
