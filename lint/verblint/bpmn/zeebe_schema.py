"""The zeebe extension as data: which elements there are, where each may stand, and since which engine.

The engine ignores what it does not know, and the next release gives meaning to more. So what is not listed here is
refused. What a rule of its own forbids is listed all the same: it shall be refused once, by that rule.
"""

from collections.abc import Iterator, Mapping

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.element_group import Alike
from verblint.startup.value import value

Version = tuple[int, int]

_JOBS = ("serviceTask", "sendTask", "intermediateThrowEvent", "endEvent", "businessRuleTask", "scriptTask")
_EVENTS = ("startEvent", "endEvent", "intermediateCatchEvent", "intermediateThrowEvent", "boundaryEvent")
_SCOPES = ("subProcess", "transaction", "adHocSubProcess")
_ACTIVITIES = (*_JOBS, "userTask", "receiveTask", "callActivity", "task", "manualTask", *_SCOPES)
_GATEWAYS = ("exclusiveGateway", "inclusiveGateway", "parallelGateway", "eventBasedGateway")
_BINDING = ("bindingType", "versionTag")
_TEMPLATES = ("modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon")
_CONFIGURATIONS = ("modelerConfigurationTemplate", "modelerConfigurationName")


@value(guarded=False)
class Shape:
    """One element of the extension: its attributes, its parents, the first engine that knows it.

    A parent is a BPMN element, in whose extension elements it stands, or `zeebe:` and an element of the extension.
    Without parents it may stand in the extension elements of anything.
    """

    attributes: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    since: Version = (8, 6)
    is_repeatable: bool = False

    def may_stand_in(self, parent: str) -> bool:
        """True when the element may stand in such a parent."""
        return not self.parents or parent in self.parents


SHAPES: Mapping[str, Shape] = {
    "taskDefinition": Shape(("type", "retries"), (*_JOBS, "adHocSubProcess")),
    "taskHeaders": Shape((), (*_JOBS, "userTask", "adHocSubProcess")),
    "header": Shape(("id", "key", "value"), ("zeebe:taskHeaders",), is_repeatable=True),
    "ioMapping": Shape((), (*_ACTIVITIES, *_EVENTS)),
    "input": Shape(("source", "target", *_CONFIGURATIONS), ("zeebe:ioMapping",), is_repeatable=True),
    "output": Shape(("source", "target"), ("zeebe:ioMapping",), is_repeatable=True),
    "subscription": Shape(("correlationKey",), ("message",)),
    "userTask": Shape((), ("userTask",)),
    "assignmentDefinition": Shape(("assignee", "candidateGroups", "candidateUsers"), ("userTask",)),
    "taskSchedule": Shape(("dueDate", "followUpDate"), ("userTask",)),
    "priorityDefinition": Shape(("priority",), ("userTask",)),
    "formDefinition": Shape(("formId", "formKey", "externalReference", *_BINDING), ("userTask", "startEvent")),
    "jobPriorityDefinition": Shape(("priority",), ("process", *_JOBS), (8, 10)),
    "versionTag": Shape(("value",), ("process",)),
    "properties": Shape(),
    "property": Shape(("name", "value", *_CONFIGURATIONS), ("zeebe:properties",), is_repeatable=True),
    "executionListeners": Shape((), ("process", *_ACTIVITIES, *_EVENTS, *_GATEWAYS)),
    "executionListener": Shape(("eventType", "retries", "type"), ("zeebe:executionListeners",), is_repeatable=True),
    "taskListeners": Shape((), ("userTask",), (8, 8)),
    "taskListener": Shape(("eventType", "retries", "type"), ("zeebe:taskListeners",), (8, 8), is_repeatable=True),
    # Refused by rules of their own, whatever the engine.
    "script": Shape(("expression", "resultVariable"), ("scriptTask",)),
    "calledDecision": Shape(("decisionId", "resultVariable", *_BINDING), ("businessRuleTask",)),
    "calledElement": Shape(
        (
            *("processId", "processIdExpression", "businessId"),
            *("propagateAllChildVariables", "propagateAllParentVariables", *_BINDING),
        ),
        ("callActivity",),
    ),
    "loopCharacteristics": Shape(
        ("inputCollection", "inputElement", "outputCollection", "outputElement"),
        ("multiInstanceLoopCharacteristics",),
    ),
    "adHoc": Shape(("activeElementsCollection", "outputCollection", "outputElement"), ("adHocSubProcess",)),
    "conditionalFilter": Shape(("variableNames", "variableEvents"), ("conditionalEventDefinition",)),
    "publishMessage": Shape(("correlationKey", "messageId", "timeToLive"), ("sendTask", "messageEventDefinition")),
    "userTaskForm": Shape(("id",), ("process",), is_repeatable=True),
    "linkedResources": Shape((), ("serviceTask", "sendTask")),
    "linkedResource": Shape(
        ("resourceId", "resourceType", "linkName", *_BINDING), ("zeebe:linkedResources",), is_repeatable=True
    ),
    "agentDefinition": Shape(("agentType",), ("serviceTask", "adHocSubProcess")),
}

# What the extension adds to BPMN elements themselves; each is refused by a rule of its own.
ATTRIBUTES = (*_TEMPLATES, "retryCounter")


def known_elements(elements: Mapping[tuple[str, str], Alike]) -> Iterator[tuple[Shape, Alike]]:
    """The elements of the extension among some, those of one name together with their shape."""
    for (namespace, local), alike in elements.items():
        shape = SHAPES.get(local) if namespace == ZEEBE else None
        if shape is not None:
            yield shape, alike
