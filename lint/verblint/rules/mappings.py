"""Mappings and the payload: results pass through, and expressions look into nothing."""

from collections.abc import Iterator

from verblint.bpmn.places import values_that_read
from verblint.fixes.rewrites import remove
from verblint.flow.io_mappings import HASH, PAYLOAD, mapped_nodes
from verblint.report import Finding
from verblint.rule import OBSCURE, Context, rule


# Nothing can be hidden in a plain file: a name that does not occur in it is not read.
@rule("HB301", on=(OBSCURE,), words=(PAYLOAD,))
def payload_in_expression(context: Context) -> Iterator[Finding]:
    """No expression reads the payload.

    The engine carries `domain_payload` and its hash, and only the runtime reads them. An expression that looks into
    them breaks with the next version of the schema, and the engine's own analysis does not always detect it.

    Wrong:  <timeDuration>=duration(domain_payload.deadline)</timeDuration>
    Right:  <timeDuration>=orch_document_deadline</timeDuration>
    """
    mapped = ((node, mapping) for node in mapped_nodes(context) for mapping in node.mappings)
    carried = {mapping.element for node, mapping in mapped if node.is_identity(mapping)}
    for value in values_that_read(context, PAYLOAD, HASH):
        element = value.place.element
        # A condition has its own rule, and so does a mapping of the payload to itself.
        if not element.is_a("conditionExpression") and element not in carried:
            message = f"the expression {value.text[:40]!r} touches the payload, which is opaque to the engine"
            hint = "Let a sub-verb compute it and set a flag"
            yield context.at(value, message, hint=hint, detail=f"{element.local} {value.text}")


@rule("HB302", on=("ioMapping",))
def mapping_not_identity(context: Context) -> Iterator[Finding]:
    """A mapping neither computes nor renames nor creates variables.

    Mappings that compute are domain logic in the diagram; mappings that create variables spread domain data over the
    engine. Sub-verbs get the payload as a whole and return it as a whole.

    Wrong:  <zeebe:input source="=order.total * 1.2" target="total" />
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        for mapping in mapped.mappings:
            if "." in mapping.target or mapped.is_identity(mapping):
                continue
            source = mapping.source.text if mapping.source is not None else "nothing"
            message = f"the {mapping.direction} mapping makes {mapping.target or 'a variable'} of {source}"
            hint = "Remove it: results of sub-verbs go through by themselves"
            yield context.at(mapping.element, message, hint=hint, detail=f"{mapping.direction} {mapping.target}")


@rule("HB303", on=("ioMapping",))
def input_shadows(context: Context) -> Iterator[Finding]:
    """An input mapping does not shadow the variable it copies.

    An input creates a local variable of the same name. The result of the sub-verb is then written to the local one and
    is lost with it: the process continues with the old payload. The fix removes the mapping.

    Wrong:  <zeebe:input source="=domain_payload" target="domain_payload" />
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        # Complete outputs pass the results on, so nothing is lost with the local copies.
        for mapping in mapped.mappings if mapped.missing else ():
            if mapping.direction == "input" and mapped.is_identity(mapping):
                message = f"the local copy of {mapping.target} takes the result of the sub-verb and is lost"
                fix = remove(mapping.element, "remove the mapping")
                yield context.at(mapping.element, message, hint="Remove the mapping", detail=mapping.target, fix=fix)


@rule("HB304", on=("ioMapping",))
def output_hides(context: Context) -> Iterator[Finding]:
    """Output mappings pass on every result, or do not exist.

    Without output mappings, everything that a sub-verb returns goes to the process. One output mapping disables that,
    and everything it does not name is lost: the payload, its hash, the other flags.

    Wrong:  <zeebe:output source="=orch_x" target="orch_x" /> alone
    Right:  no mapping
    """
    for mapped in mapped_nodes(context):
        outputs = [mapping for mapping in mapped.mappings if mapping.direction == "output"]
        if outputs and mapped.missing:
            message = f"one output mapping hides all other results: {', '.join(mapped.missing)} would be lost"
            yield context.at(outputs[0].element, message, hint="Remove the output mappings")


@rule("HB305", on=("ioMapping",))
def nested_write(context: Context) -> Iterator[Finding]:
    """A mapping does not write into a structure.

    A target with a dot creates or changes a context. It destroys the payload, which is a string: the process continues
    with null and the old hash.

    Wrong:  <zeebe:output source="=1" target="domain_payload.x" />
    Right:  a sub-verb that changes the payload and returns it
    """
    for _, node in context.nodes():
        for mapping in node.binding.mappings:
            if "." in mapping.target:
                message = f"the {mapping.direction} mapping writes into {mapping.target.partition('.')[0]}"
                hint = "Remove it, and let a sub-verb return the change"
                yield context.at(mapping.element, message, hint=hint, detail=f"{mapping.direction} {mapping.target}")


@rule("HB307", on=("ioMapping",))
def hash_unpaired(context: Context) -> Iterator[Finding]:
    """The payload and its hash are mapped together or not at all.

    The runtime compares the two at every crossing. A new payload with the old hash is an integrity failure, and rightly
    so: it cannot be distinguished from a manipulated one.

    Wrong:  <zeebe:output source="=domain_payload" target="domain_payload" /> without the hash
    Right:  both, or none
    """
    for mapped in mapped_nodes(context):
        for direction in ("input", "output"):
            found = mapped.identities(direction) & {PAYLOAD, HASH}
            if len(found) == 1:
                present = found.pop()
                absent = HASH if present == PAYLOAD else PAYLOAD
                element = next(m.element for m in mapped.mappings if m.direction == direction and m.target == present)
                message = f"the {direction} mappings carry {present} without {absent}"
                yield context.at(element, message, hint="Remove the mappings, or carry both", detail=direction)


@rule("HB308", on=("ioMapping",))
def mapping_forbidden(context: Context) -> Iterator[Finding]:
    """A model has no mappings, not even complete ones.

    Mappings that carry every variable of the contract have no effect, but one that is forgotten when a flag is added
    loses results. They are allowed by the setting `allow_identity_mappings`. The fix removes them.

    Wrong:  identity mappings of domain_payload, domain_payload_hash and every flag
    Right:  no mapping
    """
    if context.settings.allow_identity_mappings:
        return
    for mapped in mapped_nodes(context):
        if not mapped.missing and all(mapped.is_identity(mapping) for mapping in mapped.mappings):
            group = mapped.mappings[0].element.parent
            assert group is not None
            message = "the mappings carry every variable through, which happens without them"
            fix = remove(group, "remove the mappings")
            yield context.at(group, message, hint="Remove the mappings", fix=fix)
