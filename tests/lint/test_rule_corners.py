"""Corners of single rules that need no model of their own: a document of a few lines, and what is said about it."""

import pytest

from tests.support.bpmn import conditional_flow, document, process
from verblint.bpmn.element import AMEIDE, ZEEBE
from verblint.contracts.contract import (
    Contracts,
    DirectVerb,
    Flag,
    FlagType,
    FlagValue,
    Origin,
    WorkflowVerbFields,
)
from verblint.linter import inspect
from verblint.names import nearest
from verblint.rules.index import find
from verblint.startup.value import replace

HERE = Origin("verbs.yaml")


def flag(name: str, kind: FlagType, initial: FlagValue, *values: str) -> Flag:
    return Flag(name, kind, initial, values)


VERB = WorkflowVerbFields(
    name="kyc.case",
    version=1,
    process="case",
    origin=HERE,
    sub_verbs=("kyc.ask",),
    flags={
        each.name: each
        for each in (
            flag("orch_n", FlagType.INTEGER, 0),
            *(flag(f"orch_e{number}", FlagType.ENUM, "a", *"abcdefgh") for number in range(5)),
        )
    },
    correlation={"corr_case": "${state.case}", "corr_documents": "${state.case}"},
    messages={"documents": "corr_documents"},
)
CONTRACTS = Contracts(
    workflows={"kyc.case": VERB},
    directs={
        "kyc.ask": DirectVerb(name="kyc.ask", writes=("case.letters",), origin=HERE),
        "kyc.note": DirectVerb(name="kyc.note", writes=("case.notes",), origin=HERE),
        "kyc.close": DirectVerb(name="kyc.close", writes=("case",), origin=HERE),
        "kyc.read": DirectVerb(name="kyc.read", writes=(), origin=HERE),
    },
)


def found(code: str, content: bytes) -> list[str]:
    rule = find(code)
    assert rule is not None
    return [finding.message for finding in inspect(content, "x", contracts=CONTRACTS, choose=lambda _: [rule]).findings]


def task(key: str, verb: str = "kyc.ask") -> str:
    definition = f'<zeebe:taskDefinition type="{verb}"/>'
    return f'<serviceTask id="{key}"><extensionElements>{definition}</extensionElements></serviceTask>'


def flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}"/>'


def message(name: str, key: str) -> str:
    subscription = f'<zeebe:subscription correlationKey="{key}"/>'
    return f'<message id="m" name="{name}"><extensionElements>{subscription}</extensionElements></message>'


@pytest.mark.req("LNT-13")
def test_a_message_is_correlated_by_its_own_key_and_not_by_another_that_is_declared() -> None:
    model = document(message("documents", "=corr_case"), process('<receiveTask id="wait" messageRef="m"/>'))

    assert found("HB503", model) == ["the message documents is correlated by corr_documents, not by corr_case"]


def test_a_gateway_that_reads_too_many_flags_needs_a_default_flow() -> None:
    condition = "=" + " and ".join(f'orch_e{number} = "a"' for number in range(5))
    model = document(process('<exclusiveGateway id="choice"/>', conditional_flow(condition)))

    assert found("HB216", model) == ["the gateway has no default flow"]
    assert found("HB219", model) == []


def test_a_flow_from_an_event_gateway_to_nowhere_is_not_its_concern() -> None:
    model = document(process('<eventBasedGateway id="g"/>', flow("g", "nowhere"), flow("g", "elsewhere")))

    assert found("HB023", model) == []


@pytest.mark.parametrize("namespace", [ZEEBE, AMEIDE])
def test_an_extension_as_the_root_of_a_file_stands_in_no_extension_elements(namespace: str) -> None:
    code = "HB120" if namespace == ZEEBE else "AM702"

    assert len(found(code, f'<taskDefinition xmlns="{namespace}" type="x"/>'.encode())) == 1


def test_an_empty_path_is_a_missing_attribute_and_no_wrong_path() -> None:
    model = document(process('<ameide:input source="" target="request.x"/>'))

    assert found("AM712", model) == []
    assert found("AM703", model) == ["input has no source"]


def test_text_that_only_speaks_of_an_agent_is_no_expression() -> None:
    model = document(process('<zeebe:header key="k" value="fromAi(x)"/>'))

    assert found("HB109", model) == []


def test_a_request_that_leads_into_a_circle_of_gateways_has_no_wait() -> None:
    model = document(
        process(
            '<ameide:x/><exclusiveGateway id="a"/><exclusiveGateway id="b"/>',
            task("ask", "score.request.v1"),
            *(flow("ask", "a"), flow("a", "b"), flow("b", "a"), flow("b", "nowhere")),
        )
    )

    assert found("AM723", model) == ["nothing waits for the answer to score.request.v1"]


# References


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            '<collaboration id="c"><participant id="p" processRef="other"/></collaboration>',
            "processRef refers to other",
        ),
        (process('<laneSet id="l"><lane id="n"><flowNodeRef>gone</flowNodeRef></lane></laneSet>'), "flowNodeRef"),
        (process('<association id="a" sourceRef="gone" targetRef="a"/>'), "sourceRef refers to gone"),
        (process('<endEvent id="e"><signalEventDefinition signalRef="s"/></endEvent>'), "signalRef refers to s"),
        (process('<endEvent id="e"><escalationEventDefinition escalationRef="s"/></endEvent>'), "escalationRef"),
        (
            process('<endEvent id="e"><compensateEventDefinition activityRef="s"/></endEvent>'),
            "activityRef refers to s",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(part: str, said: str) -> None:
    (message,) = found("HB010", document(part))

    assert message.startswith(said)


def test_references_that_lead_somewhere_are_silent() -> None:
    model = document(
        '<signal id="s" name="s"/><escalation id="x" escalationCode="x"/>',
        '<collaboration id="c"><participant id="p" processRef="case"/><participant id="q"/></collaboration>',
        process(
            '<laneSet id="l"><lane id="n"><flowNodeRef>e</flowNodeRef></lane></laneSet><subProcess id="u"/>',
            '<endEvent id="e"><signalEventDefinition signalRef="s"/></endEvent>',
            '<endEvent id="f"><escalationEventDefinition escalationRef="x"/></endEvent>',
            '<endEvent id="g"><compensateEventDefinition activityRef="u"/></endEvent>',
            '<endEvent id="h"><compensateEventDefinition/></endEvent>',
            '<association id="a" sourceRef="e" targetRef="f"/>',
        ),
    )

    assert found("HB010", model) == []


# Events that compete


def escalation(key: str, ref: str) -> str:
    reference = f' escalationRef="{ref}"' if ref else ""
    definition = f"<escalationEventDefinition{reference}/>"
    return f'<boundaryEvent id="{key}" attachedToRef="part">{definition}</boundaryEvent>'


@pytest.mark.parametrize(
    ("refs", "said"),
    [
        (("late", "late"), ["the boundaryEvent two catches escalation LATE, which another event in its place catches"]),
        (("", ""), ["the boundaryEvent two catches every escalation, which another event in its place catches"]),
        (("late", ""), []),
    ],
)
def test_two_events_of_one_activity_catch_different_escalations(refs: tuple[str, str], said: list[str]) -> None:
    model = document(
        '<escalation id="late" escalationCode="LATE"/>',
        process('<subProcess id="part"/>', escalation("one", refs[0]), escalation("two", refs[1])),
    )

    assert found("HB026", model) == said


# Parallel writers


def forked(*verbs: str) -> bytes:
    tasks = [task(f"t{number}", verb) for number, verb in enumerate(verbs)]
    flows = [flow("split", f"t{number}") for number in range(len(verbs))]
    return document(process('<parallelGateway id="split"/>', *tasks, *flows))


@pytest.mark.parametrize(
    ("verbs", "fields"),
    [
        (("kyc.ask", "kyc.note"), None),
        (("kyc.ask", "kyc.read"), None),
        (("kyc.ask", "kyc.ask"), "case.letters"),
        (("kyc.ask", "kyc.close"), "case"),
        (("kyc.close", "kyc.ask"), "case.letters"),
        (("kyc.ask", "kyc.unknown"), "anything"),
        (("kyc.unknown", "kyc.ask"), "case.letters"),
        (("kyc.read", "kyc.unknown"), None),
    ],
)
def test_fields_overlap_when_they_are_equal_or_one_lies_in_the_other(
    verbs: tuple[str, str], fields: str | None
) -> None:
    messages = found("HB306", forked(*verbs))

    assert [said.rpartition(" write ")[2] for said in messages] == ([fields] if fields else [])


@pytest.mark.parametrize(
    ("verb", "undos", "fields"),
    [
        ("kyc.ask", {"kyc.ask": "kyc.note"}, None),
        ("kyc.note", {"kyc.ask": "kyc.ask"}, None),
        ("kyc.note", {"kyc.ask": "kyc.close"}, "case.notes"),
        ("kyc.close", {"kyc.ask": "kyc.note"}, "case"),
        ("kyc.note", {"kyc.ask": "kyc.unknown"}, "anything"),
        ("kyc.unknown", {"kyc.ask": "kyc.note"}, "anything"),
        ("kyc.unknown", {"kyc.ask": "kyc.read"}, None),
        ("kyc.read", {"kyc.ask": "kyc.unknown"}, None),
        ("kyc.note", {}, None),
        ("verbworker.compensate", {"kyc.ask": "kyc.unknown"}, None),
    ],
)
def test_a_compensation_writes_what_its_undos_write(verb: str, undos: dict[str, str], fields: str | None) -> None:
    rule = find("HB306")
    assert rule is not None
    known = replace(CONTRACTS, workflows={VERB.name: replace(VERB, compensation=undos)})
    model = forked("verbworker.compensate", verb)
    findings = inspect(model, "x", contracts=known, choose=lambda _: [rule]).findings

    assert [found.message.rpartition(" write ")[2] for found in findings] == ([fields] if fields else [])


def test_a_task_is_reported_once_however_many_forks_lead_to_it() -> None:
    splits = '<parallelGateway id="first"/><parallelGateway id="second"/>'
    flows = [flow(split, target) for split in ("first", "second") for target in ("a", "b")]
    model = document(process(splits, task("a"), task("b"), *flows))

    assert len(found("HB306", model)) == 1


def test_a_process_that_forks_without_end_is_refused_and_not_waited_for() -> None:
    forks = [f'<parallelGateway id="g{number}"/>' for number in range(1100)]
    flows = [flow(f"g{number}", f"g{target}") for number in range(1100) for target in (number + 1, number + 2)]
    model = document(process(*forks, *flows))

    assert found("HB306", model) == ["the process forks too often to tell which of its steps run at the same time"]


# Names


def test_a_name_is_not_compared_with_thousands_of_others() -> None:
    assert nearest("serviceTsk", ["serviceTask"]) == "serviceTask"
    assert nearest("serviceTsk", ["serviceTask", *map(str, range(1000))]) == ""


def test_a_name_that_is_like_no_other_has_no_nearest() -> None:
    assert nearest("xyz", ["serviceTask"]) == ""


def test_an_undo_of_a_step_that_the_contract_does_not_undo_is_no_second_one() -> None:
    undone = (
        '<boundaryEvent id="edge" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
        '<association id="line" sourceRef="edge" targetRef="undo"/>'
        '<serviceTask id="undo" isForCompensation="true"/>'
    )
    model = document(process(task("a"), undone, task("all", "verbworker.compensate")))

    assert found("HB411", model) == []
