"""The zeebe extension as data: its elements, their allowed parents, and the first engine version of each.

The engine ignores unknown elements, and a later release may give them a meaning, so elements not listed here are
rejected. Elements forbidden by their own rule are listed too, so that only that rule reports them.
"""

from collections.abc import Iterator, Mapping

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.element_group import ElementGroup
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
class ZeebeShape:
    """One element of the extension: its attributes, its parents, and the first engine that supports it.

    A parent is a BPMN element, whose extension elements contain it, or `zeebe:` and an element of the extension.
    Without parents, the extension elements of any element may contain it.
    """

    attributes: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    since: Version = (8, 6)
    is_repeatable: bool = False

    def may_stand_in(self, parent: str) -> bool:
        """Return whether the element is allowed in such a parent."""
        return not self.parents or parent in self.parents


SHAPES: Mapping[str, ZeebeShape] = {
    "taskDefinition": ZeebeShape(("type", "retries"), (*_JOBS, "adHocSubProcess")),
    "taskHeaders": ZeebeShape((), (*_JOBS, "userTask", "adHocSubProcess")),
    "header": ZeebeShape(("id", "key", "value"), ("zeebe:taskHeaders",), is_repeatable=True),
    "ioMapping": ZeebeShape((), (*_ACTIVITIES, *_EVENTS)),
    "input": ZeebeShape(("source", "target", *_CONFIGURATIONS), ("zeebe:ioMapping",), is_repeatable=True),
    "output": ZeebeShape(("source", "target"), ("zeebe:ioMapping",), is_repeatable=True),
    "subscription": ZeebeShape(("correlationKey",), ("message",)),
    "userTask": ZeebeShape((), ("userTask",)),
    "assignmentDefinition": ZeebeShape(("assignee", "candidateGroups", "candidateUsers"), ("userTask",)),
    "taskSchedule": ZeebeShape(("dueDate", "followUpDate"), ("userTask",)),
    "priorityDefinition": ZeebeShape(("priority",), ("userTask",)),
    "formDefinition": ZeebeShape(("formId", "formKey", "externalReference", *_BINDING), ("userTask", "startEvent")),
    "jobPriorityDefinition": ZeebeShape(("priority",), ("process", *_JOBS), (8, 10)),
    "versionTag": ZeebeShape(("value",), ("process",)),
    "properties": ZeebeShape(),
    "property": ZeebeShape(("name", "value", *_CONFIGURATIONS), ("zeebe:properties",), is_repeatable=True),
    "executionListeners": ZeebeShape((), ("process", *_ACTIVITIES, *_EVENTS, *_GATEWAYS)),
    "executionListener": ZeebeShape(
        ("eventType", "retries", "type"), ("zeebe:executionListeners",), is_repeatable=True
    ),
    "taskListeners": ZeebeShape((), ("userTask",), (8, 8)),
    "taskListener": ZeebeShape(("eventType", "retries", "type"), ("zeebe:taskListeners",), (8, 8), is_repeatable=True),
    # Rejected by their own rules for every engine.
    "script": ZeebeShape(("expression", "resultVariable"), ("scriptTask",)),
    "calledDecision": ZeebeShape(("decisionId", "resultVariable", *_BINDING), ("businessRuleTask",)),
    "calledElement": ZeebeShape(
        (
            *("processId", "processIdExpression", "businessId"),
            *("propagateAllChildVariables", "propagateAllParentVariables", *_BINDING),
        ),
        ("callActivity",),
    ),
    "loopCharacteristics": ZeebeShape(
        ("inputCollection", "inputElement", "outputCollection", "outputElement"),
        ("multiInstanceLoopCharacteristics",),
    ),
    "adHoc": ZeebeShape(("activeElementsCollection", "outputCollection", "outputElement"), ("adHocSubProcess",)),
    "conditionalFilter": ZeebeShape(("variableNames", "variableEvents"), ("conditionalEventDefinition",)),
    "publishMessage": ZeebeShape(("correlationKey", "messageId", "timeToLive"), ("sendTask", "messageEventDefinition")),
    "userTaskForm": ZeebeShape(("id",), ("process",), is_repeatable=True),
    "linkedResources": ZeebeShape((), ("serviceTask", "sendTask")),
    "linkedResource": ZeebeShape(
        ("resourceId", "resourceType", "linkName", *_BINDING), ("zeebe:linkedResources",), is_repeatable=True
    ),
    "agentDefinition": ZeebeShape(("agentType",), ("serviceTask", "adHocSubProcess")),
}

# Attributes that the extension adds to BPMN elements; each is rejected by its own rule.
ATTRIBUTES = (*_TEMPLATES, "retryCounter")


def known_elements(elements: Mapping[tuple[str, str], ElementGroup]) -> Iterator[tuple[ZeebeShape, ElementGroup]]:
    """Yield the groups of known extension elements, each with its shape."""
    for (namespace, local), alike in elements.items():
        shape = SHAPES.get(local) if namespace == ZEEBE else None
        if shape is not None:
            yield shape, alike
