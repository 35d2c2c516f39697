"""Where a process waits: messages, timers, start events and gates."""

from collections.abc import Iterator
from functools import partial

from verblint.bpmn.binding import find_attribute
from verblint.bpmn.element import FLEANS, ZEEBE
from verblint.bpmn.event_cause import MessageEvent, Timer, TimerKind
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.bpmn.places import WrittenText
from verblint.fixes.rewrites import remove, unquote
from verblint.flow.message_waits import correlation_name, waits
from verblint.flow.timer_text import EXAMPLES, is_literal
from verblint.names import describe, extended_by, nearest
from verblint.report import Finding, Fix, Severity
from verblint.rule import CONTRACTS, Context, engine_marks, rule


@rule("HB501", on=("message",))
def correlation_key_missing(context: Context) -> Iterator[Finding]:
    """A message that a process waits for has a correlation key.

    The key identifies the one instance that waits. Without it the engine refuses the model.

    Wrong:  <message id="docs" name="documents-received" />
    Right:  <message id="docs" ...> with <zeebe:subscription correlationKey="=corr_documents" />
    """
    for wait in waits(context):
        if wait.needs_key and wait.message is not None and wait.message.correlation_key is None:
            message = f"the message has no correlation key, and {wait.node.id} waits for it"
            hint = 'Add <zeebe:subscription correlationKey="=corr_<name>" /> to the extensionElements of the message'
            yield context.at(wait.message.element, message, hint=hint, detail=wait.node.id)


@rule("HB502", on=("subscription",))
def correlation_key_form(context: Context) -> Iterator[Finding]:
    """A correlation key is one variable; its name is `corr_` and lower-case words.

    The runtime writes these variables once, before the wait, and never again. A path or a computation reads domain
    data, and a key that changes while the process waits is a message that never arrives.

    Wrong:  <zeebe:subscription correlationKey="=case.id" />
    Right:  <zeebe:subscription correlationKey="=corr_case" />
    """
    hint = "Write =corr_<name>, declared under correlation.keys"
    for element in context.every("subscription", namespace=ZEEBE):
        key = find_attribute(element, "correlationKey")
        if key is None or correlation_name(key) is None:
            state = "missing" if key is None else repr(key.text[:40])
            yield context.at(key or element, f"the correlation key is {state}", hint=hint)
    for message in context.model.messages.values():
        key = message.correlation_key
        if key is not None and key.element.namespace != ZEEBE and correlation_name(key) is None:
            yield context.at(key, f"the correlation key is read as {key.text[:40]!r}", hint=hint)


@rule("HB503", on=(CONTRACTS,))
def correlation_key_undeclared(context: Context) -> Iterator[Finding]:
    """The correlation key of a message is the one that the contract declares for it.

    The contract defines which key the runtime writes for which message. A message that waits under another key, or
    under one that is never written, is never correlated.

    Wrong:  =corr_case, where the contract has messages: {documents-received: corr_documents}
    Right:  =corr_documents
    """
    for wait in waits(context):
        key = wait.message.correlation_key if wait.message is not None else None
        name = correlation_name(key) if key is not None else None
        if wait.verb is None or wait.message is None or key is None or name is None:
            continue
        wanted = wait.verb.messages.get(wait.message.name)
        if name not in wait.verb.correlation:
            message = f"the verb {wait.verb.name} declares no correlation key {name}"
            hint = f"Write ={wanted}" if wanted else "Declare it under correlation.keys"
            yield context.at(key, message, hint=hint, detail=name)
        elif wanted is not None and name != wanted:
            message = f"the message {wait.message.name} is correlated by {wanted}, not by {name}"
            yield context.at(key, message, hint=f"Write ={wanted}", detail=name)


@rule("HB504", on=("subscription",))
def subscription_on_event(context: Context) -> Iterator[Finding]:
    """A subscription is on the message, not on the event or task that waits.

    The engine reads the correlation key only from the message. On an event it is ignored, and the model is refused
    because the message has none.

    Wrong:  <intermediateCatchEvent ...> with <zeebe:subscription correlationKey="=corr_documents" />
    Right:  <message id="docs" ...> with <zeebe:subscription correlationKey="=corr_documents" />
    """
    for element in (one for name in (ZEEBE, *FLEANS) for one in context.every("subscription", namespace=name)):
        parent = extended_by(element, "zeebe")
        if parent != "message":
            message = f"the engine ignores a subscription in {parent or 'this place'}"
            hint = "Move it into the extensionElements of the message"
            yield context.at(element, message, hint=hint)


@rule("HB505", on=("message",))
def message_name(context: Context) -> Iterator[Finding]:
    """The name of a message is a literal.

    People, ingress and contracts know a message by its name. A computed name cannot be looked up, and an empty one
    matches nothing.

    Wrong:  <message id="docs" name="=orch_message" />
    Right:  <message id="docs" name="documents-received" />
    """
    for element in context.every("message"):
        name = element.attribute("name")
        if name is None or not name.value.strip():
            message = f"the {describe(element)} has no name"
            yield context.at(element, message, hint='Write name="..." as the contract declares it')
        elif name.value.startswith("="):
            message = f"the name of the {describe(element)} is computed: {name.value[:40]}"
            yield context.at(name.place, message, hint="Write the name itself")


@rule("HB506", on=(CONTRACTS,))
def message_undeclared(context: Context) -> Iterator[Finding]:
    """A message that a process waits for is declared in the contract.

    Ingress takes from the contract which messages exist and which key each of them has. A message that is not declared
    is a dead letter.

    Wrong:  <message id="docs" name="docs-recieved" />
    Right:  <message id="docs" name="documents-received" />, and messages: {documents-received: corr_documents}
    """
    for wait in waits(context):
        if wait.verb is None or wait.message is None or wait.message.name in ("", *wait.verb.messages):
            continue
        near = nearest(wait.message.name, list(wait.verb.messages))
        hint = f"Write {near}" if near else "Declare it under messages in the verb's contract, with its correlation key"
        message = f"the verb {wait.verb.name} declares no message {wait.message.name}"
        yield context.at(wait.message.element, message, hint=hint, detail=wait.node.id)


@rule("HB507", on=tuple(TimerKind))
def timer_form(context: Context) -> Iterator[Finding]:
    """A timer is an ISO 8601 literal, or one flag.

    Anything else is computed by the engine. When the time depends on the case, a sub-verb computes it and sets a flag.
    Cron expressions are not ISO 8601 and depend on the clock of the broker.

    Wrong:  <timeDuration>=duration("P" + string(days) + "D")</timeDuration>
    Right:  <timeDuration>P5D</timeDuration>, or <timeDuration>=orch_document_deadline</timeDuration>
    """
    for kind in TimerKind:
        for element in context.every(kind):
            value = Expression.of(element)
            if not is_literal(kind, value.text) and not WrittenText(element, "", value).flag:
                message = f"the timer {value.text[:40]!r} is not a literal" if value.text else "the timer is empty"
                hint = f"Write an ISO 8601 literal such as {EXAMPLES[kind]}, or =orch_<name>"
                fix = unquote(value.text, value.place, "write the literal itself", partial(is_literal, kind))
                yield context.at(value, message, hint=hint, detail=kind, fix=fix)


@rule("HB508", on=("startEvent",))
def start_event(context: Context) -> Iterator[Finding]:
    """A process starts with a none start event, or with a message that the contract declares.

    The runtime starts processes with payload, hash and flags. A timer, a signal, a condition or a form starts one
    without them, and its first job fails.

    Wrong:  <startEvent id="nightly"><timerEventDefinition>...</timerEventDefinition></startEvent>
    Right:  <startEvent id="start" />
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        for node in (node for node in process.scope.nodes if node.kind is NodeKind.START_EVENT):
            for event in node.events:
                element = event.element
                if not isinstance(event, MessageEvent):
                    message = f"the process is started by a {element.local}, without payload and flags"
                    hint = "Write a start event without a definition"
                    yield context.at(element, message, hint=hint, detail=element.local)
                elif verb is not None and _name_of(event, context) not in verb.messages:
                    message = "the process is started by a message that the contract does not declare"
                    hint = "Declare it under messages in the contract"
                    yield context.at(element, message, hint=hint, detail="message")
            for holder in node.element.find_all("extensionElements"):
                for form in holder.find_all("formDefinition", ZEEBE):
                    message = "the process is started by a form, without payload and flags"
                    hint = "Remove the form: a verb is called with its arguments"
                    yield context.at(form, message, hint=hint, detail="form")


def _name_of(event: MessageEvent, context: Context) -> str:
    declared = context.model.messages.get(event.ref)
    return declared.name if declared is not None else ""


@rule("HB509", on=engine_marks(lambda version: version >= (8, 10)))
def job_based_user_task(context: Context) -> Iterator[Finding]:
    """From engine 8.10 on, a user task is native.

    Up to 8.9 a user task without `zeebe:userTask` is a job, which the runtime takes as the sign that a person is asked.
    8.10 no longer creates such jobs.

    Wrong:  <userTask id="Review" /> with engine 8.10
    Right:  <userTask id="Review"> with <zeebe:userTask />
    """
    if context.settings.engine_version < (8, 10):
        return
    from verblint.fixes.insertions import insert_extension

    for _, node in context.nodes(NodeKind.USER_TASK):
        if not node.binding.is_user_task:
            message = f"the user task is a job, which engine {context.settings.engine} no longer makes"
            fix = insert_extension(node.element, "userTask", "make the user task native")
            hint = "Add <zeebe:userTask /> to its extensionElements"
            yield _with_form(context, node, fix, message, hint)


@rule("HB510", on=engine_marks(lambda version: version < (8, 8)))
def native_user_task(context: Context) -> Iterator[Finding]:
    """Before engine 8.8, a user task is a job.

    The runtime learns of a native user task through a task listener, which older engines do not have. The process would
    wait there, and no person would be asked. A job names a form outside the engine by `formKey`, a native task by
    `externalReference`.

    Wrong:  <userTask id="Review"> with <zeebe:userTask /> and engine 8.6
    Right:  <userTask id="Review" />
    """
    if context.settings.engine_version >= (8, 8):
        return
    for _, node in context.nodes(NodeKind.USER_TASK):
        if node.binding.is_user_task:
            message = f"the user task is native, and engine {context.settings.engine} does not tell the runtime of it"
            hint = "Remove <zeebe:userTask />, or set the engine to 8.8"
            yield _with_form(context, node, _as_job(node), message, hint)


def _as_job(node: FlowNode) -> Fix:
    holders = node.element.find_all("extensionElements")
    mark = next(mark for holder in holders for mark in holder.find_all("userTask", ZEEBE))
    return remove(mark, "make the user task a job")


def _with_form(context: Context, node: FlowNode, fix: Fix, message: str, hint: str) -> Finding:
    """Return the finding of a user task of the wrong kind; its form goes along, or there is no fix."""
    from verblint.fixes.form_attributes import convert_forms

    forms = convert_forms(node.element, is_native=not node.binding.is_user_task)
    if forms is None:
        hint = f"{hint}; name its form by formId first, because the form cannot be converted"
        return context.at(node.element, message, hint=hint)
    return context.at(node.element, message, hint=hint, fix=Fix(fix.description, (*fix.edits, *forms)))


@rule("HB511", severity=Severity.WARNING, on=(CONTRACTS,))
def gate_undeclared(context: Context) -> Iterator[Finding]:
    """A user task is a gate of the contract.

    The contract defines which decisions a gate takes and who is asked. A user task that it does not know accepts any
    word as a decision.

    Wrong:  <userTask id="Check" />, and gates: {review: {task: Review, ...}}
    Right:  <userTask id="Review" />
    """
    for process, verb in context.workflows:
        tasks = [gate.task for gate in verb.gates.values()]
        for _, node in process.walk(NodeKind.USER_TASK):
            if node.id not in tasks:
                message = f"the contract has no gate for {node.id}"
                hint = f"Declare it: gates: {{<name>: {{task: {node.id}, decisions: [...]}}}}"
                yield context.at(node.element, message, hint=hint)


@rule("HB512", severity=Severity.WARNING, on=(CONTRACTS,))
def gate_without_task(context: Context) -> Iterator[Finding]:
    """A gate of the contract belongs to a user task of the process.

    People would wait for a question that is never asked, and a decision for that gate has no target.

    Wrong:  gates: {review: {task: Reveiw, ...}}
    Right:  gates: {review: {task: Review, ...}}, and <userTask id="Review" />
    """
    for process, verb in context.workflows:
        tasks = [node.id for _, node in process.walk(NodeKind.USER_TASK)]
        for gate in verb.gates.values():
            if gate.task not in tasks:
                message = f"the gate {gate.name} belongs to {gate.task}, which is not a user task of this process"
                near = nearest(gate.task, tasks)
                hint = f"Call the user task {gate.task} instead of {near}" if near else f"Draw a userTask {gate.task}"
                yield context.at(process.element, message, hint=hint, detail=gate.name)


@rule("HB513", severity=Severity.WARNING, on=("userTask",))
def gate_without_escalation(context: Context) -> Iterator[Finding]:
    """A gate has a timer that fires when no decision is made.

    People are away, and an unanswered question waits for ever. A boundary timer on the user task or on a subprocess
    around it, or an event subprocess that starts by a timer, takes the case to another person.

    Wrong:  <userTask id="Review" /> alone
    Right:  <userTask id="Review" />, and a boundaryEvent attached to it with a timerEventDefinition
    """
    gates = [gate for process in context.model.processes for gate in _find_tasks_without_timer(process.scope)]
    if not gates:
        return
    from verblint.contracts.profiles import profile_of

    # Without boundary events, a profile leaves no way to comply.
    for gate in gates if profile_of(context).has("boundaryEvent") else ():
        message = f"nothing happens if {gate.id} is never decided"
        hint = f"Attach a boundaryEvent with a timerEventDefinition to {gate.id}"
        yield context.at(gate.element, message, hint=hint)


def _find_tasks_without_timer(scope: Scope) -> Iterator[FlowNode]:
    """Yield the user tasks that no timer watches, on the task or around it."""
    if any(node.is_event_sub_process and _starts_by_timer(node) for node in scope.nodes):
        return
    for node in scope.nodes:
        if node.kind is not NodeKind.USER_TASK and node.scope is None:
            continue
        if any(isinstance(boundary.event, Timer) for boundary in scope.boundaries(node)):
            continue
        if node.scope is None:
            yield node
        else:
            yield from _find_tasks_without_timer(node.scope)


def _starts_by_timer(node: FlowNode) -> bool:
    return node.scope is not None and any(
        inner.kind is NodeKind.START_EVENT and isinstance(inner.event, Timer) for inner in node.scope.nodes
    )


@rule("HB514", severity=Severity.WARNING, on=(CONTRACTS,))
def message_unused(context: Context) -> Iterator[Finding]:
    """A message of the contract is one that the process waits for.

    The contract promises its callers that they may send it. If no event waits for it, it becomes a dead letter.

    Wrong:  messages: {documents-received: corr_documents}, and no event that waits for it
    Right:  a receiveTask or a message event for it, or a shorter list
    """
    awaited = {(wait.process.id, wait.message.name) for wait in waits(context) if wait.message is not None}
    for process, verb in context.workflows:
        for name in verb.messages:
            if (process.id, name) not in awaited:
                message = f"the contract declares the message {name}, and nothing waits for it"
                yield context.at(process.element, message, hint="Draw the wait, or take it off messages", detail=name)


@rule("HB515", severity=Severity.WARNING, on=FLEANS)
def fleans_subscription(context: Context) -> Iterator[Finding]:
    """A correlation key is written for Zeebe.

    A subscription of Fleans is read where a message has none of Zeebe and of Ameide, and is deployed as one of Zeebe. A
    broker and other tools read none of it, so write what they do.

    Wrong:  <fleans:subscription correlationKey="corr_documents" />
    Right:  <zeebe:subscription correlationKey="=corr_documents" />
    """
    # A clean model needs no fixes.
    from verblint.fixes.subscription import rewrite_subscription

    for element in (one for name in FLEANS for one in context.every("subscription", namespace=name)):
        if extended_by(element, "fleans") == "message":
            fix = rewrite_subscription(element)
            hint = 'Write <zeebe:subscription correlationKey="=..." />'
            yield context.at(element, "the subscription is written for Fleans", hint=hint, fix=fix)
