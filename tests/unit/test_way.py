"""The way taken: flows that the record proves, and none that it leaves open."""

from collections.abc import Mapping

import pytest

from tests.support.bpmn import tree
from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import Scope
from verbworker.model.way import Stay, Way, choose_flows, find_way

TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
JOB = '<extensionElements><zeebe:taskDefinition type="a.b"/></extensionElements>'


def scope_of(*parts: str) -> Scope:
    return assemble(tree(f'<process id="p" isExecutable="true">{"".join(parts)}</process>')).processes[0].scope


def flows(*ways: str) -> str:
    """Flows named by their ends: `s-a` leads from s to a."""
    return "".join(
        f'<sequenceFlow id="{way}" sourceRef="{way.split("-")[0]}" targetRef="{way.split("-")[1]}"/>' for way in ways
    )


def job(name: str, more: str = "") -> str:
    return f'<serviceTask id="{name}" {more}>{JOB}</serviceTask>'


def stay(came: float, left: float | None = None, *, is_diverted: bool = False) -> Stay:
    return Stay([came], [] if left is None else [left], is_diverted)


def way(scope: Scope, stays: Mapping[str, Stay], *, is_over: bool = False) -> Way:
    return find_way(scope, stays, is_over=is_over)


CHOICE = scope_of(
    '<startEvent id="s"/><endEvent id="e"/><endEvent id="z"/><exclusiveGateway id="x"/><exclusiveGateway id="m"/>',
    job("a") + job("b") + job("c") + job("d"),
    flows("s-a", "a-x", "x-b", "x-c", "b-m", "c-m", "m-d", "d-e", "x-z"),
)


def test_of_a_choice_the_branch_that_was_done_is_the_way() -> None:
    found = way(CHOICE, {"a": stay(1, 2), "c": stay(2, 3), "d": stay(4)})

    assert found.flows == {"s-a", "a-x", "x-c", "c-m", "m-d"}
    assert found.passed == {"s", "x", "m"}


def test_a_case_that_is_over_came_to_its_end() -> None:
    assert way(CHOICE, {"a": stay(1, 2), "b": stay(2, 3), "d": stay(4, 5)}, is_over=True).passed >= {"e"}
    assert way(CHOICE, {"a": stay(1, 2)}, is_over=True).flows == {"s-a", "a-x", "x-z"}
    assert way(CHOICE, {"a": stay(1, 2)}).flows == {"s-a"}


def test_nothing_recorded_is_no_way() -> None:
    assert way(CHOICE, {}) == Way(frozenset(), frozenset())
    assert way(CHOICE, {"unknown": stay(1, 2)}) == Way(frozenset(), frozenset())


def test_two_flows_that_explain_the_same_are_not_marked() -> None:
    scope = scope_of(
        '<startEvent id="s"/><exclusiveGateway id="x"/><task id="n"/><exclusiveGateway id="m"/>',
        job("a") + job("b"),
        flows("s-a", "a-x", "x-m", "x-n", "n-m", "m-b"),
    )

    assert way(scope, {"a": stay(1, 2), "b": stay(3)}).flows == {"s-a", "m-b"}


def test_a_loop_is_taken_once_it_was_gone_round() -> None:
    scope = scope_of(
        '<startEvent id="s"/><exclusiveGateway id="m"/><exclusiveGateway id="x"/>',
        job("a") + job("b"),
        flows("s-m", "m-a", "a-x", "x-m", "x-b"),
    )

    assert way(scope, {"a": stay(1, 2)}).flows == {"s-m", "m-a"}
    assert way(scope, {"a": Stay([1, 3], [2])}).flows == {"s-m", "m-a", "a-x", "x-m"}


def test_all_branches_lead_into_a_join() -> None:
    scope = scope_of(
        '<startEvent id="s"/><parallelGateway id="f"/><parallelGateway id="j"/>',
        job("a") + job("b") + job("c"),
        flows("s-f", "f-a", "f-b", "a-j", "b-j", "j-c"),
    )

    assert way(scope, {"a": stay(1, 2), "b": stay(1, 5)}).flows == {"s-f", "f-a", "f-b"}
    assert way(scope, {"a": stay(1, 2), "b": stay(1, 5), "c": stay(6)}).flows >= {"a-j", "b-j", "j-c"}


BOUNDARY = scope_of(
    f'<startEvent id="s"/><boundaryEvent id="late" attachedToRef="a">{TIMER}</boundaryEvent>',
    '<boundaryEvent id="bad" attachedToRef="a"><errorEventDefinition/></boundaryEvent>',
    '<boundaryEvent id="note" attachedToRef="a" cancelActivity="false"><escalationEventDefinition/></boundaryEvent>',
    '<exclusiveGateway id="m"/>',
    job("a") + job("b") + job("c"),
    flows("s-a", "a-m", "late-m", "bad-m", "note-c", "m-b"),
)


@pytest.mark.parametrize(
    ("stays", "taken"),
    [
        ({"a": stay(1, 2)}, "a-m"),
        ({"a": stay(1, 2, is_diverted=True)}, "bad-m"),
        ({"a": stay(1), "late": stay(2, 2)}, "late-m"),
    ],
)
def test_a_boundary_event_takes_the_token_of_its_activity(stays: dict[str, Stay], taken: str) -> None:
    assert way(BOUNDARY, {**stays, "b": stay(3)}).flows == {"s-a", taken, "m-b"}


def test_an_event_beside_an_activity_leaves_it_running() -> None:
    assert way(BOUNDARY, {"a": stay(1, 4), "c": stay(5)}).flows == {"s-a", "note-c"}


def test_links_and_events_behind_a_gateway_are_passed() -> None:
    link = '<linkEventDefinition name="L"/>'
    scope = scope_of(
        f'<startEvent id="s"/><eventBasedGateway id="g"/><intermediateCatchEvent id="t">{TIMER}'
        "</intermediateCatchEvent>",
        f'<intermediateCatchEvent id="u">{TIMER}</intermediateCatchEvent>',
        f'<intermediateThrowEvent id="o">{link}</intermediateThrowEvent>',
        f'<intermediateCatchEvent id="i">{link}</intermediateCatchEvent>',
        job("a") + job("b"),
        flows("s-g", "g-t", "g-u", "t-a", "u-o", "i-b"),
    )

    found = way(scope, {"g": stay(1, 2), "b": stay(3)})

    assert found.flows == {"s-g", "g-u", "u-o", "i-b"}
    assert found.passed == {"s", "u", "o", "i"}


def test_subprocesses_are_explained_inside_and_outside() -> None:
    inside = '<startEvent id="s2"/><endEvent id="e2"/>' + job("a") + flows("s2-a", "a-e2")
    empty = '<startEvent id="s3"/><endEvent id="e3"/>' + flows("s3-e3")
    scope = scope_of(
        f'<startEvent id="s"/><subProcess id="sub">{inside}</subProcess><subProcess id="nop">{empty}</subProcess>',
        job("b") + flows("s-sub", "sub-nop", "nop-b"),
    )

    running = way(scope, {"a": stay(1)})
    done = way(scope, {"a": stay(1, 2), "b": stay(3)})

    assert running.flows == {"s-sub", "s2-a"}
    assert done.flows == {"s-sub", "s2-a", "a-e2", "sub-nop", "nop-b"}
    assert done.passed == {"s", "s2", "e2", "nop"}


def choice(condition: str) -> str:
    return f"<conditionExpression>{condition}</conditionExpression>"


ENDS = scope_of(
    '<startEvent id="s"/><exclusiveGateway id="x" default="x-no"/><endEvent id="yes"/><endEvent id="no"/>',
    job("a") + flows("s-a", "a-x", "x-no"),
    f'<sequenceFlow id="x-yes" sourceRef="x" targetRef="yes">{choice("=good")}</sequenceFlow>',
)


@pytest.mark.parametrize(
    ("flags", "taken"),
    [({"good": True}, {"a-x", "x-yes"}), ({"good": False}, {"a-x", "x-no"}), ({}, set()), ({"good": 1}, set())],
)
def test_what_a_gateway_chose_last_is_known_from_the_last_flags(flags: dict[str, object], taken: set[str]) -> None:
    choices = choose_flows(ENDS, flags)

    assert way(ENDS, {"a": stay(1, 2)}, is_over=True).flows == {"s-a"}
    assert find_way(ENDS, {"a": stay(1, 2)}, is_over=True, choices=choices).flows == {"s-a", *taken}
    assert find_way(ENDS, {"a": stay(1, 2)}, is_over=False, choices=choices).flows == {"s-a"}


def test_a_condition_that_cannot_be_read_decides_nothing() -> None:
    text = choice("=some x in y satisfies x")
    odd = scope_of(
        '<exclusiveGateway id="x" default="x-no"/><endEvent id="yes"/><endEvent id="no"/>' + flows("x-no"),
        f'<sequenceFlow id="x-yes" sourceRef="x" targetRef="yes">{text}</sequenceFlow>',
    )

    assert choose_flows(odd, {}) == {}
    assert choose_flows(CHOICE, {}) == {}


THROWN = scope_of(
    '<startEvent id="s"/><subProcess id="sub"><startEvent id="s2"/>',
    job("a") + job("c") + '<endEvent id="e2"/>' + flows("s2-a", "a-c", "c-e2"),
    '</subProcess><boundaryEvent id="bad" attachedToRef="sub"><errorEventDefinition/></boundaryEvent>',
    job("b") + job("d") + flows("s-sub", "sub-b", "bad-d"),
)


def test_an_error_inside_a_subprocess_leaves_it_by_its_boundary_event() -> None:
    found = way(THROWN, {"a": stay(1, 2), "c": stay(2, 3, is_diverted=True), "d": stay(4)})

    assert found.flows == {"s-sub", "s2-a", "a-c", "bad-d"}
    assert found.passed == {"s", "s2", "bad"}


def test_long_and_forked_models_are_searched_in_bounded_time() -> None:
    count = 150
    parts = ['<startEvent id="s"/>', job("a"), flows("s-x0")]
    for number in range(count):
        parts.append(f'<exclusiveGateway id="x{number}"/><task id="l{number}"/><task id="r{number}"/>')
        after = f"x{number + 1}" if number + 1 < count else "a"
        parts.append(flows(f"x{number}-l{number}", f"x{number}-r{number}", f"l{number}-{after}", f"r{number}-{after}"))
    chain = "".join(f'<task id="t{n}"/>' for n in range(5_000)) + flows(*(f"t{n}-t{n + 1}" for n in range(4_999)))
    scope = scope_of(*parts, chain, job("z"), flows("t4999-z"))

    found = way(scope, {"a": stay(1), "z": stay(2)}, is_over=True)

    assert "s-x0" not in found.flows
    assert len(found.flows) <= 201


def test_a_flow_from_nowhere_explains_nothing() -> None:
    scope = scope_of('<startEvent id="s"/>' + job("a") + flows("s-a", "gone-a"))

    assert way(scope, {"a": stay(1)}).flows == {"s-a"}
