"""The rulebook: every rule there is, and the inspection of one file by all of them.

A module in `verblint.rules` is a rule because it is there: nobody keeps a second list.
"""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import verblint.rules
from verblint.contract import Contracts
from verblint.finding import Finding
from verblint.reader import ModelError, read
from verblint.rule import CRASHED, Context, Rule
from verblint.settings import Settings

_NO_CONTRACTS = Contracts()
_DEFAULTS = Settings()


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of the folder, by code. The one for a rule that crashes has no model and is not among them."""
    found = (_rule_of(module.name) for module in iter_modules(verblint.rules.__path__))
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(name: str) -> Rule | None:
    """The rule with this code or slug, whatever its case, or None."""
    wanted = name.lower()
    return next((rule for rule in (*rules(), CRASHED) if wanted in (rule.code.lower(), rule.slug)), None)


def inspect(
    content: bytes,
    name: str = "<bytes>",
    settings: Settings = _DEFAULTS,
    contracts: Contracts = _NO_CONTRACTS,
    chosen: Iterable[Rule] | None = None,
) -> list[Finding]:
    """All findings in one file, in the order of their places. A file the reader refuses has exactly one."""
    try:
        context = Context.of(read(content, name, settings.limits), settings, contracts)
    except ModelError as error:
        return [_refusal(error, name)]
    findings = [finding for rule in (rules() if chosen is None else chosen) for finding in rule.run(context)]
    return sorted(findings, key=lambda finding: (finding.line, finding.column, finding.code, finding.detail))


def _rule_of(module: str) -> Rule:
    found = import_module(f"verblint.rules.{module}").check
    assert isinstance(found, Rule), f"verblint.rules.{module} defines no rule called check"
    return found


def _refusal(error: ModelError, name: str) -> Finding:
    rule = next(rule for rule in rules() if rule.code == error.code)
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=rule.severity,
        message=error.message,
        file=name,
        line=error.line,
        column=error.column,
        end_line=error.line,
        end_column=error.column + 1,
    )
