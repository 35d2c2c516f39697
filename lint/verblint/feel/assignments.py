"""Assignments: combinations of flag values, as far as conditions can distinguish them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import product
from operator import mul

from verblint.contracts.contract import Flag, FlagType
from verblint.feel.condition import BareFlag, Comparison, Membership, Test, Value, walk

MAX_ASSIGNMENTS = 4096  # twelve booleans; beyond it the checks that need all of them are skipped

# No enum value or literal can equal this: the grammar allows only printable ASCII.
_ANOTHER_TEXT = "\0"


def assignments(tests: Iterable[Test], flags: Mapping[str, Flag]) -> list[dict[str, Value]] | None:
    """Return every distinct case of the tests, or None if there are too many.

    A flag that is not in `flags` may have a value of any type, or none.
    """
    mentioned = _collect_values(tests)
    domains = {name: tuple(_domain(literals, flags.get(name))) for name, literals in mentioned.items()}
    if reduce(mul, map(len, domains.values()), 1) > MAX_ASSIGNMENTS:
        return None
    return [dict(zip(domains, values, strict=True)) for values in product(*domains.values())]


def _collect_values(tests: Iterable[Test]) -> dict[str, set[Value]]:
    mentioned: dict[str, set[Value]] = {}
    for part in (part for test in tests for part in walk(test)):
        match part:
            case BareFlag(flag):
                mentioned.setdefault(flag.name, set())
            case Comparison(flag, _, literal):
                mentioned.setdefault(flag.name, set()).add(literal.value)
            case Membership(flag, literals):
                mentioned.setdefault(flag.name, set()).update(literal.value for literal in literals)
            case _:
                continue
    return mentioned


def _domain(literals: set[Value], flag: Flag | None) -> Iterator[Value]:
    """Yield one value for each class of values that comparisons with the literals cannot distinguish."""
    integers = sorted(value for value in literals if type(value) is int)
    texts = sorted(value for value in literals if isinstance(value, str))
    if flag is None:
        yield from (True, False, *_around(integers), *texts, _ANOTHER_TEXT, None)
    elif flag.type is FlagType.ENUM:
        yield from flag.values
    elif flag.type is FlagType.BOOLEAN:
        yield from (True, False)
    elif flag.type is FlagType.INTEGER:
        yield from _around(integers)
    else:
        yield from (*texts, _ANOTHER_TEXT)


def _around(integers: list[int]) -> list[int]:
    return sorted({number + step for number in integers or [0] for step in (-1, 0, 1)})
