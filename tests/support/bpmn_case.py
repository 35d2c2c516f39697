"""One model that has a bit of everything the typed model knows, for tests of the model and of its mutations."""

from tests.support.bpmn import conditional_flow, document, process

_JOB = """<extensionElements>
  <zeebe:taskDefinition type="kyc.request-documents" retries="5"/>
  <zeebe:taskHeaders><zeebe:header key="channel" value="mail"/><zeebe:header/></zeebe:taskHeaders>
  <zeebe:ioMapping>
    <zeebe:input source="=orch_x" target="orch_x"/><zeebe:output target="y"/><zeebe:odd/>
  </zeebe:ioMapping>
  <zeebe:executionListeners>
    <zeebe:executionListener eventType="start" type="verbworker.park" retries="3"/>
  </zeebe:executionListeners>
</extensionElements>"""

_TIMERS = """
<boundaryEvent id="late" attachedToRef="ask" cancelActivity="false">
  <timerEventDefinition><timeDuration> P5D </timeDuration></timerEventDefinition>
</boundaryEvent>
<boundaryEvent id="undo" attachedToRef="ask"><compensateEventDefinition activityRef="ask"/></boundaryEvent>
<serviceTask id="withdraw" isForCompensation="true"/>
<association id="line" sourceRef="undo" targetRef="withdraw"/>
"""

_INSIDE = """
<startEvent id="inner-start" isInterrupting="false"><signalEventDefinition signalRef="bell"/></startEvent>
<sequenceFlow id="inner-flow" sourceRef="inner-start" targetRef="inner-end">
  <conditionExpression>=orch_f</conditionExpression>
</sequenceFlow>
<endEvent id="inner-end"><errorEventDefinition errorRef="broken"/></endEvent>
"""


def everything() -> bytes:
    """The document."""
    return document(
        '<message id="m" name="documents-received"><extensionElements>'
        '<zeebe:subscription correlationKey="=corr_documents"/></extensionElements></message>',
        '<message id="bare"/><error id="broken" name="Broken" errorCode="E1"/>',
        '<escalation id="up" escalationCode="U1"/><signal id="bell" name="Bell"/>',
        process(
            '<documentation>words</documentation><startEvent id="start" name="Start"/>',
            f'<serviceTask id="ask" name="Ask">{_JOB}</serviceTask>',
            _TIMERS,
            '<exclusiveGateway id="choice" default="no"/>',
            '<sequenceFlow id="first" sourceRef="start" targetRef="ask"/>',
            conditional_flow(' =orch_review_outcome = "approved" '),
            '<sequenceFlow id="no" name="No" sourceRef="choice" targetRef="next"/>',
            '<userTask id="next"><extensionElements><zeebe:userTask/><zeebe:taskListeners>'
            '<zeebe:taskListener eventType="complete" type="=x"/></zeebe:taskListeners></extensionElements>',
            '<multiInstanceLoopCharacteristics isSequential="1"/></userTask>',
            '<receiveTask id="wait" messageRef="m"/>',
            f'<subProcess id="sub" triggeredByEvent="true">{_INSIDE}</subProcess>',
            '<hexagon id="strange"/>',
        ),
    )
