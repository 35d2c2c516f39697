"""Assemble the typed model from the element tree."""

from verblint.bpmn.binding import bind, read_key
from verblint.bpmn.element import BPMN, Element
from verblint.bpmn.event_cause import event_definitions
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import (
    Association,
    Declaration,
    Definitions,
    FlowNode,
    MessageDeclaration,
    MultiInstance,
    NodeKind,
    Process,
    Scope,
    SequenceFlow,
)

_NODE_KINDS = {kind.value: kind for kind in NodeKind if kind is not NodeKind.UNKNOWN}
_NESTED = (NodeKind.SUB_PROCESS, NodeKind.TRANSACTION, NodeKind.AD_HOC_SUB_PROCESS)
# Children of a process or subprocess that are neither nodes, flows nor associations.
NOT_NODES = frozenset(
    """
    documentation extensionElements auditing monitoring incoming outgoing laneSet property ioSpecification
    sequenceFlow association textAnnotation group dataObject dataObjectReference dataStoreReference
    dataInputAssociation dataOutputAssociation correlationSubscription supports supportedInterfaceRef
    ioBinding resourceRole performer humanPerformer potentialOwner
    multiInstanceLoopCharacteristics standardLoopCharacteristics completionCondition
    """.split()  # noqa: SIM905  a word list reads better than a list of words
)


def assemble(root: Element) -> Definitions:
    """Return the typed model of a document. Never fails: missing or invalid parts stay visible in the model."""
    return Definitions(
        element=root,
        processes=tuple(_process(element) for element in root.find_all("process")),
        messages={m.id: m for m in map(_message, root.find_all("message"))},
        errors=_declarations(root, "error", "errorCode"),
        escalations=_declarations(root, "escalation", "escalationCode"),
        signals=_declarations(root, "signal", ""),
    )


def _process(element: Element) -> Process:
    return Process(
        id=element.id,
        name=element.get("name") or "",
        is_executable=_is_true(element, "isExecutable"),
        scope=_scope(element),
        binding=bind(element),
        element=element,
    )


def _scope(element: Element) -> Scope:
    nodes, flows, associations = [], [], []
    for child in element.children:
        if child.namespace != BPMN:
            continue
        kind = _NODE_KINDS.get(child.local)
        if kind is not None:
            nodes.append(_node(child, kind))
        elif child.local == "sequenceFlow":
            flows.append(_flow(child))
        elif child.local == "association":
            associations.append(_association(child))
        elif child.local not in NOT_NODES:
            nodes.append(_node(child, NodeKind.UNKNOWN))
    return Scope(tuple(nodes), tuple(flows), tuple(associations))


def _node(element: Element, kind: NodeKind) -> FlowNode:
    values = element.values
    written = values.get
    is_unknown = kind is NodeKind.UNKNOWN
    # An unknown kind might be anything, so its content is read as well.
    loop = element.find("multiInstanceLoopCharacteristics") if kind.is_activity or is_unknown else None
    interrupting = "cancelActivity" if kind is NodeKind.BOUNDARY_EVENT else "isInterrupting"
    # Positional arguments take half as long as keywords, and a file has hundreds of nodes.
    return FlowNode(
        written("id", ""),
        written("name", ""),
        kind,
        element,
        bind(element),
        written("default", ""),
        written("messageRef", ""),
        event_definitions(element) if kind.is_event or is_unknown else (),
        written("attachedToRef", ""),
        interrupting not in values or _is_true(element, interrupting, default=True),
        "isForCompensation" in values and _is_true(element, "isForCompensation"),
        "triggeredByEvent" in values and _is_true(element, "triggeredByEvent"),
        MultiInstance(_is_true(loop, "isSequential"), loop) if loop is not None else None,
        _scope(element) if kind in _NESTED else None,
    )


def _flow(element: Element) -> SequenceFlow:
    written = element.values.get
    condition = element.find("conditionExpression") if element.children else None
    return SequenceFlow(
        written("id", ""),
        written("name", ""),
        written("sourceRef", ""),
        written("targetRef", ""),
        Expression.of(condition) if condition is not None else None,
        element,
    )


def _association(element: Element) -> Association:
    return Association(element.get("sourceRef") or "", element.get("targetRef") or "", element)


def _message(element: Element) -> MessageDeclaration:
    return MessageDeclaration(element.id, element.get("name") or "", read_key(element), element)


def _declarations(root: Element, local: str, code: str) -> dict[str, Declaration]:
    return {
        element.id: Declaration(element.id, element.get("name") or "", element.get(code) or "", element)
        for element in root.find_all(local)
    }


def _is_true(element: Element, local: str, *, default: bool = False) -> bool:
    """Parse an XSD boolean: `true` or `1`, `false` or `0`; anything else is the default."""
    value = element.values.get(local)
    if value is None:
        return default
    value = value.strip()
    return value in ("true", "1") if value in ("true", "1", "false", "0") else default
