"""The parts of a file: elements, attributes, ids and text are what and where BPMN defines them."""

from collections.abc import Iterator

from verblint.bpmn.bpmn_schema import IDENTIFIED, Content, content, known_elements, names, own_text
from verblint.bpmn.diagram import exact_ids, ids
from verblint.bpmn.element import BPMN, DIAGRAM, ZEEBE, Element, Place, name_of
from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.places import is_evaluated
from verblint.bpmn.references import dangling_references
from verblint.bpmn.source import Source
from verblint.names import describe, suggestion
from verblint.report import Finding
from verblint.rule import COMMENTS, Context, attribute_mark, rule
from verblint.startup.pattern import pattern


@rule("HB005")
def unknown_bpmn_element(context: Context) -> Iterator[Finding]:
    """Every element of a process is one that BPMN defines and engines can execute.

    Engines check a model against the schema of BPMN and refuse what is not in it. Choreographies and conversations are
    in the schema, but nothing executes them.

    Wrong:  <servicetask id="ask" />
    Right:  <serviceTask id="ask" />
    """
    for local in [local for namespace, local in context.elements if namespace == BPMN and local not in names()]:
        for element in context.every(local):
            message = f"BPMN has no element {local} that an engine executes"
            yield context.at(element, message, hint=suggestion(local, names()), detail=local)


# Valid orders of children, by element name.
_SEEN: dict[str, set[tuple[str, ...]]] = {}

_MANY, _LONG = 100, 20


@rule("HB006")
def element_misplaced(context: Context) -> Iterator[Finding]:
    """Every element is where BPMN expects it, and in the order BPMN expects.

    The schema has an order: documentation, extensionElements, incoming, outgoing, then the rest. Extensions are inside
    extensionElements. An engine refuses a model in which they are in another place.

    Wrong:  <serviceTask><incoming>f1</incoming><extensionElements>...</extensionElements></serviceTask>
    Right:  <serviceTask><extensionElements>...</extensionElements><incoming>f1</incoming></serviceTask>
    """
    parents = [e.parent for (namespace, _), alike in context.elements.items() if namespace != BPMN for e in alike]
    strange = {parent.local for parent in parents if parent is not None}
    for known, elements in known_elements(context.elements):
        if not known.is_open and (elements[0].local in strange or not _are_in_order(known, elements)):
            for element in elements:
                yield from _check_order(context, element, known)
    for element in context.every("extensionElements"):
        for child in element.children:
            if child.namespace in ("", BPMN):
                message = f"extensionElements may not hold {child.local}, which is not an extension"
                yield context.at(child, message, hint="Move it out of the extensionElements", detail=child.local)


def _are_in_order(known: Content, elements: ElementGroup) -> bool:
    """Return whether elements whose children are all BPMN have them in a valid order."""
    orders = {tuple([child.local for child in element.children]) for element in elements if element.children}
    seen = _SEEN.setdefault(elements[0].local, set())
    if orders <= seen:
        return True
    new = orders - seen
    # Steps are many and similar; a process is unique and need not be cached.
    if len(seen) < _MANY:
        seen.update(order for order in new if len(order) < _LONG and _is_order(known, order))
    return all(_is_order(known, order) for order in new)


def _is_order(known: Content, children: tuple[str, ...]) -> bool:
    slots = [known.numbers.get(child, -1) for child in children]
    is_sorted = slots[0] >= 0 and slots == sorted(slots)
    return is_sorted and all(known.slots[slot].is_repeatable or slots.count(slot) == 1 for slot in set(slots))


def _check_order(context: Context, element: Element, known: Content) -> Iterator[Finding]:
    numbers, slots = known.numbers, known.slots
    reached, seen = 0, -1
    for child in element.children:
        slot = numbers.get(child.local) if child.namespace in (BPMN, DIAGRAM) else None
        if slot is not None and (slot > reached or (slot == reached and (slot != seen or slots[slot].is_repeatable))):
            reached = seen = slot
            continue
        if slot is None:
            if child.namespace == BPMN and content(child.local) is None:
                continue
            message = f"a {element.local} may not hold {child.local}"
            hint = (
                "Remove it" if child.namespace == BPMN else f"Move it into the extensionElements of {describe(element)}"
            )
        elif slot < reached:
            message = f"{child.local} comes too late in the {element.local}"
            hint = "Write documentation, extensionElements, incoming and outgoing first, in this order"
        else:
            message = f"a {element.local} may have one {child.local} only"
            hint = "Keep one of them"
        yield context.at(child, message, hint=hint, detail=f"{element.local} {child.local} {child.id}")


@rule("HB007")
def unknown_bpmn_attribute(context: Context) -> Iterator[Finding]:
    """Every attribute of an element is one that BPMN defines for it.

    An engine refuses a model with an attribute it does not expect. Otherwise a misspelt one would silently leave a
    default.

    Wrong:  <boundaryEvent id="late" attachedToRef="ask" cancelactivity="false">
    Right:  <boundaryEvent id="late" attachedToRef="ask" cancelActivity="false">
    """
    for known, elements in known_elements(context.elements):
        unknown = {key for key in elements.keys.difference(known.attributes) if not name_of(key)[0]}
        for element in elements if unknown else ():
            for local in element.values:
                attribute = element.attribute(local) if local in unknown else None
                if attribute is not None:
                    message = f"a {element.local} has no attribute {local}"
                    hint = suggestion(local, known.attributes)
                    yield context.at(attribute.whole, message, hint=hint, detail=local)


@rule("HB008")
def missing_part(context: Context) -> Iterator[Finding]:
    """Every element has the attributes and children that it needs.

    A flow needs two ends, a boundary event something it is attached to, a file a target namespace. Engines refuse a
    model without them, and every node, flow and message without an id.

    Wrong:  <definitions> without targetNamespace
    Right:  <definitions targetNamespace="https://example.com/kyc">
    """
    for known, elements in known_elements(context.elements):
        needed = (*known.required, "id") if elements[0].local in IDENTIFIED else known.required
        if not known.required_slots and all(map(elements.all_have, needed)):
            continue
        for element in elements:
            for part in _missing(element, known):
                yield context.at(element, f"the {element.local} lacks {part}", hint=f"Add {part}", detail=part)


def _missing(element: Element, content: Content) -> Iterator[str]:
    yield from (f"the attribute {name}" for name in content.required if not element.get(name))
    if content.required_slots:
        names = {child.local for child in element.children if child.namespace == BPMN}
        yield from (f"a {min(slot.names)}" for slot in content.required_slots if not slot.names & names)
    if element.local in IDENTIFIED and not element.id:
        yield "an id"


_DIAGRAM = (DIAGRAM, "BPMNDiagram")


@rule("HB009")
def duplicate_id(context: Context) -> Iterator[Finding]:
    """An id belongs to one element.

    Flows, messages and diagrams refer to elements by id. If two elements share one, a reference is ambiguous, and
    engines refuse the model.

    Wrong:  two elements with id="ask"
    Right:  id="ask" and id="ask-again"
    """
    if not _has_twice(context):
        return
    seen: dict[str, int] = {}
    for written, offset, element in _iterate_ids(context):
        first = seen.setdefault(written, offset)
        if first == offset:
            continue
        message = f"the id {written} was given to another element in line {_source(context).position(first).line}"
        place = Place(element, offset, _source(context).content.index(b">", offset) + 1)
        detail = f"{element.local} {offset}"
        yield context.at(place, message, hint="Give one of them another id", detail=detail)


def _has_twice(context: Context) -> bool:
    """Return whether an id may be duplicated. That is rare, so this is checked before searching for it."""
    names: list[str] = []
    for name, alike in context.elements.items():
        if name[0] == BPMN:
            names += alike.column("id")
    content = _source(context).content
    for diagram in context.elements.get(_DIAGRAM, ()):
        written = ids(content[diagram.start : diagram.close])
        if written is None:
            return True
        names += b"\n".join(written).decode("utf-8", "replace").split("\n")
    different = set(names)
    return len(different) < len(names) - max(0, names.count("") - 1)


def _iterate_ids(context: Context) -> Iterator[tuple[str, int, Element]]:
    """Yield every id with the offset of its tag and its element; for shapes that is the diagram."""
    diagrams = list(context.elements.get(_DIAGRAM, ()))
    for element in (*context.within(BPMN), *diagrams):
        if element.id:
            yield element.id, element.start, element
    for written, offset in exact_ids(_source(context).content) if diagrams else ():
        yield written, offset, diagrams[0]


def _source(context: Context) -> Source:
    return context.root.document.source


@rule("HB010")
def dangling_reference(context: Context) -> Iterator[Finding]:
    """Every reference leads to an element of the right kind.

    A flow that leads nowhere, a default that is not a flow of its gateway, an event attached to nothing: an engine
    refuses the model or, worse, takes an error event without its error for one that catches every error.

    Wrong:  <sequenceFlow sourceRef="ask" targetRef="nowhere" />
    Right:  <sequenceFlow sourceRef="ask" targetRef="end" />
    """
    for reference in dangling_references(context.model):
        message = f"{reference.name} refers to {reference.target or 'nothing'}, which is not {reference.wanted}"
        hint = suggestion(reference.target, reference.candidates).replace("Remove it", f"Name {reference.wanted}")
        yield context.at(reference.place, message, hint=hint, detail=f"{reference.name} {reference.target}")


_BOOLEANS = ("true", "false", "1", "0")

_SHAPES = {
    "i": pattern(r"\s*[-+]?[0-9]+\s*"),
    "n": pattern(r"[^\W\d][\w.-]*"),
}

_WORDS = {
    "b": "true or false",
    "i": "a whole number",
    "n": "a name that starts with a letter and has letters, digits, dots, dashes and underscores only",
}


@rule("HB011")
def attribute_value(context: Context) -> Iterator[Finding]:
    """Attributes with a type have a value of that type.

    A boolean is true or false, a number is a number, and an id is a name without blanks that starts with a letter.
    Engines refuse a model with other values.

    Wrong:  <process id="kyc-open-case" isExecutable="yes">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    for known, elements in known_elements(context.elements):
        present = elements.keys
        for name, kind in known.attribute_types.items() if present else ():
            odd = _odd(elements.column(name), kind) if name in present else ()
            for attribute in [element.attribute(name) for element in elements] if odd else ():
                if attribute is not None and attribute.value in odd:
                    message = f"{name} is {attribute.value!r}, which is not {_WORDS[kind]}"
                    yield context.at(attribute.whole, message, hint=f"Write {_WORDS[kind]}", detail=name)


def _odd(values: list[str], kind: str) -> set[str]:
    """Return the values that are not of `kind`."""
    # Most ids are Python identifiers, which is faster to check.
    if kind == "n" and all(map(str.isidentifier, values)):
        return set()
    if kind == "b":
        return {value for value in set(values) if value.strip() not in _BOOLEANS}
    return {value for value in set(values) if _SHAPES[kind].fullmatch(value) is None}


@rule("HB013")
def not_definitions(context: Context) -> Iterator[Finding]:
    """The root of a model is the definitions element of BPMN.

    Another root is another kind of file, or BPMN under a namespace that no engine knows.

    Wrong:  <definitions xmlns="http://www.omg.org/spec/DMN/20180521/MODEL/">
    Right:  <definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL">
    """
    if not context.root.is_a("definitions"):
        found = f"{{{context.root.namespace}}}{context.root.local}"
        hint = f"Write definitions of the namespace {BPMN}"
        yield context.at(context.root, f"the root element is {found}", hint=hint)


@rule("HB014", on=(attribute_mark(BPMN), attribute_mark(ZEEBE)))
def qualified_attribute(context: Context) -> Iterator[Finding]:
    """Attributes of BPMN and zeebe elements are written without a prefix.

    The engine reads only the plain attribute. `zeebe:type="..."` beside or instead of it is ignored, which misleads a
    reader.

    Wrong:  <zeebe:taskDefinition zeebe:type="kyc.request-documents" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for attribute in context.attributes_in(BPMN, ZEEBE):
        local = attribute.local
        if attribute.namespace == ZEEBE and attribute.element.namespace == BPMN:
            # On BPMN elements the extension has its own attributes.
            continue
        message = f"the engine ignores {local} when it has a prefix"
        yield context.at(attribute.whole, message, hint=f"Write {local} without a prefix", detail=local)


@rule("HB015", on=(COMMENTS,))
def interrupted_expression(context: Context) -> Iterator[Finding]:
    """No comment and no processing instruction is inside an expression.

    The engine joins the text on both sides and evaluates all of it; many tools show only the part before the comment.
    An expression that tools read differently cannot be reviewed.

    Wrong:  <conditionExpression>=orch_x = "q"<!-- --> or domain_payload = "NEW"</conditionExpression>
    Right:  <conditionExpression>=orch_x = "q"</conditionExpression>
    """
    for element in context.within(BPMN, ZEEBE) if context.root.document.interruptions else ():
        if not is_evaluated(element):
            continue
        for offset in element.interruptions:
            message = f"the {element.local} contains a comment or an instruction, and the text behind it counts"
            place = Place(element, offset, offset + 2)
            yield context.at(place, message, hint="Remove it", detail=f"{element.local} {offset - element.start}")


@rule("HB016")
def stray_text(context: Context) -> Iterator[Finding]:
    """Text is only in elements that hold text.

    Text between elements is a mistake of an editor or of a merge. Engines refuse the model.

    Wrong:  <process id="kyc-open-case">TODO <startEvent id="start" /></process>
    Right:  <process id="kyc-open-case"><documentation>TODO</documentation><startEvent id="start" /></process>
    """
    if not _may_stray(context):
        return
    for known, elements in known_elements(context.elements):
        for element in elements if not known.has_text else ():
            if element.first_chunk < element.last_chunk and (text := own_text(element).strip()):
                message = f"the {element.local} holds the text {text[:40]!r}"
                hint = "Remove it, or move it into documentation"
                yield context.at(element, message, hint=hint, detail=element.local)


def _may_stray(context: Context) -> bool:
    """Return False if all non-blank text is in elements that may contain text or are not BPMN."""
    chunks = context.root.document.chunks
    held: set[int] = set()
    for (namespace, local), alike in context.elements.items():
        known = content(local) if namespace == BPMN else None
        if known is None or known.has_text:
            held.update([element.first_chunk for element in alike if element.last_chunk > element.first_chunk])
            # Text is rarely in pieces.
            for element in [element for element in alike if element.last_chunk > element.first_chunk + 1]:
                held.update(range(element.first_chunk, element.last_chunk))
    return _solid("".join(chunks)) > _solid("".join([chunks[number] for number in held]))


def _solid(text: str) -> int:
    """Count the non-blank characters."""
    return len("".join(text.split()))
