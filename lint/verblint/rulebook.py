"""The rulebook: every rule there is.

A module in `verblint.rules` is a rule because it is there: nobody keeps a second list.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import verblint.rules
from verblint.rule import CRASHED, Rule


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of the folder, by code. The one for a rule that crashes has no model and is not among them."""
    found = (_rule_of(module.name) for module in iter_modules(verblint.rules.__path__))
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """The rule with this code or slug, whatever its case, or None."""
    wanted = name.lower()
    return next((rule for rule in (*rules(), CRASHED) if wanted in (rule.code.lower(), rule.slug)), None)


def _rule_of(module: str) -> Rule:
    found = import_module(f"verblint.rules.{module}").check
    assert isinstance(found, Rule), f"verblint.rules.{module} defines no rule called check"
    return found
