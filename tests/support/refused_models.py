"""Models with one thing that the embedded engine does not execute, each with the way it is pointed to."""

from dataclasses import dataclass

_SHELL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="http://verbworker/tests">
{declarations}
  <bpmn:process id="{process}" isExecutable="true">
    <bpmn:startEvent id="begin"><bpmn:outgoing>f1</bpmn:outgoing></bpmn:startEvent>
    <bpmn:sequenceFlow id="f1" sourceRef="begin" targetRef="task"/>
    <bpmn:serviceTask id="task">
      <bpmn:extensionElements><zeebe:taskDefinition type="{job_type}"/></bpmn:extensionElements>
      <bpmn:incoming>f1</bpmn:incoming><bpmn:outgoing>f2</bpmn:outgoing>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="f2" sourceRef="task" targetRef="odd"/>
{odd}
    <bpmn:sequenceFlow id="f3" sourceRef="odd" targetRef="end"/>
    <bpmn:endEvent id="end"><bpmn:incoming>f3</bpmn:incoming></bpmn:endEvent>
  </bpmn:process>
</bpmn:definitions>
"""
LINE = 13
"""Where the odd element stands when nothing is declared before the process."""

_FLOWS = "<bpmn:incoming>f2</bpmn:incoming><bpmn:outgoing>f3</bpmn:outgoing>"
_INNER = (
    '<bpmn:startEvent id="in"><bpmn:outgoing>g1</bpmn:outgoing></bpmn:startEvent>'
    '<bpmn:sequenceFlow id="g1" sourceRef="in" targetRef="out"/>'
    '<bpmn:endEvent id="out"><bpmn:incoming>g1</bpmn:incoming></bpmn:endEvent>'
)
_JOB = '<zeebe:taskDefinition type="x"/>'


@dataclass(frozen=True, slots=True)
class Odd:
    """One refused thing: what it is called, how it is drawn, and words of the way that is pointed to."""

    name: str
    drawn: str
    way: str

    def model(self, process: str = "odd", job_type: str = "a") -> bytes:
        """A process with it between its task and its end."""
        return _SHELL.format(declarations="", process=process, job_type=job_type, odd=self.drawn).encode()


def _element(kind: str, inside: str = "", extensions: str = "", attributes: str = "") -> str:
    held = f"<bpmn:extensionElements>{extensions}</bpmn:extensionElements>" if extensions else ""
    return f'    <bpmn:{kind} id="odd"{attributes}>{held}{_FLOWS}{inside}</bpmn:{kind}>'


def _event(kind: str, definition: str) -> str:
    return _element(kind, f"<bpmn:{definition}EventDefinition/>")


def _mapping(inside: str) -> str:
    return f"<zeebe:ioMapping>{inside}</zeebe:ioMapping>"


_CATCH, _THROW = "intermediateCatchEvent", "intermediateThrowEvent"

ODD = [
    Odd("script task", _element("scriptTask"), "make it a service task"),
    Odd("decision table", _element("businessRuleTask"), "make it a service task"),
    Odd("call activity", _element("callActivity"), "hand over by a message"),
    Odd("complex gateway", _element("complexGateway"), "use an exclusive or a parallel one"),
    Odd("transaction", _element("transaction", _INNER), "use a subprocess"),
    Odd("ad-hoc subprocess", _element("adHocSubProcess", _INNER), "draw the order of its steps"),
    Odd("event subprocess", _element("subProcess", _INNER, attributes=' triggeredByEvent="true"'), "boundary event"),
    Odd("signal", _event(_CATCH, "signal"), "use a message"),
    Odd("thrown signal", _event(_THROW, "signal"), "use a message"),
    Odd("escalation", _event(_THROW, "escalation"), "use an error"),
    Odd("condition", _event(_CATCH, "conditional"), "use a gateway behind the task"),
    Odd("link", _event(_THROW, "link"), "use a sequence flow"),
    Odd(
        "two events in one",
        _element(_CATCH, "<bpmn:messageEventDefinition/><bpmn:timerEventDefinition/>"),
        "draw one event each behind an event-based gateway",
    ),
    Odd(
        "multi-instance",
        _element("serviceTask", "<bpmn:multiInstanceLoopCharacteristics/>", _JOB),
        "draw the loop with a gateway",
    ),
    Odd(
        "standard loop",
        _element("serviceTask", "<bpmn:standardLoopCharacteristics/>", _JOB),
        "draw the loop with a gateway",
    ),
    Odd(
        "mapping that computes",
        _element("serviceTask", "", _JOB + _mapping('<zeebe:input source="=a * 2" target="b"/>')),
        "maps =a * 2 into b, which the embedded engine does not run; map a variable, a path or a constant",
    ),
    Odd(
        "mapping into a list",
        _element("serviceTask", "", _JOB + _mapping('<zeebe:output source="=a" target="b[1]"/>')),
        "maps into b[1], which",
    ),
    Odd(
        "mapping of a gateway",
        _element("exclusiveGateway", "", _mapping('<zeebe:input source="=a" target="b"/>')),
        "has an input mapping, which the embedded engine does not run; move it to a task",
    ),
    Odd(
        "mapping into an event",
        _element(
            _CATCH,
            "<bpmn:timerEventDefinition><bpmn:timeDuration>PT1M</bpmn:timeDuration></bpmn:timerEventDefinition>",
            _mapping('<zeebe:input source="=a" target="b"/>'),
        ),
        "has an input mapping",
    ),
    Odd("no job type", _element("serviceTask"), "write one"),
    Odd("computed job type", _element("serviceTask", "", '<zeebe:taskDefinition type="=kind"/>'), "write one"),
    Odd("computed retries", _element("serviceTask", "", '<zeebe:taskDefinition type="x" retries="=n"/>'), "a number"),
    Odd("message without a name", _element("receiveTask"), "declare it with a zeebe:subscription"),
    Odd("timer without a time", _element(_CATCH, "<bpmn:timerEventDefinition/>"), "write a duration"),
    Odd(
        "computed time",
        _element(
            _CATCH,
            "<bpmn:timerEventDefinition><bpmn:timeDuration>=a + b</bpmn:timeDuration></bpmn:timerEventDefinition>",
        ),
        "computes =a + b, which the embedded engine does not run; have a task set one variable and name that, or use"
        " Zeebe (VERBWORKER_ENGINE=zeebe)",
    ),
]  # fmt: skip
