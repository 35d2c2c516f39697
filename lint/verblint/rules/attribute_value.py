"""Attributes with a type have a value of that type."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import known_elements
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_BOOLEANS = ("true", "false", "1", "0")
_SHAPES = {
    "i": pattern(r"\s*[-+]?[0-9]+\s*"),
    "n": pattern(r"[^\W\d][\w.-]*"),
}
_WORDS = {
    "b": "true or false",
    "i": "a whole number",
    "n": "a name that begins with a letter and has letters, digits, dots, dashes and underscores only",
}


@rule("HB011", "attribute-value", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Attributes with a type have a value of that type.

    A boolean is true or false, a number is a number, and an id is a name without blanks that starts with a letter.
    Engines refuse a model with other values.

    Wrong:  <process id="kyc-open-case" isExecutable="yes">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    for content, elements in known_elements(context.elements):
        present = elements.keys
        for name, kind in content.attribute_types.items() if present else ():
            odd = _odd(elements.column(name), kind) if name in present else ()
            for attribute in [element.attribute(name) for element in elements] if odd else ():
                if attribute is not None and attribute.value in odd:
                    message = f"{name} is {attribute.value!r}, which is not {_WORDS[kind]}"
                    yield context.at(attribute.whole, message, hint=f"Write {_WORDS[kind]}", detail=name)


def _odd(values: list[str], kind: str) -> set[str]:
    """Return the values that are not of `kind`."""
    # Most ids are Python identifiers, which is faster to check.
    if kind == "n" and all(map(str.isidentifier, values)):
        return set()
    if kind == "b":
        return {value for value in set(values) if value.strip() not in _BOOLEANS}
    return {value for value in set(values) if _SHAPES[kind].fullmatch(value) is None}
