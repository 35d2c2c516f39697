"""The zeebe extension: its elements, attributes, headers and job types."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, ZEEBE, name_of
from verblint.bpmn.model import NodeKind
from verblint.bpmn.places import POLICIES, EvaluationPolicy, places
from verblint.bpmn.zeebe_schema import ATTRIBUTES, SHAPES, Version, known_elements
from verblint.contracts.syntax import ENDPOINT, JOB_TYPE
from verblint.fixes.rewrites import unquote
from verblint.flow.job_nodes import jobs
from verblint.names import COMPENSATE, OWN_JOBS, describe, extended_by, suggestion
from verblint.report import Finding, Fix
from verblint.rule import Context, attribute_mark, rule
from verblint.startup.pattern import pattern

_LITERALS = tuple(dict.fromkeys(name for (name, _), policy in POLICIES.items() if policy is EvaluationPolicy.LITERAL))
_PLAIN = pattern("[A-Za-z0-9 _.:/-]+")


@rule("HB118", on=(ZEEBE,))
def unknown_zeebe_element(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension is one that the engine of the profile knows.

    An engine ignores what it does not know: a misspelt element silently does nothing, and one from a later release
    starts to act on the day of the upgrade.

    Wrong:  <zeebe:taskDefinitoin type="kyc.request-documents" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />
    """
    engine, version = context.settings.engine, context.settings.engine_version
    for local in [local for namespace, local in context.elements if namespace == ZEEBE]:
        shape = SHAPES.get(local)
        if shape is None:
            message, hint = f"the zeebe extension has no element {local}", suggestion(local, SHAPES)
        elif shape.since > version:
            since = ".".join(map(str, shape.since))
            message = f"the element {local} needs engine {since}, and the profile is {engine}"
            hint = f"Remove it, or set the engine to {since}"
        else:
            continue
        for element in context.every(local, namespace=ZEEBE):
            yield context.at(element, message, hint=hint, detail=local)


@rule("HB119", on=(ZEEBE, attribute_mark(ZEEBE)))
def unknown_zeebe_attribute(context: Context) -> Iterator[Finding]:
    """Every attribute of the zeebe extension is one that the engine knows.

    The engine ignores a misspelt attribute, so a default applies that the author did not choose.

    Wrong:  <zeebe:taskDefinition type="kyc.request-documents" retires="5" />
    Right:  <zeebe:taskDefinition type="kyc.request-documents" retries="5" />
    """
    for shape, elements in known_elements(context.elements):
        unknown = [key for key in elements.keys.difference(shape.attributes) if not name_of(key)[0]]
        for attribute in (attribute for element in elements for attribute in element.attributes) if unknown else ():
            local = attribute.local
            if local in unknown and not attribute.namespace:
                message = f"the zeebe element {elements[0].local} has no attribute {local}"
                yield context.at(attribute.whole, message, hint=suggestion(local, shape.attributes), detail=local)
    for attribute in context.attributes_in(ZEEBE):
        local = attribute.local
        if attribute.element.namespace == BPMN and local not in ATTRIBUTES:
            message = f"the zeebe extension gives BPMN elements no attribute {local}"
            yield context.at(attribute.whole, message, hint="Remove it", detail=f"zeebe:{local}")


@rule("HB120", on=(ZEEBE,))
def zeebe_out_of_place(context: Context) -> Iterator[Finding]:
    """Every element of the zeebe extension is where the engine looks for it.

    In any other place the engine ignores it, although it looks right. A subscription has its own rule, because it is
    misplaced so often.

    Wrong:  <exclusiveGateway id="decide"> with a <zeebe:taskDefinition type="kyc.request-documents" />
    Right:  the taskDefinition in the extensionElements of a serviceTask
    """
    for shape, elements in known_elements(context.elements):
        allowed = " or ".join(shape.parents) or "any element"
        for element in elements if elements[0].local != "subscription" else ():
            parent = extended_by(element, "zeebe")
            if parent and shape.may_stand_in(parent):
                continue
            where = parent or "not an extensionElements"
            message = f"the {describe(element)} has no effect in {where}"
            hint = f"Move it into the extensionElements of {allowed}"
            yield context.at(element, message, hint=hint, detail=element.local)


@rule("HB121", on=(ZEEBE,))
def zeebe_twice(context: Context) -> Iterator[Finding]:
    """An element of the zeebe extension occurs once in its place.

    The engine takes one of two bindings, or refuses the model. A reader cannot know which.

    Wrong:  two <zeebe:taskDefinition> in one serviceTask
    Right:  one
    """
    for shape, elements in known_elements(context.elements):
        seen: dict[int, int] = {}
        for element in elements if not shape.is_repeatable else ():
            place = element.parent.start if element.parent is not None else -1
            count = seen[place] = seen.get(place, 0) + 1
            if count > 1:
                message = f"the {describe(element)} is written once more"
                yield context.at(element, message, hint="Keep one of them", detail=f"{element.local} {count}")


@rule("HB127", on=("formDefinition",))
def form_attribute(context: Context) -> Iterator[Finding]:
    """The form of a user task is named by one attribute, which fits the kind of task.

    Engines refuse any other. Both kinds take `formId`, the id of a deployed form. For a form outside the engine a
    job-based user task takes `formKey`, and a native one `externalReference`.

    Wrong:  <userTask id="Review"> with <zeebe:formDefinition externalReference="form-1" />, without <zeebe:userTask />
    Right:  <userTask id="Review"> with <zeebe:formDefinition formKey="form-1" />
    """
    from verblint.fixes.form_attributes import form_names

    for _, node in context.nodes(NodeKind.USER_TASK):
        is_native = node.binding.is_user_task
        for number, form in enumerate(form_names(node.element, is_native=is_native)):
            if form.fits:
                continue
            kind = "native" if is_native else "job-based"
            edit, hint = form.rename(), "Name the form by formId alone"
            if not form.written:
                message = "the form has no name"
            elif form.written == (form.foreign,):
                message = f"a {kind} user task does not take {form.foreign}"
                hint = f"Write {form.own_name} instead of {form.foreign}" if edit is not None else hint
            else:
                message = f"the form has several names: {', '.join(form.written)}"
            # A task of the wrong kind is converted as a whole, by another rule.
            is_final = _may_stay(context.settings.engine_version, is_native)
            fix = Fix(f"name the form by {form.own_name}", (edit,)) if edit is not None and is_final else None
            yield context.at(form.element, message, hint=hint, detail=f"form {number}", fix=fix)


def _may_stay(engine: Version, is_native: bool) -> bool:
    """Return whether an engine takes this kind of user task."""
    return engine >= (8, 8) if is_native else engine < (8, 10)


@rule("HB309", on=_LITERALS)
def literal_required(context: Context) -> Iterator[Finding]:
    """Where a literal is required, nothing is evaluated.

    Workers and tools read headers, properties, forms, priorities and codes as they are written. The engine or a
    connector would evaluate a few of them, and an expression there reads variables that no contract declares.

    Wrong:  <zeebe:header key="limit" value="=order.total" />
    Right:  <zeebe:header key="limit" value="100" />
    """
    for written in places(context, EvaluationPolicy.LITERAL):
        if written.value.text.lstrip().startswith("="):
            text = written.value.text
            message = f"{written.attribute} of {describe(written.element)} is an expression: {text[:40]}"
            detail = f"{written.element.local} {written.attribute} {text}"
            fix = unquote(text, written.value.place, "write the literal itself", _PLAIN.fullmatch)
            yield context.at(written.value, message, hint="Write a literal", detail=detail, fix=fix)


@rule("HB310", on=("assignmentDefinition", "taskSchedule", "priorityDefinition"))
def flag_or_literal(context: Context) -> Iterator[Finding]:
    """A place that takes a flag evaluates one flag and nothing else.

    Assignees, due dates and priorities may depend on the case. Then a sub-verb decides and sets a flag, and the place
    reads only that flag.

    Wrong:  <zeebe:assignmentDefinition assignee="=reviewer.name" />
    Right:  <zeebe:assignmentDefinition assignee="=orch_reviewer" />
    """
    for written in places(context, EvaluationPolicy.FLAG_OR_LITERAL):
        if written.value.text.startswith("=") and not written.flag:
            text = written.value.text[:40]
            message = f"{written.attribute} of {describe(written.element)} is more than one flag: {text}"
            detail = f"{written.element.local} {written.attribute}"
            yield context.at(written.value, message, hint="Write a literal, or =orch_<name>", detail=detail)


@rule("HB311", on=("header",))
def header_endpoint(context: Context) -> Iterator[Finding]:
    """A header holds no address and no host.

    Addresses differ between environments, and a model is the same in all of them. The address to call is configuration
    of the verb.

    Wrong:  <zeebe:header key="url" value="https://api.example.com" />
    Right:  <zeebe:header key="letter" value="reminder" />
    """
    for element in context.every("header", namespace=ZEEBE):
        value = element.attribute("value")
        if value is not None and ENDPOINT.fits(value.value):
            key = element.get("key") or ""
            message = f"the header {key} holds the address {value.value[:40]}"
            yield context.at(value.place, message, hint="Move it to the configuration of the verb", detail=key)


@rule("HB313", on=("taskHeaders",))
def header_key(context: Context) -> Iterator[Finding]:
    """A header has its own key.

    A worker finds a header by its key. Of two with the same key it sees one, and keys that start with
    `io.camunda.zeebe:` are reserved for the engine.

    Wrong:  two headers with key="letter"
    Right:  key="letter" and key="language"
    """
    for group in context.every("taskHeaders", namespace=ZEEBE):
        seen: set[str] = set()
        for number, header in enumerate(group.find_all("header", ZEEBE)):
            key = header.get("key") or ""
            message = ""
            if not key:
                message = "the header has no key"
            elif key.startswith("io.camunda.zeebe:"):
                message = f"the header {key} has a key that is reserved for the engine"
            elif key in seen:
                message = f"the header {key} is written twice"
            seen.add(key)
            if message:
                yield context.at(header, message, hint="Give it a key of its own", detail=f"{number} {key}")


@rule("HB402", on=("taskDefinition",))
def dynamic_job_type(context: Context) -> Iterator[Finding]:
    """A job type is a literal.

    An expression would choose at run time which verb runs. The allow-list could then not be checked, and the diagram
    would no longer show what it calls.

    Wrong:  <zeebe:taskDefinition type="=orch_next_verb" />
    Right:  an exclusiveGateway on the flag, and one serviceTask for each verb
    """
    for element in context.every("taskDefinition", namespace=ZEEBE):
        attribute = element.attribute("type") if element.values.get("type", "").startswith("=") else None
        if attribute is not None:
            message = f"the job type is computed: {attribute.value[:40]}"
            hint = "Name one sub-verb; branch with a gateway where there is a choice"
            fix = unquote(attribute.value, attribute.place, "write the job type itself", JOB_TYPE.fits)
            yield context.at(attribute.place, message, hint=hint, fix=fix)


@rule("HB403", on=("retries",))
def retries_not_policy(context: Context) -> Iterator[Finding]:
    """The retries of a job equal those of its policy, or are left out.

    The policy of a sub-verb alone defines how often it is tried. If the number is left out, it is filled in when the
    model is deployed. If it is written, it must be the same number.

    Wrong:  retries="10" where the policy has maximum_attempts: 3
    Right:  retries="3", or no retries
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for _, node in process.walk():
            retries = node.binding.retries
            if retries is None:
                continue
            policy = context.contracts.policies.get(verb.policy_of(node.binding.job_type)) if verb is not None else None
            if not _is_number(retries.text):
                message = f"retries is {retries.text!r}, not a number"
                yield context.at(retries, message, hint="Remove the attribute: the policy defines how often")
            elif policy is not None and int(retries.text) != policy.attempts:
                message = f"retries is {retries.text}, but the policy {policy.name} has {policy.attempts}"
                yield context.at(retries, message, hint=f'Write retries="{policy.attempts}", or remove it')


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and not text.startswith("0") and len(text) < 10


@rule("HB409", on=("serviceTask", "sendTask", "messageEventDefinition"))
def missing_job_type(context: Context) -> Iterator[Finding]:
    """Service tasks, send tasks and events that throw a message name the verb that performs them.

    Without a job type there is nothing to do at that step, and the engine refuses the model.

    Wrong:  <serviceTask id="ask" />
    Right:  <serviceTask id="ask"> with <zeebe:taskDefinition type="kyc.request-documents" />
    """
    for process in context.model.processes:
        for _, node in jobs(process):
            if node.binding.type is None or not node.binding.type.text:
                message = f"the {describe(node.element)} names no verb"
                hint = "Add a zeebe:taskDefinition with a type to its extensionElements"
                yield context.at(node.element, message, hint=hint)


@rule("HB410", words=(OWN_JOBS,))
def reserved_job_type(context: Context) -> Iterator[Finding]:
    """Job types that start with `verbworker.` are reserved for the runtime.

    The only one that a model may name is `verbworker.compensate`, which undoes what was done so far. All others are
    woven in when the model is deployed.

    Wrong:  <zeebe:taskDefinition type="verbworker.park" />
    Right:  <zeebe:taskDefinition type="verbworker.compensate" />
    """
    for _, node in context.nodes():
        name = node.binding.job_type
        if name.startswith(OWN_JOBS) and name != COMPENSATE:
            message = f"the job type {name} is reserved for the runtime"
            yield context.at(node.binding.type or node.element, message, hint=f"Name a sub-verb, or {COMPENSATE}")
