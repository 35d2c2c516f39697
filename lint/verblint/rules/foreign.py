"""What belongs to other tools and engines: connectors, templates, agents, secrets, forms."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN, CAMUNDA_7, ZEEBE, Attribute
from verblint.bpmn.places import foreign_values, values_with
from verblint.names import FOREIGN_JOBS, OWN_JOBS, OWN_TEMPLATES, describe
from verblint.report import Finding
from verblint.rule import STRANGERS, Context, attribute_mark, rule
from verblint.startup.pattern import pattern


@rule("HB103", words=(FOREIGN_JOBS, "inbound."))
def connector(context: Context) -> Iterator[Finding]:
    """A process has no connectors.

    A connector calls the outside world without the runtime: no frame, no idempotency key, no audit. A call to a
    database, an API or a queue is a verb. Properties called `inbound.` start processes in the same way, from outside.

    Wrong:  <zeebe:taskDefinition type="io.camunda:http-json:1" />
    Right:  <zeebe:taskDefinition type="kyc.screen-entity" />
    """
    for element in context.every("taskDefinition", "executionListener", "taskListener", namespace=ZEEBE):
        written = element.attribute("type")
        if written is not None and written.value.startswith(FOREIGN_JOBS):
            message = f"the job type {written.value} belongs to a connector"
            yield context.at(written.place, message, hint="Name a sub-verb, which calls the outside itself")
    for element in context.every("property", namespace=ZEEBE):
        written = element.attribute("name")
        if written is not None and written.value.startswith("inbound."):
            message = f"the property {written.value} configures an inbound connector"
            yield context.at(written.place, message, hint="Receive a message through the ingress", detail=written.value)


_LINK = ("modelerTemplate", "modelerTemplateVersion")

_MARKS = (*_LINK, "modelerTemplateIcon", "modelerConfigurationTemplate", "modelerConfigurationName")


@rule("HB104", on=tuple(_MARKS))
def element_template(context: Context) -> Iterator[Finding]:
    """No element comes from a template that carries a connector.

    A template can bring job types, inputs and properties that the author did not write, and an update of the template
    changes them. A hollow element has so little on it that a template saves no work. The templates that `verbworker
    verbs templates` makes bring only a verb's name, so they may stay; what they wrote is checked like anything else.

    Wrong:  <serviceTask id="ask" zeebe:modelerTemplate="io.camunda.connectors.HttpJson.v2">
    Right:  <serviceTask id="ask">
    """
    on_bpmn = (attribute for attribute in context.attributes_in(ZEEBE) if attribute.element.namespace == BPMN)
    on_zeebe = (attribute for element in context.within(ZEEBE) for attribute in element.attributes)
    for attribute in (*on_bpmn, *on_zeebe):
        expected = ZEEBE if attribute.element.namespace == BPMN else ""
        if attribute.local in _MARKS and attribute.namespace == expected and not _is_own(attribute):
            message = f"the {describe(attribute.element)} comes from the template {attribute.value!r}"
            hint = "Unlink the template, and keep a taskDefinition that names a sub-verb"
            yield context.at(attribute.whole, message, hint=hint, detail=attribute.local)


def _is_own(attribute: Attribute) -> bool:
    """Return whether the element's template was generated from a registry of verbs."""
    template = attribute.element.get("modelerTemplate", ZEEBE) or ""
    return attribute.local in _LINK and template.startswith(OWN_TEMPLATES)


@rule("HB108", on=("executionListener", "taskListener"))
def listener(context: Context) -> Iterator[Finding]:
    """A model has no listeners except the runtime's own.

    A listener is a job with side effects that no reader of the diagram sees, and it can set variables. The runtime
    weaves its own when it deploys; their types start with `verbworker.`.

    Wrong:  <zeebe:executionListener eventType="start" type="audit-log" />
    Right:  a serviceTask that is drawn, or nothing
    """
    for element in context.every("executionListener", "taskListener", namespace=ZEEBE):
        if not (element.get("type") or "").startswith(OWN_JOBS):
            message = f"the {describe(element)} runs a job that the diagram does not show"
            yield context.at(element, message, hint="Draw a serviceTask for it", detail=element.get("type") or "")


@rule("HB109", on=("agentDefinition",), words=("fromAi",))
def agent(context: Context) -> Iterator[Finding]:
    """A model defines no agents.

    An agent decides at run time what to call next. A process shows what can happen, and every step of it is a verb of
    the allow-list.

    Wrong:  <zeebe:agentDefinition agentType="..." />
    Right:  a serviceTask whose verb asks the model and returns flags
    """
    for element in context.every("agentDefinition", namespace=ZEEBE):
        message = f"the {describe(element)} lets an agent choose what happens"
        yield context.at(element, message, hint="Ask the agent inside a sub-verb, which returns flags")
    for value in values_with(context, lambda text: "fromAi" in text, "fromAi"):
        if value.is_feel:
            message = "the expression takes a value from an agent"
            yield context.at(value, message, hint="Ask the agent inside a sub-verb", detail="fromAi")


@rule("HB110", on=(CAMUNDA_7, attribute_mark(CAMUNDA_7)))
def camunda_7(context: Context) -> Iterator[Finding]:
    """A model contains nothing of Camunda 7.

    The engine ignores its elements and attributes, so they have no effect. Often they matter: a class to run, a form,
    an assignee.

    Wrong:  <serviceTask id="ask" camunda:class="org.example.Ask">
    Right:  <serviceTask id="ask"> with <zeebe:taskDefinition type="kyc.request-documents" />
    """
    hint = "Remove it, and say it with a verb or a flag"
    for element in context.within(CAMUNDA_7):
        message = f"the element {element.local} is Camunda 7, which the engine ignores"
        yield context.at(element, message, hint=hint, detail=element.local)
    for attribute in context.attributes_in(CAMUNDA_7):
        message = f"the attribute {attribute.local} is Camunda 7, which the engine ignores"
        yield context.at(attribute.whole, message, hint=hint, detail=f"@{attribute.local}")


@rule("HB111", on=("linkedResources", "linkedResource"))
def linked_resource(context: Context) -> Iterator[Finding]:
    """A task links no resources.

    A linked resource is a robot script or another file that a foreign worker runs. What runs is a verb.

    Wrong:  <zeebe:linkedResource resourceId="fill-form" resourceType="RPA" ... />
    Right:  <zeebe:taskDefinition type="kyc.fill-form" />
    """
    for element in context.every("linkedResources", "linkedResource", namespace=ZEEBE):
        message = f"the {describe(element)} hands work to something that is not a verb"
        hint = "Remove it, and name a sub-verb as the job type"
        yield context.at(element, message, hint=hint, detail=f"{element.local} {element.get('resourceId') or ''}")


_NODES = {"complexGateway": "Write an inclusiveGateway or a parallelGateway", "transaction": "Write a subProcess"}
_EVENTS = {"cancelEventDefinition": "Write an error event"}


@rule("HB112", on=(*_NODES, *_EVENTS))
def unsupported_element(context: Context) -> Iterator[Finding]:
    """Every element is one that the engines execute.

    Complex gateways, transactions, choreographies and a few kinds of events are BPMN, but no engine here runs them. A
    diagram must not show what cannot happen.

    Wrong:  <complexGateway id="join" activationCondition="..." />
    Right:  <parallelGateway id="join" />
    """
    for _, node in context.nodes():
        if node.kind.value in _NODES:
            message = f"the {describe(node.element)} is executed by no engine"
            yield context.at(node.element, message, hint=_NODES[node.kind.value])
        for event in node.events:
            if event.element.local in _EVENTS:
                message = f"the {describe(event.element)} is executed by no engine"
                yield context.at(event.element, message, hint=_EVENTS[event.element.local], detail=event.element.local)


@rule("HB122", on=(STRANGERS,))
def foreign_expression(context: Context) -> Iterator[Finding]:
    """An extension of another vendor holds no expressions.

    The engine ignores it today. A value that starts like an expression is meant to be evaluated by something, and that
    something is not a verb.

    Wrong:  <acme:rule when="${amount > 100}" />
    Right:  a flag that a sub-verb sets
    """
    for value in foreign_values(context, lambda text: text.lstrip().startswith(("=", "${", "#{"))):
        message = f"an extension that is not the engine's holds the expression {value.text[:40]!r}"
        hint = "Remove it: what decides is a sub-verb and its flags"
        yield context.at(value, message, hint=hint, detail=value.text)


_SECRET = pattern(r"\bsecrets\s*\.|\bcamunda\s*\.\s*(?:vars|secrets)\b")


@rule("HB123", words=("secrets", "vars"))
def secret(context: Context) -> Iterator[Finding]:
    """A model names no secrets and no cluster variables.

    Connectors and engines resolve secrets, outside of every verb. A verb takes them from its own configuration, where
    they do not show in a diagram.

    Wrong:  <zeebe:header key="token" value="{{secrets.API_TOKEN}}" />
    Right:  a verb that reads its configuration
    """
    for value in values_with(context, lambda text: _SECRET.search(text) is not None, "secrets", "vars"):
        message = f"the value {value.text[:40]!r} refers to a secret or a cluster variable"
        yield context.at(value, message, hint="Remove it: verbs have their own configuration", detail=value.text)


@rule("HB124", on=("userTaskForm", "formDefinition"))
def embedded_form(context: Context) -> Iterator[Finding]:
    """A model embeds no forms.

    An embedded form is JSON with expressions that read and write process variables by name. A form is a separate
    resource, found by its id, or outside the engine, or the gate shows what its contract declares.

    Wrong:  <zeebe:userTaskForm id="form">{"components": [...]}</zeebe:userTaskForm>
    Right:  <zeebe:formDefinition formId="review" />
    """
    for element in context.every("userTaskForm", namespace=ZEEBE):
        message = "the form is embedded in the model"
        yield context.at(element, message, hint="Deploy it as a form, and name it by formId", detail=element.id)
    from verblint.fixes.form_attributes import is_embedded

    for element in context.every("formDefinition", namespace=ZEEBE):
        key = element.attribute("formKey")
        if key is not None and is_embedded(key.value):
            message = "the form is named by the key of an embedded form"
            yield context.at(key.whole, message, hint="Name it by formId", detail="formKey")


FEEL = "https://www.omg.org/spec/DMN/20191111/FEEL/"

_ELEMENTS = (
    *("import", "resourceRole", "performer", "humanPerformer", "potentialOwner", "resourceAssignmentExpression"),
    *("correlationProperty", "correlationSubscription", "ioBinding", "rendering"),
)


@rule("HB125", on=("expressionLanguage", *_ELEMENTS))
def foreign_language(context: Context) -> Iterator[Finding]:
    """A model uses no other expression language and imports nothing.

    `expressionLanguage` declares that expressions are not FEEL, which the engine ignores. Imports, resource assignments
    and correlation properties are BPMN of other engines.

    Wrong:  <definitions expressionLanguage="http://www.w3.org/1999/XPath" ...>
    Right:  <definitions ...> without the attribute
    """
    language = context.root.attribute("expressionLanguage")
    if language is not None and language.value != FEEL:
        message = "the engine ignores the expression language of a model and always evaluates FEEL"
        yield context.at(language.whole, message, hint="Remove the attribute", detail="expressionLanguage")
    for element in context.every(*_ELEMENTS):
        message = f"the {describe(element)} belongs to other engines"
        yield context.at(element, message, hint="Remove it", detail=element.local)


@rule("HB126", on=("retryCounter",))
def retry_counter(context: Context) -> Iterator[Finding]:
    """No element counts its own retries.

    The policy of the sub-verb defines how often it is tried, and the runtime keeps the count in its frame.

    Wrong:  <serviceTask id="ask" zeebe:retryCounter="3">
    Right:  policies: {kyc.request-documents: patient} in the verb's contract
    """
    for attribute in context.attributes_in(ZEEBE):
        if attribute.local == "retryCounter" and attribute.element.namespace == BPMN:
            message = "the retries of a sub-verb are its policy's"
            yield context.at(attribute.whole, message, hint="Remove the attribute, and name a policy in the contract")
