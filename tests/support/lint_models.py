"""Small models for tests of the tool around the rules: one clean, one with a finding, one with a suppression."""

from verblint.bpmn.element import BPMN, VERBWORKER

_TEMPLATE = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="{BPMN}" xmlns:vw="{VERBWORKER}" id="file" targetNamespace="urn:test">
  <process id="case" isExecutable="true">
    <startEvent id="start"/>
    <exclusiveGateway id="ask" default="no"/>
    <endEvent id="left" name="Left"/>
    <endEvent id="right"/>
    <sequenceFlow id="in" sourceRef="start" targetRef="ask"/>
    <sequenceFlow id="yes" name="%(name)s" sourceRef="ask" targetRef="left">%(extensions)s
      <conditionExpression>%(condition)s</conditionExpression>
    </sequenceFlow>
    <sequenceFlow id="no" sourceRef="ask" targetRef="right"/>
  </process>
</definitions>
"""

IGNORE = '<vw:ignore rule="HB215" reason="it is set at the start"/>'


def model(condition: str = "=orch_ready = true", *, ignore: str = "", name: str = "yes") -> bytes:
    """A model with one condition, perhaps with suppressions on the flow that carries it."""
    extensions = f"\n      <extensionElements>{ignore}</extensionElements>" if ignore else ""
    return (_TEMPLATE % {"condition": condition, "extensions": extensions, "name": name}).encode()


CLEAN = model()
BARE = model("=orch_ready")
SUPPRESSED = model("=orch_ready", ignore=IGNORE)
BROKEN = b"<definitions>"
