"""The last jobs before a wait: on every way a token can come there."""

import pytest

from tests.support.bpmn import document, process
from verblint.bpmn.assembly import assemble
from verblint.bpmn.reader import read
from verbworker.profile.last_writers import LastWriters, find_last_writers

CATCH = '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'


def job(name: str, kind: str = "x.verb") -> str:
    bound = f'<extensionElements><zeebe:taskDefinition type="{kind}"/></extensionElements>'
    return f'<serviceTask id="{name}">{bound}</serviceTask>'


def flows(*pairs: str) -> str:
    """Flows, each as `from>to`."""
    ends = (pair.split(">") for pair in pairs)
    return "".join(
        f'<sequenceFlow id="f{i}_{a}_{b}" sourceRef="{a}" targetRef="{b}"/>' for i, (a, b) in enumerate(ends)
    )


def before(*parts: str, wait: str = "wait") -> LastWriters:
    """Who comes last before the wait of a process with these parts."""
    root = read(document(process('<startEvent id="begin"/>', *parts), '<message id="m" name="m"/>'))
    (found,) = assemble(root).processes
    scope, node = next((scope, node) for scope, node in found.walk() if node.id == wait)
    return find_last_writers(found, scope, node)


def certain(*names: str) -> LastWriters:
    return LastWriters(frozenset(names), frozenset(), at_start=False)


@pytest.mark.req("PRX-28")
def test_the_job_right_before_it() -> None:
    assert before(job("a"), job("b"), CATCH, flows("begin>a", "a>b", "b>wait")) == certain("b")


def test_gates_and_gateways_and_other_waits_are_passed() -> None:
    parts = '<userTask id="gate"/><exclusiveGateway id="x"/><receiveTask id="other" messageRef="m"/>'
    way = flows("begin>a", "a>x", "x>gate", "x>b", "b>other", "gate>other", "other>wait")

    assert before(job("a"), job("b"), parts, CATCH, way) == certain("a", "b")


def test_without_any_job_the_start_is_the_last() -> None:
    assert before(CATCH, flows("begin>wait")) == LastWriters(frozenset(), frozenset(), at_start=True)


def test_a_loop_brings_the_job_behind_the_wait_too() -> None:
    way = flows("begin>a", "a>wait", "wait>b", "b>x", "x>wait")

    assert before(job("a"), job("b"), '<exclusiveGateway id="x"/>', CATCH, way) == certain("a", "b")


def test_of_branches_that_meet_nobody_knows_the_last() -> None:
    parts = '<parallelGateway id="fork"/><parallelGateway id="join"/>'
    way = flows("begin>fork", "fork>a", "fork>b", "a>join", "b>join", "join>wait")

    assert before(job("a"), job("b"), parts, CATCH, way) == LastWriters(
        frozenset(), frozenset({"a", "b"}), at_start=False
    )


def test_a_branch_of_its_own_is_certain() -> None:
    parts = '<parallelGateway id="fork"/>'

    assert before(job("a"), job("b"), parts, CATCH, flows("begin>fork", "fork>a", "fork>b", "a>wait")) == certain("a")


def test_into_a_subprocess_and_out_of_it() -> None:
    inner = f'<startEvent id="in"/>{job("b")}<endEvent id="out"/>{flows("in>b", "b>out")}'
    way = flows("begin>a", "a>sub", "sub>wait")

    assert before(job("a"), f'<subProcess id="sub">{inner}</subProcess>', CATCH, way) == certain("b")
    waiting = f'<startEvent id="in"/>{CATCH}<endEvent id="out"/>{flows("in>wait", "wait>out")}'
    assert before(job("a"), f'<subProcess id="sub">{waiting}</subProcess>', flows("begin>a", "a>sub")) == certain("a")


@pytest.mark.req("PRX-32")
def test_a_boundary_event_listens_from_before_its_host() -> None:
    boundary = '<boundaryEvent id="wait" attachedToRef="b"><messageEventDefinition messageRef="m"/></boundaryEvent>'

    assert before(job("a"), job("b"), boundary, flows("begin>a", "a>b")) == certain("a")


def test_an_event_subprocess_listens_from_the_start_of_what_is_around_it() -> None:
    event = (
        '<subProcess id="beside" triggeredByEvent="true"><startEvent id="wait">'
        '<messageEventDefinition messageRef="m"/></startEvent></subProcess>'
    )

    assert before(job("a"), event, flows("begin>a")) == LastWriters(frozenset(), frozenset(), at_start=True)
    within = f'<subProcess id="sub"><startEvent id="in"/>{event}</subProcess>'
    assert before(job("a"), within, flows("begin>a", "a>sub")) == certain("a")


def test_a_link_is_followed_and_a_message_that_is_thrown_is_a_job() -> None:
    links = (
        '<intermediateThrowEvent id="jump"><linkEventDefinition name="l"/></intermediateThrowEvent>'
        '<intermediateCatchEvent id="land"><linkEventDefinition name="l"/></intermediateCatchEvent>'
    )
    assert before(job("a"), links, CATCH, flows("begin>a", "a>jump", "land>wait")) == certain("a")
    thrown = '<intermediateThrowEvent id="tell"><messageEventDefinition messageRef="m"/></intermediateThrowEvent>'
    assert before(job("a"), thrown, CATCH, flows("begin>a", "a>tell", "tell>wait")) == certain("tell")


def test_what_the_runtime_does_itself_is_no_verb() -> None:
    undo = job("undo", "verbworker.compensate")

    assert before(job("a"), undo, CATCH, flows("begin>a", "a>undo", "undo>wait")) == certain("a")


def test_two_ways_through_one_place_are_walked_once() -> None:
    parts = '<exclusiveGateway id="x"/><manualTask id="m1"/><manualTask id="m2"/><manualTask id="one"/>'
    way = flows("begin>a", "a>one", "one>x", "x>m1", "x>m2", "m1>wait", "m2>wait")

    assert before(job("a"), parts, CATCH, way) == certain("a")


def test_an_end_that_sends_is_the_last_job_of_its_subprocess() -> None:
    told = '<extensionElements><zeebe:taskDefinition type="x.tell"/></extensionElements><messageEventDefinition/>'
    inside = f'<startEvent id="in"/>{job("b")}<endEvent id="told">{told}</endEvent>{flows("in>b", "b>told")}'

    found = before(f'<subProcess id="sub">{inside}</subProcess>', CATCH, flows("begin>sub", "sub>wait"))
    assert found == certain("told")


def test_a_boundary_event_of_nothing_has_nothing_before_it() -> None:
    lost = '<boundaryEvent id="wait" attachedToRef="gone"><messageEventDefinition messageRef="m"/></boundaryEvent>'

    assert before(lost) == certain()
