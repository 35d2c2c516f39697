"""The XSD that ships with the linter: what it allows is what section 17 of seed 001 lists and what the rules allow."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from re import fullmatch
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema

from tests.support.strict_model import MODEL
from verblint.bpmn.ameide_schema import SHAPES
from verblint.bpmn.element import AMEIDE, Element
from verblint.bpmn.reader import ModelError, read
from verblint.linter import inspect
from verblint.report import Finding
from verblint.rules.index import rules
from verblint.settings import Settings

ROOT = Path(__file__).parents[2]
FILE = "ameide-bpmn-v1.xsd"
SCHEMA = xmlschema.XMLSchema(files("verblint.bpmn").joinpath(FILE).read_text(encoding="utf-8"))
FOLDERS = ("tests/lint", "processes", "verbworker/profile/verify/files", "verbworker/dev/init/files")
MODELS = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.bpmn*"))

# The rules that hold what a schema can say, and those of AM702 to AM704 and AM712 that go further.
CLOSED = frozenset({"AM701", "AM702", "AM703", "AM704", "AM708", "AM712", "AM725"})
_RULES = tuple(rule for rule in rules() if rule.code in CLOSED)
_PATH = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

# Section 17, element by element: the required attributes, the optional ones, the children. One departure, X-26: the
# workflowType may be left out, because the text of the seed (9.1) says so.
CONTRACT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "workflowDefinition": ({"definitionId", "workflowIdTemplate"}, {"workflowType"}, set()),
    "taskDefinition": ({"type", "policyRef"}, {"idempotencyKeyTemplate"}, set()),
    "taskHeaders": (set(), set(), {"header"}),
    "ioMapping": (set(), set(), {"input", "output"}),
    "subscription": ({"correlationKeyTemplate", "messageIdPath"}, set(), set()),
    "updateDefinition": (set(), {"name"}, set()),
}
CHILDREN: dict[str, tuple[set[str], set[str], set[str]]] = {
    "header": ({"key", "value"}, set(), set()),
    "input": ({"source", "target"}, set(), set()),
    "output": ({"source", "target"}, set(), set()),
}


def children(declared: Any) -> list[Any]:
    """The elements that an element of the XSD may contain."""
    return list(declared.type.content.iter_elements())


def described(declared: Any) -> tuple[set[str], set[str], set[str]]:
    """An element of the XSD as the table above writes it."""
    required = {name for name, attribute in declared.attributes.items() if name and attribute.use == "required"}
    optional = {name for name in declared.attributes if name} - required
    return required, optional, {child.local_name for child in children(declared)}


@pytest.mark.req("PRX-10", "PRX-12", "X-26")
def test_the_schema_is_that_of_the_contract() -> None:
    inside = {child.local_name: child for top in SCHEMA.elements.values() for child in children(top)}

    assert SCHEMA.target_namespace == "https://ameide.io/schema/bpmn/extensions/v1" == AMEIDE
    assert {top.local_name: described(top) for top in SCHEMA.elements.values()} == CONTRACT
    assert {name: described(child) for name, child in inside.items()} == CHILDREN


@pytest.mark.req("PRX-12")
def test_the_rules_know_the_same_elements_and_attributes() -> None:
    known = {name: (set(shape.required), set(shape.optional)) for name, shape in SHAPES.items()}

    assert known == {name: (required, optional) for name, (required, optional, _) in (CONTRACT | CHILDREN).items()}


# ---- what the two say of the same element ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """One element of the extension with its content: what the XSD says of it, and what the rules find in it."""

    name: str
    is_valid: bool
    element: Element
    found: tuple[Finding, ...]

    @property
    def further(self) -> list[Finding]:
        """The findings of what no XSD can say."""
        return [finding for finding in self.found if self._goes_further(finding)]

    def _goes_further(self, finding: Finding) -> bool:
        attributes = {attribute.local: attribute.value for attribute in self._at(finding).attributes}
        match finding.code:
            case "AM702":  # of the element itself: an XSD of elements does not know what they stand in
                return (finding.line, finding.column) == self.element.place.position and self.element.local in CONTRACT
            case "AM703":  # an attribute that is there, and blank
                return finding.detail.startswith("-") and finding.detail[1:] in attributes
            case "AM704":  # the second of two, each of which is valid
                return True
            case "AM708":  # an XSD compares the value too
                return False
            case "AM712":  # a plain path, below another root
                return all(fullmatch(_PATH, attributes[name]) for name in ("source", "target") if attributes.get(name))
        return False

    def _at(self, finding: Finding) -> Element:
        """The innermost element that a finding is about."""
        around = [one for one in _family(self.element) if _covers(one, finding)]
        return around[-1]


def _family(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _family(child)


def _covers(element: Element, finding: Finding) -> bool:
    return element.whole.position <= (finding.line, finding.column) < element.whole.end_position


def judged(content: bytes, name: str) -> list[Judged]:
    """Every outermost element of the extension in a model; none where it cannot be read."""
    try:
        root = read(content)
    except ModelError:
        return []
    settings = Settings(engine="8.10")
    found = [one for one in inspect(content, name, settings, choose=lambda _: _RULES).findings if one.code in CLOSED]
    ours = [one for one in _family(root) if one.namespace == AMEIDE and _is_outermost(one)]
    parsed = list(_outermost(ElementTree.fromstring(content)))
    return [
        Judged(
            f"{name}:{one.line} {one.local}", SCHEMA.is_valid(other), one, tuple(f for f in found if _covers(one, f))
        )
        for one, other in zip(ours, parsed, strict=True)
    ]


def _is_outermost(element: Element) -> bool:
    return element.parent is None or element.parent.namespace != AMEIDE


def _outermost(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    ours = f"{{{AMEIDE}}}"
    if element.tag.startswith(ours):
        yield element
    for child in element:
        if not (child.tag.startswith(ours) and element.tag.startswith(ours)):
            yield from _outermost(child)
        else:
            yield from (deep for below in child for deep in _outermost(below) if not below.tag.startswith(ours))


def disagreements(all_judged: list[Judged]) -> list[str]:
    """Where one of the two refuses what the other allows, beyond what only the rules can say."""
    wrong = [
        f"{one.name}: the XSD refuses it, and no rule does" for one in all_judged if not one.is_valid and not one.found
    ]
    for one in all_judged:
        if one.is_valid:
            wrong += [
                f"{one.name}: {f.code} {f.message}, and the XSD allows it" for f in one.found if f not in one.further
            ]
    return wrong


@pytest.mark.req("PRX-12", "PRX-13")
def test_schema_and_rules_agree_on_every_element_of_every_model() -> None:
    found = [one for path in MODELS for one in judged(path.read_bytes(), str(path.relative_to(ROOT)))]

    assert disagreements(found) == []
    # Both kinds are there, and of every element.
    assert {one.element.local for one in found if one.is_valid} == set(CONTRACT)
    assert len([one for one in found if one.is_valid]) > 200
    assert len([one for one in found if not one.is_valid]) > 5


# A value of each attribute, and what else may be written there.
VALUES = {"source": "state.a", "target": "request.a", "messageIdPath": "message_id"}
BAD_VALUES = (
    "",
    " ",
    "id",
    "a..b",
    "state.a[0]",
    "1a",
    "a b",
    "a.",
    "state.a[b",
    "state-a",
    "é",
    "state.a\n",
    "x" * 300,
)
CONTENTS = (
    *("some text", "<!-- said -->", "<x xmlns='urn:x'/>", "<bpmn:documentation/>", "<zeebe:header/>"),
    *(f"<ameide:{name}/>" for name in (*CONTRACT, *CHILDREN, "madeUp")),
)
_PLACES = {
    "workflowDefinition": '<bpmn:process id="claim" isExecutable="true"><bpmn:extensionElements>',
    "subscription": '<bpmn:message id="docs"><bpmn:extensionElements>',
    "updateDefinition": '<bpmn:process id="claim"><bpmn:userTask id="Review"><bpmn:extensionElements>',
}
_WORK = '<bpmn:process id="claim"><bpmn:serviceTask id="ask"><bpmn:extensionElements>'
_HEAD = MODEL[MODEL.index("<bpmn:definitions") : MODEL.index(">", MODEL.index("<bpmn:definitions")) + 1]


def written(name: str, attributes: dict[str, str], content: str = "") -> str:
    """An element of the extension as text."""
    words = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<ameide:{name}{words}>{content}</ameide:{name}>"


def variants(name: str) -> Iterator[str]:
    """An element right, and wrong in every way: attributes left out, added and changed, and every kind of content."""
    required, optional, _ = (CONTRACT | CHILDREN)[name]
    full = {key: VALUES.get(key, "a") for key in sorted(required | optional)}
    yield written(name, full)
    for key in full:
        yield written(name, {other: value for other, value in full.items() if other != key})
        yield from (written(name, {**full, key: value}) for value in BAD_VALUES)
    for odd in ("implementation", "odd", "ameide:type", "zeebe:type"):
        yield written(name, {**full, odd: "a"})
    yield from (written(name, full, content) for content in CONTENTS)


def in_a_model(name: str, text: str) -> bytes:
    """A file of one element, where it belongs."""
    around = _PLACES.get(name, _WORK)
    tags = [word.split()[0].rstrip(">") for word in around.split("<")[1:]]
    return f"{_HEAD}{around}{text}{''.join(f'</{tag}>' for tag in reversed(tags))}</bpmn:definitions>".encode()


@pytest.mark.req("PRX-12", "PRX-13", "PRX-24")
@pytest.mark.parametrize("name", CONTRACT)
def test_schema_and_rules_agree_on_every_way_to_write_an_element(name: str) -> None:
    inner = [text for child in CONTRACT[name][2] for text in variants(child)]
    pairs = [written(name, {}, one + other) for one, other in product(inner[:1], inner)]
    texts = [*variants(name), *pairs]

    found = [one for text in texts for one in judged(in_a_model(name, text), text)]

    assert disagreements(found) == []
    assert len(found) >= len(texts)
    assert {one.is_valid for one in found} == {True, False}
