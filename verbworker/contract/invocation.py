"""Invocations such as `(kyc.open-case :entity "Allianz GmbH")`, parsed into verb and arguments, and formatted back."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from verblint.contracts.syntax import INTEGER
from verbworker.errors import InvocationInvalid

Value = str | bool | int | float | None

_LONGEST = 64 * 1024  # characters; what people type, not data
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<open>\() | (?P<close>\))
    | (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<name>:[^\s()":]+)
    | (?P<word>[^\s()":]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(INTEGER)
_NUMBER = re.compile(rf"{INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Invocation:
    """A verb to perform, and its arguments."""

    verb: str
    args: Mapping[str, Value]

    def __str__(self) -> str:
        """Return text that `parse` reads back."""
        parts = (f" :{name} {_format_value(value)}" for name, value in self.args.items())
        return f"({self.verb}{''.join(parts)})"


def parse(text: str) -> Invocation:
    """Parse one invocation; raise `InvocationInvalid` with the position of the error."""
    if len(text) > _LONGEST:
        raise InvocationInvalid(f"an invocation has at most {_LONGEST} characters")
    tokens = _tokens(text)
    _expect(tokens, "open", "it begins with an opening parenthesis")
    verb = _expect(tokens, "word", "the name of a verb follows the opening parenthesis")
    args: dict[str, Value] = {}
    for kind, token, at in tokens:
        if kind == "close":
            _expect(tokens, "end", "nothing follows the closing parenthesis")
            return Invocation(verb, args)
        if kind == "end":
            raise _wrong(at, "a closing parenthesis is missing")
        if kind != "name":
            raise _wrong(at, "an argument begins with its name, like :entity")
        name = token[1:]
        if name in args:
            raise _wrong(at, f"the argument {name} is given twice")
        args[name] = _value(tokens, name)
    raise AssertionError("the tokenizer yields an end token last")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise _wrong(at, "a text ends with a quotation mark" if text[at] == '"' else f"{text[at]!a} has no meaning")
        yield found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
        at = found.end()
    while True:
        yield "end", "", end


def _expect(tokens: Iterator[tuple[str, str, int]], wanted: str, sentence: str) -> str:
    kind, token, at = next(tokens)
    if kind != wanted:
        raise _wrong(at, sentence)
    return token


def _value(tokens: Iterator[tuple[str, str, int]], name: str) -> Value:
    kind, token, at = next(tokens)
    if kind == "text":
        return _text(token, at)
    if kind != "word":
        raise _wrong(at, f"a value follows :{name}")
    if token in _WORDS:
        return _WORDS[token]
    if _INTEGER.fullmatch(token):
        # Longer ones exceed every limit, and converting them to int is very slow.
        return int(token) if len(token) <= 20 else float(token)
    if _NUMBER.fullmatch(token):
        return float(token)
    # A bare word is a text, so that `:case-type periodic-review` needs no quotes.
    return token


def _text(token: str, at: int) -> str:
    try:
        value: str = json.loads(token, strict=False)
        value.encode()
    except (ValueError, UnicodeError) as error:
        raise _wrong(at, "this text has an escape that means nothing") from error
    return value


def _format_value(value: Value) -> str:
    # The words and escapes of JSON, so that parsing needs no second grammar.
    return json.dumps(value, ensure_ascii=False)


def _wrong(at: int, sentence: str) -> InvocationInvalid:
    return InvocationInvalid(f"invocation, character {at + 1}: {sentence}")
