"""The rulebook: every rule there is.

A module in `verblint.rules` is a rule because it is there. The shelf lists them without loading them; it is written by
`python -m verblint.shelving`, and a test holds it to the folder.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module

from verblint.finding import Finding, Severity
from verblint.rule import CRASHED, Check, Context, Rule
from verblint.shelf import SHELF


@cache
def shelf() -> tuple[Rule, ...]:
    """The rules as a run needs them, by code: each is loaded when a file has something for it."""
    return tuple(
        Rule(code, slug, Severity(level), _deferred(slug), on, words) for code, slug, level, on, words in SHELF
    )


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
    found = import_module(f"verblint.rules.{name}").check
    assert isinstance(found, Rule), f"verblint.rules.{name} defines no rule called check"
    return found
