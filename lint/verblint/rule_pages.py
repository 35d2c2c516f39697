"""The output of `verblint explain` and `verblint rules`, and the list of rules in the README."""

import sys
from json import dumps
from pathlib import Path

from verblint.cli import UsageError
from verblint.rule import CRASHED, Rule
from verblint.rules.index import find, rules

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- rules: written by python -m verblint.rule_pages -->\n", "<!-- /rules -->\n"
SECTIONS = {
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
        parts.append(f"### {family}xx {SECTIONS[family]}\n\n| code | name | severity | |\n| --- | --- | --- | --- |\n")
        parts += [
            f"| {rule.code} | `{rule.slug}` | {rule.severity} | {rule.summary.replace('|', chr(92) + '|')} |\n"
            for rule in known
            if rule.code.startswith(family)
        ]
        parts.append("\n")
    return "".join(parts)


def readme_text(written: str) -> str:
    """Return the README with an up-to-date list of rules."""
    before, _, rest = written.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{rule_list('markdown')}{END}{after}"


def main() -> None:
    """Write the list of rules into the README; this needs a checkout."""
    if not README.exists():
        raise SystemExit(f"{README} is not there: this writes into a checkout of verblint")
    README.write_text(readme_text(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{len(rules())} rules\n")


if __name__ == "__main__":
    main()
