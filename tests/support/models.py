"""Small BPMN models for tests that need an engine to run something."""

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


def one_task(process: str, job_type: str) -> bytes:
    """Start, one service task, end."""
    return _SHELL.format(process=process, body=_ONE_TASK.format(job_type=job_type)).encode()


def timer_then_task(process: str, duration: str, job_type: str) -> bytes:
    """Start, a timer, one service task, end."""
    return _SHELL.format(process=process, body=_TIMER.format(duration=duration, job_type=job_type)).encode()
