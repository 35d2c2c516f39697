"""The correlation key of a message: which extension it is read from, and what it says."""

import pytest

from tests.support.bpmn import document, process
from verblint.bpmn.assembly import assemble
from verblint.bpmn.reader import read
from verblint.fixes.edits import apply, compatible
from verblint.linter import inspect

ZEEBE = '<zeebe:subscription correlationKey="=corr_zeebe"/>'
AMEIDE = (
    '<a:subscription xmlns:a="https://ameide.io/schema/bpmn/extensions/v1"'
    ' correlationKeyTemplate="${state.corr_ameide}" messageIdPath="message_id"/>'
)
FLEANS = '<f:subscription xmlns:f="https://fleans.io/schema/bpmn/1.0" correlationKey="corr_fleans"/>'
FORMER = '<f:subscription xmlns:f="http://fleans.io/schema/bpmn/fleans" correlationKey="= corr_former"/>'


def model(*subscriptions: str) -> bytes:
    extensions = f"<extensionElements>{''.join(subscriptions)}</extensionElements>" if subscriptions else ""
    return document(
        process(
            '<startEvent id="begin"/><receiveTask id="wait" messageRef="docs"/><endEvent id="end"/>',
            '<sequenceFlow id="a" sourceRef="begin" targetRef="wait"/>',
            '<sequenceFlow id="b" sourceRef="wait" targetRef="end"/>',
        ),
        f'<message id="docs" name="documents">{extensions}</message>',
    )


def codes(content: bytes) -> set[str]:
    return {finding.code for finding in inspect(content, "p.bpmn").findings}


@pytest.mark.req("EMC-05", "EMC-19", "EMC-21", "EMC-22", "TST-21", "X-16")
@pytest.mark.parametrize(
    ("subscriptions", "key"),
    [
        ((FLEANS, AMEIDE, ZEEBE), "=corr_zeebe"),
        ((FLEANS, ZEEBE), "=corr_zeebe"),
        ((FLEANS, AMEIDE), "=corr_ameide"),
        ((FORMER, FLEANS), "=corr_fleans"),
        ((FORMER,), "=corr_former"),
        (("<zeebe:subscription/>", FLEANS), "=corr_fleans"),
        ((AMEIDE.replace("${state", "kyc/${state"), FLEANS), "=corr_fleans"),
        ((), None),
    ],
)
def test_a_key_is_read_from_zeebe_then_ameide_then_fleans(subscriptions: tuple[str, ...], key: str | None) -> None:
    found = assemble(read(model(*subscriptions))).messages["docs"]

    assert (found.id, found.name) == ("docs", "documents")
    assert (None if found.correlation_key is None else found.correlation_key.text) == key


@pytest.mark.req("EMC-21", "EMC-22")
@pytest.mark.parametrize(
    ("subscription", "found"),
    [
        (FLEANS, {"HB515"}),
        (FORMER, {"HB515"}),
        (FLEANS.replace("corr_fleans", "= a + b"), {"HB502", "HB515"}),
        (FLEANS.replace("corr_fleans", ""), {"HB502", "HB515"}),
        (FLEANS.replace("corr_fleans", "orderId"), {"HB502", "HB515"}),
        (FLEANS.replace("correlationKey", "key"), {"HB501", "HB515"}),
    ],
)
def test_what_no_broker_reads_is_a_finding_and_a_computed_key_an_error(subscription: str, found: set[str]) -> None:
    assert codes(model(subscription)) & {"HB122", "HB501", "HB502", "HB504", "HB515"} == found


@pytest.mark.req("EMC-21")
@pytest.mark.parametrize(("subscription", "key"), [(FLEANS, "corr_fleans"), (FORMER, "corr_former")])
def test_a_fix_writes_it_for_zeebe_with_the_prefix_of_the_model(subscription: str, key: str) -> None:
    content = model(subscription)
    fixed = apply(content, compatible(inspect(content, "p.bpmn").findings))

    assert fixed == model(f'<zeebe:subscription correlationKey="={key}" />')
    assert "HB515" not in codes(fixed)


def test_a_fix_removes_what_is_not_read_and_leaves_what_is_no_variable() -> None:
    beside, computed = model(ZEEBE, FLEANS), model(FLEANS.replace("corr_fleans", "a + b"))
    ours = [finding for finding in inspect(computed, "p.bpmn").findings if finding.code == "HB515"]

    assert apply(beside, compatible(inspect(beside, "p.bpmn").findings)) == model(ZEEBE)
    assert [finding.fix for finding in ours] == [None]


def test_a_subscription_of_fleans_on_an_event_is_read_by_nobody() -> None:
    content = model(ZEEBE).replace(
        b'messageRef="docs"/>',
        f'messageRef="docs"><extensionElements>{FLEANS}</extensionElements></receiveTask>'.encode(),
    )

    assert codes(content) & {"HB504", "HB515"} == {"HB504"}
