"""Load rules.

Every module in `verblint.rules` is a rule. The index lists them without importing them; `python -m
verblint.rulebook.build_index` writes it, and a test compares it with the folder.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from verblint.report.finding import Finding, Severity
from verblint.rule import CRASHED, Check, Context, Rule
from verblint.rulebook.index import SHELF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import SourceFileLoader as _Loader
else:
    # The loader of this module; the same for all modules unless they are in a zip file.
    _Loader = type(__loader__)


@cache
def shelf() -> tuple[Rule, ...]:
    """Return the indexed rules by code; each one is imported when a file needs it."""
    levels = {level.value: level for level in Severity}
    return tuple(
        Rule(code, slug, levels[level], _defer_check(slug), on, words) for code, slug, level, on, words in SHELF
    )


@cache
def everything() -> "Choice":
    """Return all rules of the index."""
    return Choice(shelf())


@cache
def rules() -> tuple[Rule, ...]:
    """Import all rules of the folder and return them by code, without CRASHED, for which there is no model."""
    from pkgutil import iter_modules

    import verblint.rules

    found = (_load_rule(module.name) for module in iter_modules(verblint.rules.__path__))
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """Return the imported rule with this code or slug, ignoring case, or None."""
    wanted = name.lower()
    if wanted in (CRASHED.code.lower(), CRASHED.slug):
        return CRASHED
    slugs = (rule.slug for rule in shelf() if wanted in (rule.code.lower(), rule.slug))
    return next(map(_load_rule, slugs), None)


class Choice:
    """Selected rules, indexed so that those relevant to a file are found quickly."""

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
        """Return the rules that may find something in a file."""
        numbers = set(self._always)
        for mark in context.marks:
            numbers.update(self._by_mark.get(mark, ()))
        for word, meant in self._by_word.items():
            if not numbers.issuperset(meant) and context.root.document.may_hold(word):
                numbers.update(meant)
        return (self.rules[number] for number in sorted(numbers))


def _defer_check(slug: str) -> Check:
    def check(context: Context) -> Iterator[Finding]:
        return _load_rule(slug).check(context)

    return check


@cache
def _load_rule(slug: str) -> Rule:
    name = slug.replace("-", "_")
    found = getattr(_module(name), "check", None)
    assert isinstance(found, Rule), f"verblint.rules.{name} defines no rule called check"
    return found


def _module(name: str) -> object:
    """Import a rule's module from its known path: searching for it takes longer than running the rule."""
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
