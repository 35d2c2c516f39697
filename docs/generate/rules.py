"""The page of lint rules: each rule of the linter and of `verify`, as `verblint explain` shows it."""

import re
from collections.abc import Iterable

from docs.generate.markdown import code, fence, table
from verblint.rule import CRASHED, Rule
from verblint.rule_pages import SECTIONS
from verblint.rules.index import rules
from verbworker.profile.verify.rules import RULES


def page() -> str:
    """Return the page of rules."""
    known = sorted((*rules(), CRASHED), key=lambda rule: rule.code)
    families = sorted({rule.code[:3] for rule in known}, key=lambda prefix: (prefix[0] == "A", prefix))
    parts = [
        "# Lint rules\n\n"
        "`verblint check` exits with 0 if every file was checked and nothing was found, with 1 if something was found,"
        " and with 2 if something could not be checked. `verblint explain CODE` shows one rule in the terminal."
        " An error is a model that cannot work; a warning is one that may not be what you want.\n\n"
    ]
    for family in families:
        parts.append(f"## {family}xx {SECTIONS[family]}\n\n")
        parts.append(_family([rule for rule in known if rule.code.startswith(family)]))
    parts.append("## VF8xx Verify\n\nThe rules of `verbworker verify`, which compares files with each other.\n\n")
    parts.append(_family(RULES))
    return "".join(parts)


def _family(found: Iterable[Rule]) -> str:
    listed = list(found)
    rows = [
        (f"[{rule.code}](#{rule.code.lower()})", code(rule.slug), str(rule.severity), rule.summary) for rule in listed
    ]
    return table(("code", "name", "severity", ""), rows) + "".join(map(_section, listed))


def _section(rule: Rule) -> str:
    _, _, rest = rule.page.partition("\n")
    prose: list[str] = []
    example: list[str] = []
    for line in rest.strip("\n").splitlines():
        (example if example or re.match(r"(Wrong|Right):", line) else prose).append(line)
    words = f"{rule.summary}\n\n" + "\n".join(prose).strip()
    shown = fence("\n".join(example)) if example else ""
    return f"### {rule.code} {rule.slug} {{ #{rule.code.lower()} }}\n\n{words}\n\n{shown}"
