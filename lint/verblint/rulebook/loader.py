"""The rulebook: every rule there is.

A module in `verblint.rules` is a rule because it is there. The shelf lists them without loading them; it is written by
`python -m verblint.rulebook.build_index`, and a test holds it to the folder.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from verblint.report.finding import Finding, Severity
from verblint.rulebook.index import SHELF
from verblint.rulebook.rule import CRASHED, Check, Context, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import SourceFileLoader as _Loader
else:
    # What loads modules here, which outside of a zip file is the same for all.
    _Loader = type(__loader__)


@cache
def shelf() -> tuple[Rule, ...]:
    """The rules as a run needs them, by code: each is loaded when a file has something for it."""
    levels = {level.value: level for level in Severity}
    return tuple(Rule(code, slug, levels[level], _deferred(slug), on, words) for code, slug, level, on, words in SHELF)


@cache
def everything() -> "Choice":
    """All rules of the shelf."""
    return Choice(shelf())


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of the folder, loaded, by code. The one for a rule that crashes has no model and is not among them."""
    from pkgutil import iter_modules

    import verblint.rules

    found = (_loaded(module.name) for module in iter_modules(verblint.rules.__path__))
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """The rule with this code or slug, whatever its case, loaded; or None."""
    wanted = name.lower()
    if wanted in (CRASHED.code.lower(), CRASHED.slug):
        return CRASHED
    slugs = (rule.slug for rule in shelf() if wanted in (rule.code.lower(), rule.slug))
    return next(map(_loaded, slugs), None)


class Choice:
    """Some rules, in an order in which those that concern a file are found at once."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_mark: dict[str, list[int]] = {}
        self._by_word: dict[str, list[int]] = {}
        self._always = [number for number, rule in enumerate(self.rules) if not rule.on and not rule.words]
        for number, rule in enumerate(self.rules):
            for mark in rule.on:
                self._by_mark.setdefault(mark, []).append(number)
            for word in rule.words:
                self._by_word.setdefault(word, []).append(number)

    def concerning(self, context: Context) -> Iterator[Rule]:
        """The rules that may find something in a file."""
        numbers = set(self._always)
        for mark in context.marks:
            numbers.update(self._by_mark.get(mark, ()))
        for word, meant in self._by_word.items():
            if not numbers.issuperset(meant) and context.root.document.may_hold(word):
                numbers.update(meant)
        return (self.rules[number] for number in sorted(numbers))


def _deferred(slug: str) -> Check:
    def check(context: Context) -> Iterator[Finding]:
        return _loaded(slug).check(context)

    return check


@cache
def _loaded(slug: str) -> Rule:
    name = slug.replace("-", "_")
    found = getattr(_module(name), "check", None)
    assert isinstance(found, Rule), f"verblint.rules.{name} defines no rule called check"
    return found


def _module(name: str) -> object:
    """The module of a rule. Where it lies is known, and to have it looked for takes longer than to run it."""
    full = f"verblint.rules.{name}"
    if full in sys.modules or _Loader.__name__ != "SourceFileLoader":
        return __import__(full, fromlist=("check",))
    import verblint.rules

    module = type(sys)(full)
    module.__file__ = os.path.join(verblint.rules.__path__[0], f"{name}.py")
    module.__package__ = "verblint.rules"
    module.__loader__ = _Loader(full, module.__file__)
    code = module.__loader__.get_code(full)
    assert code is not None, "a module of source has code"
    exec(code, module.__dict__)
    sys.modules[full] = module
    setattr(verblint.rules, name, module)
    return module
