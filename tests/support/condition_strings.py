"""A seeded source of conditions: good ones, good ones that were damaged, and strings of random tokens."""

from collections.abc import Iterator
from random import Random

_FLAGS = ("orch_x", "orch_y", "orch_f", "orch_n", "orch_a_b", "orch_1", "orch_in", "orch_or_and", "orch_not")
_STRINGS = ('"a"', '"b"', '""', '"approved"', '"true"', '"3"', '"a b"', '"or"', '"//"', '"(x)"', '"orch_x"', '"it\'s"')
_INTEGERS = ("0", "1", "3", "-1", "-0", "42", "9007199254740991")
_OTHER_TOKENS = (
    *("=", "!=", "<", "<=", ">", ">=", "==", "(", ")", "[", "]", "{", "}", ",", ".", "..", ":", "+", "-", "*", "**"),
    *("/", "and", "or", "not", "in", "if", "then", "else", "for", "return", "some", "every", "satisfies", "between"),
    *("instance of", "true", "false", "null", "function", "domain_payload", "`orch_x`", "`a b`", "@", "'a'", "&&"),
    *("count", "now()", "ch_x", "x", "//", "/* c */", "\\", '"', "?", "$", "!", "1.5", ".5", "007", "é", "\u200b"),
)
_SPACES = ("", " ", " ", " ", "  ", "\n", "\t")


class ConditionStrings:
    """Strings to try a parser of conditions with; the same seed gives the same strings."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def take(self, count: int) -> Iterator[str]:
        """So many strings, each with its leading equals sign."""
        for _ in range(count):
            kind = self._random.random()
            if kind < 0.45:
                tokens = self._or(3)
            elif kind < 0.85:
                tokens = self._damaged(self._or(3))
            else:
                tokens = [self._any_token() for _ in range(self._random.randint(1, 12))]
            yield "=" + self._spaced(tokens)

    def values(self, flags: frozenset[str]) -> dict[str, object]:
        """A random value for each flag; some flags are left unset."""
        pool = (None, True, False, 0, 1, 3, -1, 42, "a", "b", "", "approved", "true", "3", "or", 2**53 - 1)
        return {flag: self._random.choice(pool) for flag in sorted(flags) if self._random.random() < 0.85}

    def _or(self, depth: int) -> list[str]:
        return self._joined("or", [self._and(depth) for _ in range(self._few())])

    def _and(self, depth: int) -> list[str]:
        return self._joined("and", [self._test(depth) for _ in range(self._few())])

    def _few(self) -> int:
        return self._random.choice((1, 1, 1, 1, 2, 3))

    @staticmethod
    def _joined(word: str, parts: list[list[str]]) -> list[str]:
        joined = list(parts[0])
        for part in parts[1:]:
            joined += [word, *part]
        return joined

    def _test(self, depth: int) -> list[str]:
        kind = self._random.random()
        if depth and kind < 0.18:
            return ["(", *self._or(depth - 1), ")"]
        if depth and kind < 0.34:
            return ["not", "(", *self._or(depth - 1), ")"]
        return self._comparison(self._random.choice(_FLAGS))

    def _comparison(self, flag: str) -> list[str]:
        pick = self._random.choice
        match pick(("bare", "equal", "equal", "order", "in strings", "in integers")):
            case "bare":
                return [flag]
            case "equal":
                return [flag, pick(("=", "!=")), pick((*_STRINGS, *_INTEGERS, "true", "false", "null"))]
            case "order":
                return [flag, pick(("<", "<=", ">", ">=")), pick(_INTEGERS)]
            case "in strings":
                return [flag, "in", "(", *self._list(_STRINGS), ")"]
            case _:
                return [flag, "in", "(", *self._list(_INTEGERS), ")"]

    def _list(self, literals: tuple[str, ...]) -> list[str]:
        return self._joined(",", [[self._random.choice(literals)] for _ in range(self._random.randint(1, 4))])

    def _damaged(self, tokens: list[str]) -> list[str]:
        damaged = list(tokens)
        for _ in range(self._few()):
            at = self._random.randrange(len(damaged))
            match self._random.choice(("drop", "double", "replace", "insert", "swap", "flip")):
                case "drop" if len(damaged) > 1:
                    del damaged[at]
                case "double":
                    damaged.insert(at, damaged[at])
                case "replace":
                    damaged[at] = self._any_token()
                case "insert":
                    damaged.insert(at, self._any_token())
                case "swap":
                    other = self._random.randrange(len(damaged))
                    damaged[at], damaged[other] = damaged[other], damaged[at]
                case _:
                    damaged[at] = self._flipped(damaged[at])
        return damaged

    def _flipped(self, token: str) -> str:
        at = self._random.randrange(len(token) + 1)
        character = chr(self._random.choice((self._random.randrange(32, 127), self._random.randrange(0x3100))))
        return token[:at] + character + token[at + self._random.randint(0, 1) :]

    def _any_token(self) -> str:
        return self._random.choice((*_FLAGS, *_STRINGS, *_INTEGERS, *_OTHER_TOKENS))

    def _spaced(self, tokens: list[str]) -> str:
        # Tokens glued together by chance are as much a test as any other damage.
        tight = self._random.random() < 0.15
        spaces = _SPACES if tight else _SPACES[1:]
        return "".join(self._random.choice(spaces) + token for token in tokens)
