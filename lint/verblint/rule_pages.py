"""The output of `verblint explain` and `verblint rules`, and the list of rules in the README."""

from json import dumps

from verblint.cli.options import UsageError
from verblint.rule import CRASHED, Rule
from verblint.rulebook.loader import find, rules

_FAMILIES = {
    "HB0": "File safety (cannot be suppressed or ignored)",
    "HB1": "Forbidden elements",
    "HB2": "Conditions",
    "HB3": "Data",
    "HB4": "Verbs",
    "HB5": "Waits",
    "HB6": "Size",
    "AM7": "Ameide profile",
    "HB9": "Suppressions",
}


def explain(name: str) -> str:
    """Return the page of one rule, or raise UsageError if it does not exist."""
    rule = find(name)
    if rule is None:
        raise UsageError(f"no rule is called {name}; see verblint rules")
    return f"{rule.code} {rule.slug} ({rule.severity})\n\n{rule.page}\n"


def rule_list(form: str) -> str:
    """List all rules as text, JSON or Markdown."""
    known = sorted((*rules(), CRASHED), key=lambda rule: rule.code)
    if form == "json":
        return dumps([_as_object(rule) for rule in known], indent=2) + "\n"
    if form == "markdown":
        return _markdown(known)
    return "".join(f"{rule.code}  {rule.severity:7}  {rule.slug:32}  {rule.summary}\n" for rule in known)


def _as_object(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "rule": rule.slug,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "page": rule.page,
        "suppressible": rule.is_suppressible,
    }


def _markdown(known: list[Rule]) -> str:
    parts = []
    for family in sorted({rule.code[:3] for rule in known}, key=lambda prefix: (prefix[0] == "A", prefix)):
        parts.append(f"### {family}xx {_FAMILIES[family]}\n\n| code | name | severity | |\n| --- | --- | --- | --- |\n")
        parts += [
            f"| {rule.code} | `{rule.slug}` | {rule.severity} | {rule.summary.replace('|', chr(92) + '|')} |\n"
            for rule in known
            if rule.code.startswith(family)
        ]
        parts.append("\n")
    return "".join(parts)
