"""Attributes with a type have a value of that type."""

from collections.abc import Iterator

from verblint.bpmn_schema import known_elements
from verblint.finding import Finding, Severity
from verblint.pattern import pattern
from verblint.rule import Context, rule

_SHAPES = {
    "b": pattern(r"\s*(?:true|false|1|0)\s*"),
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

    A boolean is true or false, a number a number, an id a name without blanks that begins with a letter. Engines refuse
    a model with other values.

    Wrong:  <process id="kyc-open-case" isExecutable="yes">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    present = context.root.document.attribute_names
    for content, elements in known_elements(context.elements):
        for name, kind in content.typed.items():
            for element in elements if name in present else ():
                value = element.values.get(name)
                if value is None or _fits(value, kind):
                    continue
                attribute = element.attribute(name[1])
                assert attribute is not None
                message = f"{name[1]} is {value!r}, which is not {_WORDS[kind]}"
                yield context.at(attribute.whole, message, hint=f"Write {_WORDS[kind]}", detail=name[1])


def _fits(value: str, kind: str) -> bool:
    # Most ids are what Python calls identifiers; that is quicker to tell.
    return (kind == "n" and value.isidentifier()) or _SHAPES[kind].fullmatch(value) is not None
