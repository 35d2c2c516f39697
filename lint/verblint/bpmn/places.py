"""The places of a model whose values the engine or another tool might evaluate.

A value is evaluated if it starts with an equals sign: an attribute's as written, an element's text after trimming.
Names of flow nodes, documentation, annotations and the diagram are never evaluated and are not included.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

from verblint.bpmn.element import BPMN, FLEANS, KNOWN_NAMESPACES, ZEEBE, Element, name_of
from verblint.bpmn.event_cause import TimerKind
from verblint.bpmn.expression import Expression
from verblint.feel.grammar import is_flag
from verblint.feel.tokenizer import mentions, single_name
from verblint.rule import Context
from verblint.startup.value import value

Predicate = Callable[[str], bool]


class EvaluationPolicy(Enum):
    """What may be written in a place."""

    LITERAL = "a literal"
    FLAG_OR_LITERAL = "a literal, or = and one flag"


@value
class WrittenText:
    """A value in a place: the element, the name of the attribute (empty for text), and the value."""

    element: Element
    attribute: str
    value: Expression

    @property
    def flag(self) -> str:
        """The flag in this place, or an empty string."""
        name = single_name(self.value.feel) if self.value.is_feel else None
        return name if name is not None and is_flag(name) else ""


# Every place without a rule of its own. Other attributes of BPMN or zeebe elements must not be evaluated either, but
# other rules report them: the element is forbidden, or the attribute unknown.
POLICIES: Mapping[tuple[str, str], EvaluationPolicy] = {
    ("header", "key"): EvaluationPolicy.LITERAL,
    ("header", "value"): EvaluationPolicy.LITERAL,
    ("property", "name"): EvaluationPolicy.LITERAL,
    ("property", "value"): EvaluationPolicy.LITERAL,
    ("formDefinition", "formId"): EvaluationPolicy.LITERAL,
    ("formDefinition", "formKey"): EvaluationPolicy.LITERAL,
    ("formDefinition", "externalReference"): EvaluationPolicy.LITERAL,
    ("formDefinition", "bindingType"): EvaluationPolicy.LITERAL,
    ("formDefinition", "versionTag"): EvaluationPolicy.LITERAL,
    ("versionTag", "value"): EvaluationPolicy.LITERAL,
    ("jobPriorityDefinition", "priority"): EvaluationPolicy.LITERAL,
    ("executionListener", "type"): EvaluationPolicy.LITERAL,
    ("executionListener", "retries"): EvaluationPolicy.LITERAL,
    ("taskListener", "type"): EvaluationPolicy.LITERAL,
    ("taskListener", "retries"): EvaluationPolicy.LITERAL,
    ("error", "errorCode"): EvaluationPolicy.LITERAL,
    ("escalation", "escalationCode"): EvaluationPolicy.LITERAL,
    ("assignmentDefinition", "assignee"): EvaluationPolicy.FLAG_OR_LITERAL,
    # An expression here must return a list, and no flag is a list.
    ("assignmentDefinition", "candidateGroups"): EvaluationPolicy.LITERAL,
    ("assignmentDefinition", "candidateUsers"): EvaluationPolicy.LITERAL,
    ("taskSchedule", "dueDate"): EvaluationPolicy.FLAG_OR_LITERAL,
    ("taskSchedule", "followUpDate"): EvaluationPolicy.FLAG_OR_LITERAL,
    ("priorityDefinition", "priority"): EvaluationPolicy.FLAG_OR_LITERAL,
}

_EVALUATED_TEXT = (
    *("conditionExpression", "condition", "completionCondition", "activationCondition", "loopCondition"),
    *("loopCardinality", "timeDate", "timeDuration", "timeCycle", "from", "to", "transformation", "script"),
    *("messagePath", "dataPath", "expression", "formalExpression"),
)
_NAMED_BY_EXPRESSION = ("message", "signal")


def places(context: Context, policy: EvaluationPolicy) -> Iterator[WrittenText]:
    """Yield everything written in the places with a policy."""
    for (local, name), found in POLICIES.items():
        if found is not policy:
            continue
        for namespace in (BPMN, ZEEBE):
            for element in context.every(local, namespace=namespace):
                attribute = element.attribute(name)
                if attribute is not None:
                    yield WrittenText(element, name, Expression.of(attribute))


def flag_places(context: Context) -> Iterator[WrittenText]:
    """Yield everything written where a flag may replace a literal: the places with that policy, and timers."""
    yield from places(context, EvaluationPolicy.FLAG_OR_LITERAL)
    for element in context.every(*TimerKind):
        yield WrittenText(element, "", Expression.of(element))


def is_evaluated(element: Element) -> bool:
    """Return whether an engine or another tool might evaluate the text of an element."""
    if element.namespace == ZEEBE:
        return not element.children
    return element.namespace == BPMN and element.local in _EVALUATED_TEXT


def values_with(context: Context, wanted: Predicate, *words: str) -> Iterator[Expression]:
    """Yield every value that might be evaluated and is `wanted`; a wanted value contains one of the words."""
    if any(map(context.root.document.may_hold, words)):
        yield from written_values(context, wanted)
        yield from foreign_values(context, wanted)


def values_that_read(context: Context, *variables: str) -> Iterator[Expression]:
    """Yield every expression that could read one of the variables, or hides that it does."""

    def is_candidate(text: str) -> bool:
        return text.lstrip().startswith("=") and any(mentions(text, variable) for variable in variables)

    yield from written_values(context, is_candidate)
    yield from foreign_values(context, is_candidate)


def written_values(context: Context, wanted: Predicate) -> Iterator[Expression]:
    """Yield the wanted values of BPMN and zeebe elements that an engine might evaluate."""
    for element in context.within(BPMN, ZEEBE):
        yield from _wanted_attributes(element, wanted, ("", ZEEBE))
        if is_evaluated(element) and wanted(element.text):
            yield Expression.of(element)


def foreign_values(context: Context, wanted: Predicate) -> Iterator[Expression]:
    """Yield the wanted values of extensions that belong neither to the engine, nor to us, nor to a drawing tool."""
    strangers = {namespace for namespace, _ in context.elements} - KNOWN_NAMESPACES
    for element in context.within(*strangers):
        if element.local == "subscription" and element.namespace in FLEANS:
            continue  # read as a correlation key, which has rules of its own
        yield from _wanted_attributes(element, wanted, (element.namespace, ""))
        if not element.children and wanted(element.text):
            yield Expression.of(element)
    strange = {namespace for namespace, _ in context.root.document.attribute_names} - KNOWN_NAMESPACES
    for attribute in context.attributes_in(*strange):
        if wanted(attribute.value) and not _is_label(attribute.element, attribute.local):
            yield Expression.of(attribute)


def _wanted_attributes(element: Element, wanted: Predicate, namespaces: tuple[str, ...]) -> Iterator[Expression]:
    for key, text in element.values.items():
        namespace, local = name_of(key)
        if namespace in namespaces and wanted(text) and not _is_label(element, local):
            attribute = element.attribute(local, namespace)
            assert attribute is not None
            yield Expression.of(attribute)


def _is_label(element: Element, local: str) -> bool:
    """Return whether an attribute is a name that only people read, not engines."""
    return local == "name" and element.namespace == BPMN and element.local not in _NAMED_BY_EXPRESSION
