"""Seed 001, section 17: the extension is a closed schema of elements, attributes and values."""

import pytest

from tests.support.strict_model import MODEL, Edit, found, meets
from verblint.bpmn.ameide_schema import SHAPES
from verblint.report import Severity

# One occurrence of every element of the extension, up to where an attribute may be added.
_WRITTEN = {
    "workflowDefinition": '<ameide:workflowDefinition definitionId="claim/1"',
    "taskDefinition": '<ameide:taskDefinition type="claim.ask"',
    "taskHeaders": "<ameide:taskHeaders />\n        <ameide:ioMapping />",
    "header": '<ameide:header key="letter.kind-1"',
    "ioMapping": "<ameide:ioMapping />",
    "input": '<ameide:input source="state.claim_id"',
    "output": '<ameide:output source="result.sent.at"',
    "subscription": '<ameide:subscription correlationKeyTemplate="${state.claim_id}"',
    "updateDefinition": '<ameide:updateDefinition name="Update_Review"',
}
# The whole of those that have no children, as the model writes them.
_LEAVES = {
    "workflowDefinition": 'workflowIdTemplate="claim/${state.claim_id}" />',
    "taskDefinition": 'idempotencyKeyTemplate="ask/${state.claim_id}" />',
    "header": '<ameide:header key="letter.kind-1" value="first" />',
    "input": '<ameide:input source="state.claim_id" target="request.claim" />',
    "output": '<ameide:output source="result.sent.at" target="state.asked_at" />',
    "subscription": 'correlationKeyTemplate="pay/${state.payment.id}" messageIdPath="message_id" />',
    "updateDefinition": '<ameide:updateDefinition name="Update_Review" />',
    "taskHeaders": "<ameide:taskHeaders />",
    "ioMapping": "<ameide:ioMapping />",
}
_CHILDREN = {"taskHeaders": {"header"}, "ioMapping": {"input", "output"}}
_HOLDER = '        <ameide:updateDefinition name="Update_Review" />\n'


def _given(name: str, attribute: str) -> str:
    """An element with one attribute more."""
    return _WRITTEN[name].replace(f"<ameide:{name}", f"<ameide:{name} {attribute}", 1)


def _filled(name: str, content: str) -> str:
    """An element with some content."""
    return _LEAVES[name].removesuffix(" />") + f">\n{content}</ameide:{name}>"


def test_every_element_of_the_schema_is_in_these_tests() -> None:
    assert set(_WRITTEN) == set(_LEAVES) == set(SHAPES)
    assert all(MODEL.count(text) == 1 for text in (*_WRITTEN.values(), *_LEAVES.values()))


@pytest.mark.req("PRX-12", "PRX-13", "PRX-24")
@pytest.mark.parametrize("attribute", ['odd="1"', 'implementation="go"', 'ameide:type="x"', 'zeebe:type="x"', 'id="x"'])
@pytest.mark.parametrize("name", _WRITTEN)
def test_an_attribute_that_the_schema_does_not_have_is_refused(name: str, attribute: str) -> None:
    assert meets(Edit(name, _WRITTEN[name], _given(name, attribute), "AM703"))


@pytest.mark.req("PRX-12")
@pytest.mark.parametrize(
    ("name", "attribute"), [(name, attribute) for name, shape in SHAPES.items() for attribute in shape.required]
)
def test_an_attribute_that_the_schema_wants_is_missed(name: str, attribute: str) -> None:
    line = next(line for line in MODEL.splitlines() if _WRITTEN[name] in line)
    value = line.split(f'{attribute}="')[1].split('"')[0]

    assert meets(Edit(attribute, line, line.replace(f' {attribute}="{value}"', "", 1), "AM703"))


@pytest.mark.req("PRX-12", "PRX-13")
@pytest.mark.parametrize(
    ("name", "child"),
    [(name, child) for name in _LEAVES for child in (*SHAPES, "madeUp") if child not in _CHILDREN.get(name, ())],
)
def test_a_child_that_the_schema_does_not_have_is_refused(name: str, child: str) -> None:
    code = "AM702" if child in SHAPES else "AM701"

    assert meets(Edit(child, _LEAVES[name], _filled(name, f"<ameide:{child} />"), code, f"<ameide:{child} /></ameide:"))


@pytest.mark.req("PRX-12", "PRX-13")
@pytest.mark.parametrize("child", ["<zeebe:header />", "<bpmn:documentation />", '<x xmlns="urn:x" />', "some text"])
@pytest.mark.parametrize("name", _LEAVES)
def test_nothing_foreign_stands_in_an_element_of_the_extension(name: str, child: str) -> None:
    edit = Edit(child, _LEAVES[name], _filled(name, child), "AM725", f"{child}</ameide:")
    errors = {finding.code: finding for finding in found(edit.model) if finding.severity is Severity.ERROR}

    assert "AM725" in errors
    # Text is told of the element it stands in, which begins one line above.
    assert errors["AM725"].line == edit.line - (child == "some text")


@pytest.mark.req("PRX-11", "PRX-12")
@pytest.mark.parametrize("child", ["header", "input", "output", "madeUp"])
def test_what_is_no_element_by_itself_stands_in_no_extension(child: str) -> None:
    code = "AM702" if child in SHAPES else "AM701"

    assert meets(Edit(child, _HOLDER, f"{_HOLDER}        <ameide:{child} />\n", code, f"<ameide:{child} />\n"))


@pytest.mark.req("PRX-13")
@pytest.mark.parametrize(
    "element", ['process id="claim"', 'serviceTask id="ask"', 'message id="docs"', 'endEvent id="end"']
)
def test_the_extension_has_no_attributes_for_elements_of_bpmn(element: str) -> None:
    written = f"<bpmn:{element}"

    assert meets(Edit(element, written, f'{written} ameide:policyRef="standard"', "AM725"))


@pytest.mark.req("PRX-27")
@pytest.mark.parametrize("order", ["input input", "output input", "input output input output"])
def test_inputs_and_outputs_come_in_any_order_and_number(order: str) -> None:
    entries = "".join(
        f'<ameide:input source="state.a" target="request.n{number}" />'
        if kind == "input"
        else f'<ameide:output source="result.a" target="state.n{number}" />'
        for number, kind in enumerate(order.split())
    )

    assert found(MODEL.replace("<ameide:ioMapping />", f"<ameide:ioMapping>{entries}</ameide:ioMapping>")) == []
