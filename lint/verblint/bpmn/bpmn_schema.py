"""The elements of BPMN as data: the children each may have, their order, and its attributes.

Engines validate models against the standard's schema first, so a model that violates it is not deployed. Choreographies
and conversations are omitted: no engine executes them, so they are rejected as unknown.
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from verblint.bpmn.element import BPMN, Element
from verblint.bpmn.element_group import ElementGroup
from verblint.startup.value import value

# name: base | children in order | attributes. A child with ? occurs at most once, with * any number of times, otherwise
# once. A capitalized name is a group. An attribute with ! is required; :b is a boolean, :i an integer, :n an id.
_TYPES = """
Element           |                  | documentation* extensionElements? | id:n
Expression        | Element          | |
FormalExpression  | Expression       | | language evaluatesToTypeRef
Word              |                  | |
Named             | Element          | | name
FlowElement       | Element          | auditing? monitoring? categoryValueRef* | name
FlowNode          | FlowElement      | incoming* outgoing* |
Activity          | FlowNode         | ioSpecification? property* dataInputAssociation* dataOutputAssociation* Role* \
Loop? | isForCompensation:b startQuantity:i completionQuantity:i default:n
Event             | FlowNode         | property* |
CatchEvent        | Event            | dataOutput* dataOutputAssociation* outputSet? EventDefinition* \
eventDefinitionRef* | parallelMultiple:b
ThrowEvent        | Event            | dataInput* dataInputAssociation* inputSet? EventDefinition* eventDefinitionRef* |
Gateway           | FlowNode         | | gatewayDirection
Callable          | Named            | supportedInterfaceRef* ioSpecification? ioBinding* |
DataAssociation   | Element          | sourceRef* targetRef transformation? assignment* |
DataItem          | Named            | dataState? | itemSubjectRef isCollection:b
Role              | Named            | resourceRef? resourceParameterBinding* resourceAssignmentExpression? |
definitions       |                  | import* extension* Root* BPMNDiagram* relationship* \
| id:n name targetNamespace! expressionLanguage typeLanguage exporter exporterVersion
import            |                  | | namespace! location! importType!
extension         |                  | documentation* | definition mustUnderstand:b
relationship      | Element          | source* target* | type! direction
documentation     |                  | | id:n textFormat
text              |                  | |
script            |                  | |
extensionElements |                  | |
process           | Callable         | auditing? monitoring? property* laneSet* Flow* Artifact* Role* \
correlationSubscription* supports* | processType isClosed:b isExecutable:b definitionalCollaborationRef
subProcess        | Activity         | laneSet* Flow* Artifact* | triggeredByEvent:b
transaction       | subProcess       | | method
adHocSubProcess   | subProcess       | completionCondition? | cancelRemainingInstances:b ordering
task              | Activity         | |
manualTask        | Activity         | |
serviceTask       | Activity         | | implementation operationRef
sendTask          | Activity         | | implementation messageRef operationRef
receiveTask       | Activity         | | implementation instantiate:b messageRef operationRef
userTask          | Activity         | rendering* | implementation
businessRuleTask  | Activity         | | implementation
scriptTask        | Activity         | script? | scriptFormat
callActivity      | Activity         | | calledElement
startEvent        | CatchEvent       | | isInterrupting:b
endEvent          | ThrowEvent       | |
intermediateCatchEvent | CatchEvent  | |
intermediateThrowEvent | ThrowEvent  | |
boundaryEvent     | CatchEvent       | | cancelActivity:b attachedToRef!
exclusiveGateway  | Gateway          | | default:n
inclusiveGateway  | Gateway          | | default:n
parallelGateway   | Gateway          | |
eventBasedGateway | Gateway          | | instantiate:b eventGatewayType
complexGateway    | Gateway          | activationCondition? | default:n
sequenceFlow      | FlowElement      | conditionExpression? | sourceRef!:n targetRef!:n isImmediate:b
dataObject        | FlowElement      | dataState? | itemSubjectRef isCollection:b
dataObjectReference | FlowElement    | dataState? | itemSubjectRef dataObjectRef:n
dataStoreReference | FlowElement     | dataState? | itemSubjectRef dataStoreRef
association       | Element          | | sourceRef! targetRef! associationDirection
group             | Element          | | categoryValueRef
textAnnotation    | Element          | text? | textFormat
laneSet           | Named            | lane* |
lane              | Named            | partitionElement? flowNodeRef* childLaneSet? | partitionElementRef
childLaneSet      | laneSet          | |
messageEventDefinition     | Element | operationRef? | messageRef
timerEventDefinition       | Element | timeDate? timeDuration? timeCycle? |
errorEventDefinition       | Element | | errorRef
escalationEventDefinition  | Element | | escalationRef
signalEventDefinition      | Element | | signalRef
compensateEventDefinition  | Element | | waitForCompletion:b activityRef
conditionalEventDefinition | Element | condition |
linkEventDefinition        | Element | source* target? | name!
cancelEventDefinition      | Element | |
terminateEventDefinition   | Element | |
message           | Named            | | itemRef
error             | Named            | | errorCode structureRef
escalation        | Named            | | escalationCode structureRef
signal            | Named            | | structureRef
itemDefinition    | Element          | | structureRef isCollection:b itemKind
category          | Named            | categoryValue* |
categoryValue     | Element          | | value
dataStore         | Named            | dataState? | capacity:i isUnlimited:b itemSubjectRef
resource          | Element          | resourceParameter* | name!
interface         | Element          | operation* | name! implementationRef
operation         | Element          | inMessageRef outMessageRef? errorRef* | name! implementationRef
correlationProperty | Named          | correlationPropertyRetrievalExpression* | type
correlationPropertyRetrievalExpression | Element | messagePath | messageRef!
correlationSubscription | Element    | correlationPropertyBinding* | correlationKeyRef!
correlationPropertyBinding | Element | dataPath | correlationPropertyRef!
correlationKey    | Named            | correlationPropertyRef* |
collaboration     | Named            | participant* messageFlow* Artifact* participantAssociation* \
messageFlowAssociation* correlationKey* choreographyRef* | isClosed:b
participant       | Named            | interfaceRef* endPointRef* participantMultiplicity? | processRef
participantMultiplicity | Element    | | minimum:i maximum:i
participantAssociation | Element     | innerParticipantRef outerParticipantRef |
messageFlow       | Named            | | sourceRef! targetRef! messageRef
messageFlowAssociation | Element     | | innerMessageFlowRef! outerMessageFlowRef!
multiInstanceLoopCharacteristics | Element | loopCardinality? loopDataInputRef? loopDataOutputRef? inputDataItem? \
outputDataItem? complexBehaviorDefinition* completionCondition? \
| isSequential:b behavior oneBehaviorEventRef noneBehaviorEventRef
standardLoopCharacteristics | Element | loopCondition? | testBefore:b loopMaximum:i
complexBehaviorDefinition | Element  | condition event? |
property          | Named            | dataState? | itemSubjectRef
dataState         | Named            | |
ioSpecification   | Element          | dataInput* dataOutput* inputSet* outputSet* |
ioBinding         | Element          | | operationRef! inputDataRef! outputDataRef!
inputSet          | Named            | dataInputRefs* optionalInputRefs* whileExecutingInputRefs* outputSetRefs* |
outputSet         | Named            | dataOutputRefs* optionalOutputRefs* whileExecutingOutputRefs* inputSetRefs* |
assignment        | Element          | from to |
resourceParameter | Named            | | type isRequired:b
resourceParameterBinding | Element   | expression | parameterRef!
resourceAssignmentExpression | Element | expression |
"""

# Further element names of a type.
_ALIASES = {
    "DataAssociation": "dataInputAssociation dataOutputAssociation",
    "DataItem": "dataInput dataOutput inputDataItem outputDataItem",
    "Role": "resourceRole performer humanPerformer potentialOwner",
    "Element": "auditing monitoring rendering endPoint partitionElement",
    "ThrowEvent": "event",
    "FormalExpression": "conditionExpression condition completionCondition activationCondition loopCondition"
    " loopCardinality timeDate timeDuration timeCycle from to transformation messagePath dataPath expression"
    " formalExpression",
    "Word": "incoming outgoing flowNodeRef sourceRef targetRef categoryValueRef eventDefinitionRef supports source"
    " target operationRef supportedInterfaceRef resourceRef inMessageRef outMessageRef errorRef"
    " correlationPropertyRef choreographyRef interfaceRef endPointRef innerParticipantRef outerParticipantRef"
    " loopDataInputRef loopDataOutputRef dataInputRefs optionalInputRefs whileExecutingInputRefs outputSetRefs"
    " dataOutputRefs optionalOutputRefs whileExecutingOutputRefs inputSetRefs",
}
_EVENT_DEFINITIONS = (
    "messageEventDefinition timerEventDefinition errorEventDefinition escalationEventDefinition signalEventDefinition"
    " compensateEventDefinition conditionalEventDefinition linkEventDefinition cancelEventDefinition"
    " terminateEventDefinition"
)
_GROUPS = {
    "Flow": "sequenceFlow startEvent endEvent intermediateCatchEvent intermediateThrowEvent boundaryEvent task"
    " manualTask serviceTask sendTask receiveTask userTask scriptTask businessRuleTask callActivity subProcess"
    " transaction adHocSubProcess exclusiveGateway inclusiveGateway parallelGateway eventBasedGateway complexGateway"
    " dataObject dataObjectReference dataStoreReference",
    "Artifact": "association group textAnnotation",
    "EventDefinition": _EVENT_DEFINITIONS,
    "Loop": "multiInstanceLoopCharacteristics standardLoopCharacteristics",
    "Role": "resourceRole performer humanPerformer potentialOwner",
    "Root": "process message error escalation signal collaboration itemDefinition category dataStore resource interface"
    " correlationProperty endPoint " + _EVENT_DEFINITIONS,
    "expression": "expression formalExpression",
}
# Engines require an id on these, although the schema does not.
IDENTIFIED = frozenset(f"{_GROUPS['Flow']} process message".split()) - {"dataObject", "dataObjectReference"}
# Types whose elements contain text or arbitrary content.
_MIXED = ("Expression", "Word", "documentation", "text", "script")


@value(guarded=False)
class ChildSlot:
    """One position in the order of children: the allowed names, and how often they may occur."""

    names: frozenset[str]
    is_required: bool
    is_repeatable: bool


@value(slots=False, eq=False)
class Content:
    """What an element may have: children in order, attributes with their types, and text."""

    slots: tuple[ChildSlot, ...]
    attributes: Mapping[str, str]
    required: tuple[str, ...]
    has_text: bool
    is_open: bool

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The slot number of each child name; if a name is in two slots, the first one."""
        slots = reversed(list(enumerate(self.slots)))
        return {name: number for number, slot in slots for name in slot.names}

    @cached_property
    def required_slots(self) -> tuple[ChildSlot, ...]:
        """The required children."""
        return tuple(slot for slot in self.slots if slot.is_required)

    @cached_property
    def attribute_types(self) -> Mapping[str, str]:
        """The attributes whose values have a type."""
        return {name: kind for name, kind in self.attributes.items() if kind}


@cache
def names() -> Mapping[str, str]:
    """Return every BPMN element name with its type."""
    own = {name: name for name in _types() if name[0].islower()}
    return own | {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}


@cache
def content(local: str) -> Content | None:
    """Return what an element with this name may have, or None if BPMN has no such element."""
    name = names().get(local)
    return _content(name, _types()) if name is not None else None


def known_elements(elements: Mapping[tuple[str, str], ElementGroup]) -> Iterator[tuple[Content, ElementGroup]]:
    """Yield the groups of known BPMN elements, each with what they may have."""
    for (namespace, local), alike in elements.items():
        known = content(local) if namespace == BPMN else None
        if known is not None:
            yield known, alike


@cache
def _types() -> Mapping[str, tuple[str, list[str], list[str]]]:
    rows = [[part.strip() for part in row.split("|")] for row in _TYPES.replace("\\\n", "").strip().splitlines()]
    return {name: (base, children.split(), attributes.split()) for name, base, children, attributes in rows}


def _content(name: str, types: Mapping[str, tuple[str, list[str], list[str]]]) -> Content:
    lineage = list(_lineage(name, types))
    children = [child for ancestor in reversed(lineage) for child in types[ancestor][1]]
    attributes = [attribute for ancestor in reversed(lineage) for attribute in types[ancestor][2]]
    return Content(
        slots=tuple(_slot(child) for child in children),
        attributes={_bare(attribute): attribute.partition(":")[2] for attribute in attributes},
        required=tuple(_bare(attribute) for attribute in attributes if "!" in attribute),
        has_text=any(ancestor in _MIXED for ancestor in lineage),
        is_open=name in ("documentation", "text", "script", "extensionElements"),
    )


def _lineage(name: str, types: Mapping[str, tuple[str, list[str], list[str]]]) -> Iterator[str]:
    while name:
        yield name
        name = types[name][0]


@cache
def _slot(child: str) -> ChildSlot:
    name = child.rstrip("?*")
    return ChildSlot(frozenset(_GROUPS.get(name, name).split()), name == child, child.endswith("*"))


def _bare(attribute: str) -> str:
    return attribute.partition(":")[0].rstrip("!")


def own_text(element: Element) -> str:
    """Return the text directly inside an element, without that of its children."""
    chunks, at = element.document.chunks, element.first_chunk
    parts: list[str] = []
    for child in element.children:
        parts += chunks[at : child.first_chunk]
        at = child.last_chunk
    return "".join((*parts, *chunks[at : element.last_chunk]))
