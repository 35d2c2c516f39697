"""What stands at each element of a model, how many steps it has, and which waits end with which."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.weaving import BY_ERROR, BY_MESSAGE, BY_TIMER, registry_of, woven
from verbworker.model.waits import ModelWait, as_json, due, ends, from_json
from verbworker.runbook.event import DueBy

TASK = (
    '<serviceTask id="{key}"><extensionElements><zeebe:taskDefinition type="{job}"/></extensionElements></serviceTask>'
)


def task(key: str, job: str = "kyc.check") -> str:
    return TASK.format(key=key, job=job)


def flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}"/>'


IN_CASE = ("case",)
SECOND = ("timeDuration PT1S",)
STANDING = {
    "a message": (
        f'<intermediateCatchEvent id="x" name="Letter came">{BY_MESSAGE}</intermediateCatchEvent>',
        ModelWait("external_signal", "Letter came", message="letter-came", inside=IN_CASE),
    ),
    "a message nobody declared": (
        '<intermediateCatchEvent id="x"><messageEventDefinition messageRef="no"/></intermediateCatchEvent>',
        ModelWait("external_signal", "x", inside=IN_CASE),
    ),
    "a receive task": (
        '<receiveTask id="x" messageRef="letter"/>',
        ModelWait("external_signal", "x", message="letter-came", inside=IN_CASE),
    ),
    "a timer": (
        f'<intermediateCatchEvent id="x">{BY_TIMER}</intermediateCatchEvent>',
        ModelWait("timer", "x", inside=IN_CASE, timers=SECOND),
    ),
    "a signal": (
        '<intermediateCatchEvent id="x"><signalEventDefinition signalRef="s"/></intermediateCatchEvent>',
        ModelWait("external_signal", "x", inside=IN_CASE),
    ),
    "a gate of the contract": (
        '<userTask id="x" name="Review"/>',
        ModelWait("human_gate", "Review", gate="review", inside=IN_CASE),
    ),
    "a service task": (task("x"), ModelWait("incident", "x", inside=IN_CASE)),
    "an interrupting timer": (
        f'<boundaryEvent id="x" attachedToRef="work">{BY_TIMER}</boundaryEvent>',
        ModelWait("timer", "x", attached_to="work", interrupting=True, inside=IN_CASE, timers=SECOND),
    ),
    "a timer that interrupts nothing": (
        f'<boundaryEvent id="x" attachedToRef="work" cancelActivity="false">{BY_TIMER}</boundaryEvent>',
        ModelWait("timer", "x", attached_to="work", inside=IN_CASE, timers=SECOND),
    ),
    "a boundary error": (
        f'<boundaryEvent id="x" attachedToRef="work">{BY_ERROR}</boundaryEvent>',
        ModelWait("error", "x", attached_to="work", interrupting=True, inside=IN_CASE),
    ),
    "a boundary escalation": (
        '<boundaryEvent id="x" attachedToRef="work"><escalationEventDefinition escalationRef="up"/></boundaryEvent>',
        ModelWait("escalation", "x", attached_to="work", interrupting=True, inside=IN_CASE),
    ),
    "a start of an event subprocess": (
        f'<subProcess id="late" triggeredByEvent="true"><startEvent id="x">{BY_TIMER}</startEvent></subProcess>',
        ModelWait("timer", "x", attached_to="case", interrupting=True, inside=("case", "late"), timers=SECOND),
    ),
    "a timer in a subprocess": (
        f'<subProcess id="in"><intermediateCatchEvent id="x">{BY_TIMER}</intermediateCatchEvent></subProcess>',
        ModelWait("timer", "x", inside=("case", "in"), timers=SECOND),
    ),
}


@pytest.mark.parametrize(("part", "wanted"), STANDING.values(), ids=STANDING)
def test_what_stands_at_an_element(part: str, wanted: ModelWait) -> None:
    assert woven(part, registry=registry_of(gates={"review": "x"})).waits["x"] == wanted


def test_a_gate_is_called_by_the_contract_or_by_the_model_or_by_its_task() -> None:
    named = '<extensionElements><ameide:updateDefinition name="Update_Second"/></extensionElements>'
    parts = ('<userTask id="a"/>', f'<userTask id="b">{named}</userTask>', '<userTask id="c"/>')
    waits = woven(*parts, registry=registry_of(gates={"review": "a"})).waits

    assert [waits[key].gate for key in "abc"] == ["review", "Update_Second", "Update_c"]


@pytest.mark.parametrize(
    "part",
    [
        '<startEvent id="x"/>',
        f'<startEvent id="x">{BY_MESSAGE}</startEvent>',
        '<exclusiveGateway id="x"/>',
        '<boundaryEvent id="x" attachedToRef="work"><compensateEventDefinition/></boundaryEvent>',
        '<intermediateCatchEvent id="x"><linkEventDefinition name="on"/></intermediateCatchEvent>',
    ],
)
def test_what_never_waits_is_not_among_the_waits(part: str) -> None:
    assert woven(part).waits == {}


def choice(*, name: str = "", letters: int = 1) -> dict[str, ModelWait]:
    """A gateway that waits for a timer or for so many letters."""
    events = [f'<intermediateCatchEvent id="late" name="5 days passed">{BY_TIMER}</intermediateCatchEvent>']
    events += [
        f'<intermediateCatchEvent id="came{number}" name="Letter {number}">{BY_MESSAGE}</intermediateCatchEvent>'
        for number in range(letters)
    ]
    flows = [flow("first", "late"), *(flow("first", f"came{number}") for number in range(letters))]
    return woven(f'<eventBasedGateway id="first" name="{name}"/>', *events, *flows).waits


def test_a_gateway_waits_for_what_is_behind_it() -> None:
    waits = choice()

    assert waits["first"] == ModelWait(
        "external_signal", "5 days passed or Letter 0", message="letter-came", inside=IN_CASE, timers=SECOND
    )
    assert (waits["late"].behind, waits["came0"].behind) == ("first", "first")


def test_a_gateway_with_a_name_is_called_by_it() -> None:
    assert choice(name="Letter or time")["first"].name == "Letter or time"


def test_a_gateway_that_waits_for_several_messages_names_none() -> None:
    assert choice(letters=2)["first"].message is None


def test_a_gateway_with_timers_only_waits_for_a_timer() -> None:
    assert choice(letters=0)["first"].kind == "timer"


def test_a_gateway_that_leads_nowhere_is_called_by_its_id() -> None:
    assert woven('<eventBasedGateway id="first"/>').waits["first"].name == "first"


def test_a_gate_knows_the_form_of_its_task_and_is_kept_as_before_without_one() -> None:
    forms = ('externalReference="paper"', 'formId="sheet"', 'formKey="=orch_form"')
    tasks = [
        f'<userTask id="{key}"><extensionElements><zeebe:formDefinition {form}/></extensionElements></userTask>'
        for key, form in zip("abc", forms, strict=True)
    ]
    waits = woven(*tasks).waits
    kept = as_json(waits)

    assert [waits[key].form for key in "abc"] == ["paper", "sheet", None]
    assert ("form" in kept["a"], "form" in kept["c"]) == (True, False)
    assert from_json(json.loads(json.dumps(kept))) == waits


def test_waits_survive_the_database() -> None:
    waits = choice(letters=2)

    assert from_json(json.loads(json.dumps(as_json(waits)))) == waits


def test_waits_that_were_kept_before_timers_were_known_have_none() -> None:
    kept = {
        key: {name: value for name, value in one.items() if name != "timers"} for key, one in as_json(choice()).items()
    }

    assert from_json(kept)["first"].timers == ()


def test_a_wait_knows_the_timers_at_its_edge() -> None:
    dated = "<timerEventDefinition><timeDate>2030-01-31T09:00:00Z</timeDate></timerEventDefinition>"
    waits = woven(
        '<userTask id="gate"/>',
        f'<boundaryEvent id="late" attachedToRef="gate">{BY_TIMER}</boundaryEvent>',
        f'<boundaryEvent id="last" attachedToRef="gate" cancelActivity="false">{dated}</boundaryEvent>',
        '<intermediateCatchEvent id="never"><timerEventDefinition/></intermediateCatchEvent>',
    ).waits

    assert waits["gate"].timers == ("timeDuration PT1S", "timeDate 2030-01-31T09:00:00Z")
    assert due(waits, "gate", {}, NOON).beside == ("last",)
    assert waits["never"].timers == ()


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("timers", "after", "at"),
    [
        ((), None, None),
        (("timeDuration PT1H", "timeDuration P1D"), timedelta(hours=1), None),
        (("timeDate 2030-01-31T09:00:00Z",), None, datetime(2030, 1, 31, 9, tzinfo=UTC)),
        (
            ("timeDuration P1M", "timeDate 2031-01-01T00:00:00+02:00"),
            timedelta(days=31),
            datetime(2030, 12, 31, 22, tzinfo=UTC),
        ),
        (("timeDuration =orch_due",), timedelta(days=5), None),
        (("timeDuration = orch_due ",), timedelta(days=5), None),
        (("timeDuration =orch_unknown", "timeDuration =orch_odd", "timeDuration =orch_true"), None, None),
        (("timeCycle R3/PT1H",), None, None),
        (("timeDuration P99999999999Y",), datetime(9000, 1, 1, tzinfo=UTC) - NOON, None),
    ],
)
def test_the_first_timer_says_when_a_wait_is_due(
    timers: tuple[str, ...], after: timedelta | None, at: datetime | None
) -> None:
    variables = {"orch_due": "P5D", "orch_odd": "soon", "orch_true": True}

    waits = {"x": ModelWait("timer", "x", timers=timers)}

    assert due(waits, "x", variables, NOON) == DueBy(after, at)
    assert due(waits, "y", variables, NOON) == DueBy()


def test_the_usual_way_is_counted_without_what_interrupts_it() -> None:
    steps = woven(
        '<startEvent id="begin"/>',
        task("a"),
        '<userTask id="b"/>',
        f'<boundaryEvent id="late" attachedToRef="b">{BY_TIMER}</boundaryEvent>',
        task("escalate"),
        task("undo", "verbworker.compensate"),
        f'<subProcess id="in"><startEvent id="s"/>{task("c")}{task("lost")}{flow("s", "c")}</subProcess>',
        f'<subProcess id="e" triggeredByEvent="true"><startEvent id="t">{BY_TIMER}</startEvent>{task("d")}'
        f"{flow('t', 'd')}</subProcess>",
        '<intermediateThrowEvent id="jump"><linkEventDefinition name="on"/></intermediateThrowEvent>',
        '<intermediateCatchEvent id="land"><linkEventDefinition name="on"/></intermediateCatchEvent>',
        '<receiveTask id="wait" messageRef="letter"/>',
        task("last"),
        flow("begin", "a"),
        flow("a", "b"),
        flow("b", "in"),
        flow("late", "escalate"),
        flow("in", "undo"),
        flow("undo", "jump"),
        flow("land", "wait"),
        flow("wait", "last"),
        flow("last", "a"),
        flow("last", "nowhere"),
    ).steps

    assert steps == len(["a", "b", "c", "last"])


NESTED = woven(
    '<userTask id="gate"/>',
    f'<boundaryEvent id="soon" attachedToRef="gate" cancelActivity="false">{BY_TIMER}</boundaryEvent>',
    f'<boundaryEvent id="late" attachedToRef="gate">{BY_TIMER}</boundaryEvent>',
    f'<subProcess id="in">{task("deep")}<subProcess id="inner"><receiveTask id="letter-in" messageRef="letter"/>'
    "</subProcess></subProcess>",
    f'<boundaryEvent id="broken" attachedToRef="in">{BY_ERROR}</boundaryEvent>',
    '<receiveTask id="letter-out" messageRef="letter"/>',
    f'<subProcess id="stop" triggeredByEvent="true"><startEvent id="stopped">{BY_MESSAGE}</startEvent>'
    '<userTask id="why"/></subProcess>',
    '<eventBasedGateway id="first"/>',
    f'<intermediateCatchEvent id="time">{BY_TIMER}</intermediateCatchEvent>',
    flow("first", "time"),
).waits
WAITING = ("gate", "deep", "letter-in", "letter-out", "why", "first")


@pytest.mark.parametrize(
    ("element", "ended"),
    [
        ("letter-out", ["letter-out"]),
        ("soon", []),
        ("late", ["gate"]),
        ("broken", ["deep", "letter-in"]),
        ("stopped", ["gate", "deep", "letter-in", "letter-out", "first"]),
        ("time", ["first"]),
        ("first", ["first"]),
    ],
)
def test_a_wait_ends_with_what_goes_on_or_interrupts_it(element: str, ended: list[str]) -> None:
    assert [other for other in WAITING if ends(NESTED, element, other)] == ended


def test_an_element_nobody_knows_ends_only_its_own_wait() -> None:
    assert ends({}, "x", "x")
    assert not ends({}, "x", "y")
    assert ends(NESTED, "late", "gate")
    assert not ends(NESTED, "late", "unknown")
