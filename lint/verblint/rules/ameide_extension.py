"""The Ameide extension: its elements, attributes, templates and paths."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import ROOTS, SHAPES, is_template, placeholders, templates
from verblint.bpmn.bpmn_schema import own_text
from verblint.bpmn.element import AMEIDE
from verblint.contracts.syntax import ENDPOINT, HEADER_KEY
from verblint.contracts.templates import VARIABLES, TemplateError, is_path, parse
from verblint.flow.io_mappings import PAYLOAD
from verblint.names import extended_by, suggestion
from verblint.report import Finding
from verblint.rule import Context, attribute_mark, rule


@rule("AM701", on=(AMEIDE,))
def ameide_unknown_element(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension is one that the extension has.

    The BPMN schema does not check extensions, so a misspelt element passes every validator and is then missing where it
    is needed.

    Wrong:  <ameide:taskDefinitoin type="kyc.request-documents" policyRef="patient" />
    Right:  <ameide:taskDefinition type="kyc.request-documents" policyRef="patient" />
    """
    for element in context.within(AMEIDE):
        if element.local not in SHAPES:
            message = f"the Ameide extension has no element {element.local}"
            yield context.at(element, message, hint=suggestion(element.local, SHAPES), detail=element.local)


@rule("AM702", on=(AMEIDE,))
def ameide_misplaced(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension is in the extensionElements of what it describes.

    A subscription belongs to the message, not to the event; a task definition belongs to the task. In any other place
    it describes nothing.

    Wrong:  <intermediateCatchEvent ...> with <ameide:subscription ... />
    Right:  <message id="docs" ...> with <ameide:subscription ... />
    """
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        parent = extended_by(element, "ameide")
        if shape is not None and parent not in shape.parents:
            where = " or ".join(shape.parents)
            message = f"{element.local} is in {parent or 'no extensionElements'}, where it describes nothing"
            hint = f"Move it into the extensionElements of {where}"
            yield context.at(element, message, hint=hint, detail=element.local)


@rule("AM703", on=(AMEIDE,))
def ameide_attribute(context: Context) -> Iterator[Finding]:
    """Every element of the Ameide extension has the attributes it needs, and no others.

    A task definition needs `type` and `policyRef`; `implementation` is forbidden, because there is only one way to
    perform a task. An attribute with a prefix is a different attribute.

    Wrong:  <ameide:taskDefinition type="kyc.request-documents" implementation="delegate" />
    Right:  <ameide:taskDefinition type="kyc.request-documents" policyRef="patient" />
    """
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        if shape is None:
            continue
        for name in shape.required:
            if not (element.get(name) or "").strip():
                message = f"{element.local} has no {name}"
                yield context.at(element, message, hint=f'Write {name}="..."', detail=f"-{name}")
        known = (*shape.required, *shape.optional)
        for attribute in element.attributes:
            if attribute.local not in known or attribute.namespace:
                message = f"{element.local} may not have the attribute {attribute.local}"
                hint = suggestion(attribute.local, known)
                yield context.at(attribute.whole, message, hint=hint, detail=f"+{attribute.namespace}{attribute.local}")


@rule("AM704", on=(AMEIDE,))
def ameide_twice(context: Context) -> Iterator[Finding]:
    """An element of the Ameide extension occurs once in its place.

    Two task definitions on one task are two contracts for one step, and it is unclear which of them applies.

    Wrong:  two <ameide:taskDefinition> in one serviceTask
    Right:  one
    """
    seen: dict[tuple[int, str], int] = {}
    for element in context.within(AMEIDE):
        shape = SHAPES.get(element.local)
        if shape is None or shape.is_repeatable or element.parent is None:
            continue
        place = (element.parent.start, element.local)
        count = seen[place] = seen.get(place, 0) + 1
        if count > 1:
            message = f"{element.local} is written once more"
            yield context.at(element, message, hint="Keep one of them", detail=f"{element.local} {count}")


@rule("AM708", on=(AMEIDE,))
def message_id_path(context: Context) -> Iterator[Finding]:
    """Deliveries are identified by `message_id`.

    The envelope of every inbound message has that field, and no other can be chosen.

    Wrong:  messageIdPath="id"
    Right:  messageIdPath="message_id"
    """
    for element in context.every("subscription", namespace=AMEIDE):
        path = element.attribute("messageIdPath")
        if path is not None and path.value.strip() and path.value != "message_id":
            yield context.at(path.whole, f"messageIdPath is {path.value!r}", hint='Write messageIdPath="message_id"')


# A required template that is empty counts as missing, which another rule reports.
_OPTIONAL = frozenset(name for shape in SHAPES.values() for name in shape.optional)


@rule("AM709", on=(AMEIDE,))
def template_grammar(context: Context) -> Iterator[Finding]:
    """A template holds text and known placeholders.

    A placeholder is process_instance_id, process_run_id, step_id, step_instance_id, or `state.` and a path of plain
    names. There are no functions, and the only escape is a backslash before `${`.

    Wrong:  workflowIdTemplate="kyc/${now()}"
    Right:  workflowIdTemplate="kyc/${state.entity_ref}"
    """
    for attribute in templates(context):
        try:
            parse(attribute.value)
        except TemplateError as error:
            place = attribute.part(error.start, error.end)
            hint = f"Write one of {', '.join(f'${{{name}}}' for name in VARIABLES)}, or ${{state.<path>}}"
            yield context.at(place, error.message, hint=hint, detail=attribute.local)
        if not attribute.value and attribute.local in _OPTIONAL:
            message = f"{attribute.local} is empty, which can be no key"
            yield context.at(attribute.whole, message, hint="Leave it out for the default", detail=attribute.local)


@rule("AM710", on=(AMEIDE,))
def template_root(context: Context) -> Iterator[Finding]:
    """The identity of a workflow and a correlation key are made only of state.

    Both must be known before there is an instance or a step, and must be the same wherever they are computed.

    Wrong:  correlationKeyTemplate="${step_id}"
    Right:  correlationKeyTemplate="${state.case_id}"
    """
    for attribute in templates(context):
        if attribute.local == "idempotencyKeyTemplate":
            continue
        for placeholder in placeholders(attribute):
            if not placeholder.path:
                place = attribute.part(placeholder.start, placeholder.end)
                message = f"{attribute.local} uses {placeholder.name}, which is not state"
                hint = "Write ${state.<path>}"
                yield context.at(place, message, hint=hint, detail=f"{attribute.local} {placeholder.name}")


_OF_INSTANCE = ("process_instance_id", "process_run_id", "step_instance_id")


@rule("AM711", on=(AMEIDE,))
def idempotency_key_constant(context: Context) -> Iterator[Finding]:
    """A key differs from instance to instance.

    A key that contains nothing of the instance is the same for all of them: the second case would be mistaken for a
    repetition of the first.

    Wrong:  idempotencyKeyTemplate="send-letter/${step_id}"
    Right:  idempotencyKeyTemplate="send-letter/${process_instance_id}/${step_id}"
    """
    for attribute in templates(context):
        found = placeholders(attribute)
        varies = any(placeholder.path or placeholder.name in _OF_INSTANCE for placeholder in found)
        if attribute.value and not varies and is_template(attribute):
            message = f"{attribute.local} is the same for every instance"
            hint = "Add ${process_instance_id} or ${state.<path>}"
            yield context.at(attribute.place, message, hint=hint, detail=attribute.local)


@rule("AM712", on=(AMEIDE,))
def mapping_path(context: Context) -> Iterator[Finding]:
    """A mapping of the Ameide extension leads from state to request, or from result to state.

    Paths are plain names joined by dots. Inputs read `state.` and write `request.`; outputs read `result.` and write
    `state.`.

    Wrong:  <ameide:input source="state.items[0]" target="item" />
    Right:  <ameide:input source="state.first_item" target="request.item" />
    """
    for local, roots in ROOTS.items():
        for element in context.every(local, namespace=AMEIDE):
            for name, root in zip(("source", "target"), roots, strict=True):
                attribute = element.attribute(name)
                if attribute is None or not attribute.value:
                    continue
                if not is_path(attribute.value) or not attribute.value.startswith(f"{root}."):
                    message = f"{name} is {attribute.value!r}, which is no path below {root}"
                    detail = f"{local} {name} {attribute.value}"
                    yield context.at(attribute.place, message, hint=f"Write {root}.<name>", detail=detail)


@rule("AM713", on=(AMEIDE,))
def path_to_payload(context: Context) -> Iterator[Finding]:
    """No path and no template leads to the payload as the engine carries it.

    `state` is the data inside the payload. The variables `domain_payload` and `domain_payload_hash` are its wrapping,
    and a path through them confuses the two.

    Wrong:  source="state.domain_payload.case_id"
    Right:  source="state.case_id"
    """
    for element in context.within(AMEIDE):
        for attribute in element.attributes:
            if PAYLOAD in attribute.value:
                message = f"{attribute.local} leads to {PAYLOAD}, which is not state but what carries it"
                hint = "Write the path inside the data: state.<path>"
                yield context.at(attribute.place, message, hint=hint, detail=f"{element.local} {attribute.value}")


@rule("AM714", on=(AMEIDE,))
def mapping_target_twice(context: Context) -> Iterator[Finding]:
    """A mapping writes each target once.

    Mappings are applied in order, so if two have the same target, the first is lost.

    Wrong:  two outputs with target="state.case_id"
    Right:  one
    """
    for group in context.every("ioMapping", namespace=AMEIDE):
        seen: set[tuple[str, str]] = set()
        for number, entry in enumerate(group.children):
            key = (entry.local, entry.get("target") or "")
            if key in seen and key[1]:
                message = f"the {entry.local} {key[1]} is written twice"
                yield context.at(entry, message, hint="Keep one of them", detail=f"{number} {key[1]}")
            seen.add(key)


@rule("AM716", on=(AMEIDE,))
def ameide_header(context: Context) -> Iterator[Finding]:
    """A header of the Ameide extension has a plain key and a literal value.

    A key has at most 64 lower-case letters, digits, dots, dashes and underscores, and is used once. A value is never
    empty, never evaluated, and never the address or host of an environment.

    Wrong:  <ameide:header key="API URL" value="https://api.example.com" />
    Right:  <ameide:header key="letter" value="reminder" />
    """
    for group in context.every("taskHeaders", namespace=AMEIDE):
        seen: set[str] = set()
        for number, header in enumerate(group.find_all("header", AMEIDE)):
            key = header.get("key") or ""
            for wrong in _wrong(key, header.get("value") or "", key in seen):
                hint = "Write a plain key of its own, and a literal that is the same everywhere"
                yield context.at(header, f"the header {wrong}", hint=hint, detail=f"{number} {wrong}")
            seen.add(key)


def _wrong(key: str, text: str, is_second: bool) -> Iterator[str]:
    if not HEADER_KEY.fits(key):
        yield f"has the key {key!r}"
    if is_second:
        yield f"{key} is written twice"
    if text.startswith(("=", "${", "#{")):
        yield f"{key} has an expression as its value"
    if ENDPOINT.fits(text):
        yield f"{key} holds an address"


@rule("AM725", on=(AMEIDE, attribute_mark(AMEIDE)))
def ameide_foreign(context: Context) -> Iterator[Finding]:
    """The Ameide extension and the rest of a model do not mix.

    An element of the extension contains no text and no element of another namespace, and the extension has no
    attributes for other elements. Content that no tool reads only looks like a contract.

    Wrong:  <ameide:taskHeaders><zeebe:header key="letter" value="reminder" /></ameide:taskHeaders>
    Right:  <ameide:taskHeaders><ameide:header key="letter" value="reminder" /></ameide:taskHeaders>
    """
    for element in context.within(AMEIDE):
        for number, child in enumerate(element.children):
            if child.namespace != AMEIDE:
                message = f"{child.local} is in {element.local}, which only the Ameide extension may extend"
                detail = f"{element.local} {number} {child.local}"
                yield context.at(child, message, hint=f"Write ameide:{child.local}, or remove it", detail=detail)
        if element.first_chunk < element.last_chunk and (text := own_text(element).strip()):
            message = f"{element.local} holds the text {text[:40]!r}"
            yield context.at(element, message, hint="Remove it", detail=f"{element.local} text")
    for attribute in context.attributes_in(AMEIDE):
        message = f"the Ameide extension has no attribute for {attribute.element.local}"
        hint = "Write it in an element of the extension, or remove it"
        yield context.at(attribute.whole, message, hint=hint, detail=f"@{attribute.local}")
