"""A header of the Ameide extension has a plain key and a literal value."""

from collections.abc import Iterator

from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_KEY = pattern("[a-z0-9][a-z0-9_.-]{0,63}")


@rule("AM716", "ameide-header", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """A header of the Ameide extension has a plain key and a literal value.

    A key has at most 64 lower-case letters, digits, dots, dashes and underscores, and is used once. A value is never
    empty, never evaluated, and never the address of an environment.

    Wrong:  <ameide:header key="API URL" value="https://api.example.com" />
    Right:  <ameide:header key="letter" value="reminder" />
    """
    for group in context.every("taskHeaders", namespace=AMEIDE):
        seen: set[str] = set()
        for number, header in enumerate(group.find_all("header", AMEIDE)):
            key = header.get("key") or ""
            for wrong in _wrong(key, header.get("value") or "", key in seen):
                hint = "Write a plain key of its own, and a literal that is the same everywhere"
                yield context.at(header, f"the header {wrong}", hint=hint, detail=f"{number} {wrong}")
            seen.add(key)


def _wrong(key: str, text: str, is_second: bool) -> Iterator[str]:
    if _KEY.fullmatch(key) is None:
        yield f"has the key {key!r}"
    if is_second:
        yield f"{key} is written twice"
    if text.startswith(("=", "${", "#{")):
        yield f"{key} has an expression as its value"
    if "://" in text:
        yield f"{key} holds an address"
