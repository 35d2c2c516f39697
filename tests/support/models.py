"""Small BPMN models for tests that need an engine to run something."""

from collections.abc import Sequence
from itertools import pairwise

_SHELL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="http://verbworker/tests">
  <bpmn:process id="{process}" isExecutable="true">
{body}
  </bpmn:process>
</bpmn:definitions>
"""
_ONE_TASK = """    <bpmn:startEvent id="begin"/>
    <bpmn:sequenceFlow id="into" sourceRef="begin" targetRef="task"/>
    <bpmn:serviceTask id="task">
      <bpmn:extensionElements><zeebe:taskDefinition type="{job_type}" retries="3"/></bpmn:extensionElements>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="out" sourceRef="task" targetRef="end"/>
    <bpmn:endEvent id="end"/>"""
_TIMER = """    <bpmn:startEvent id="begin"/>
    <bpmn:sequenceFlow id="into" sourceRef="begin" targetRef="wait"/>
    <bpmn:intermediateCatchEvent id="wait">
      <bpmn:timerEventDefinition><bpmn:timeDuration>{duration}</bpmn:timeDuration></bpmn:timerEventDefinition>
    </bpmn:intermediateCatchEvent>
    <bpmn:sequenceFlow id="on" sourceRef="wait" targetRef="task"/>
    <bpmn:serviceTask id="task">
      <bpmn:extensionElements><zeebe:taskDefinition type="{job_type}" retries="3"/></bpmn:extensionElements>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="out" sourceRef="task" targetRef="end"/>
    <bpmn:endEvent id="end"/>"""

_CAUGHT = """    <bpmn:boundaryEvent id="caught" attachedToRef="risky">
      <bpmn:outgoing>caught_after</bpmn:outgoing>
      <bpmn:errorEventDefinition/>
    </bpmn:boundaryEvent>"""


def one_task(process: str, job_type: str) -> bytes:
    """Start, one service task, end."""
    return _SHELL.format(process=process, body=_ONE_TASK.format(job_type=job_type)).encode()


def timer_then_task(process: str, duration: str, job_type: str) -> bytes:
    """Start, a timer, one service task, end."""
    return _SHELL.format(process=process, body=_TIMER.format(duration=duration, job_type=job_type)).encode()


def line(process: str, job_types: Sequence[str], *, retries: int = 3) -> bytes:
    """Start, one service task after the other, end."""
    steps = ["begin", *(f"task_{number}" for number in range(1, len(job_types) + 1)), "end"]
    body = ['    <bpmn:startEvent id="begin"/>', '    <bpmn:endEvent id="end"/>']
    body += [_task(f"task_{number}", job_type, retries) for number, job_type in enumerate(job_types, 1)]
    body += [_flow(source, target) for source, target in pairwise(steps)]
    return _SHELL.format(process=process, body="\n".join(body)).encode()


def fork(process: str, left: str, right: str, after: str) -> bytes:
    """Start, two service tasks side by side, one more when both are done, end."""
    body = ['    <bpmn:startEvent id="begin"/>', '    <bpmn:endEvent id="end"/>']
    body += ['    <bpmn:parallelGateway id="split"/>', '    <bpmn:parallelGateway id="join"/>']
    body += [_task("left", left), _task("right", right), _task("after", after), _flow("begin", "split")]
    body += [_flow("split", side) for side in ("left", "right")] + [_flow(side, "join") for side in ("left", "right")]
    body += [_flow("join", "after"), _flow("after", "end")]
    return _SHELL.format(process=process, body="\n".join(body)).encode()


def review(process: str, after: str, *, escalate: str | None = None, within: str = "PT1S", ends: bool = True) -> bytes:
    """Start, a person asked, one service task, end; with `escalate` a task when the time `within` is up.

    A timer that `ends` the question takes it away; the other one leaves it standing.
    """
    asked = (
        '<zeebe:assignmentDefinition assignee="anna" candidateGroups="reviewers, leads"/>'
        '<zeebe:taskSchedule dueDate="2030-01-31T12:00:00Z"/>'
    )
    body = ['    <bpmn:startEvent id="begin"/>', '    <bpmn:endEvent id="end"/>', _task("after", after)]
    body += [f'    <bpmn:userTask id="Review"><bpmn:extensionElements>{asked}</bpmn:extensionElements></bpmn:userTask>']
    body += [_flow("begin", "Review"), _flow("Review", "after"), _flow("after", "end")]
    if escalate is not None:
        duration = f"<bpmn:timeDuration>{within}</bpmn:timeDuration>"
        flow = "<bpmn:outgoing>late_escalate</bpmn:outgoing>"  # a boundary event must name it, or it is refused
        timer = f"{flow}<bpmn:timerEventDefinition>{duration}</bpmn:timerEventDefinition>"
        kind = f'attachedToRef="Review" cancelActivity="{str(ends).lower()}"'
        body += [f'    <bpmn:boundaryEvent id="late" {kind}>{timer}</bpmn:boundaryEvent>', _task("escalate", escalate)]
        body += ['    <bpmn:endEvent id="escalated"/>', _flow("late", "escalate"), _flow("escalate", "escalated")]
    return _SHELL.format(process=process, body="\n".join(body)).encode()


def guarded(process: str, job_types: Sequence[str], risky: str, after: str) -> bytes:
    """One service task after the other, then one whose errors lead to another task; end."""
    steps = ["begin", *(f"task_{number}" for number in range(1, len(job_types) + 1)), "risky", "end"]
    body = ['    <bpmn:startEvent id="begin"/>', '    <bpmn:endEvent id="end"/>', '    <bpmn:endEvent id="given_up"/>']
    body += [_task(f"task_{number}", job_type) for number, job_type in enumerate(job_types, 1)]
    body += [_task("risky", risky), _task("after", after), _CAUGHT]
    body += [_flow(source, target) for source, target in (*pairwise(steps), ("caught", "after"), ("after", "given_up"))]
    return _SHELL.format(process=process, body="\n".join(body)).encode()


def _task(element_id: str, job_type: str, retries: int = 3) -> str:
    definition = f'<zeebe:taskDefinition type="{job_type}" retries="{retries}"/>'
    extension = f"<bpmn:extensionElements>{definition}</bpmn:extensionElements>"
    return f'    <bpmn:serviceTask id="{element_id}">{extension}</bpmn:serviceTask>'


def _flow(source: str, target: str) -> str:
    return f'    <bpmn:sequenceFlow id="{source}_{target}" sourceRef="{source}" targetRef="{target}"/>'
