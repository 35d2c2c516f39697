"""What a model with the Ameide extension must have."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions, is_used
from verblint.bpmn.element import AMEIDE
from verblint.bpmn.event_cause import MessageEvent
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.contracts.contract import Contracts
from verblint.contracts.profiles import profile_of
from verblint.feel.branch import Branch
from verblint.feel.condition import Comparison, walk
from verblint.flow.graph import find_looping, reachable
from verblint.flow.job_nodes import jobs
from verblint.flow.message_waits import waits
from verblint.names import COMPENSATE, describe, suggestion
from verblint.report import Finding, Severity
from verblint.rule import NARROWED, Context, rule
from verblint.startup.pattern import pattern


@rule("AM705", on=(AMEIDE, NARROWED))
def workflow_definition_missing(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every executable process has a workflow definition.

    It names the definition and the template that identifies its instances. Without it nothing can be compiled.

    Wrong:  <process ...> without <ameide:workflowDefinition>
    Right:  <ameide:workflowDefinition definitionId="kyc-open-case/1" workflowIdTemplate="kyc/${state.entity_ref}" />
    """
    for process in context.model.executable if is_used(context) else ():
        if not extensions(process.element, "workflowDefinition"):
            message = f"the process {process.id} has no workflowDefinition"
            hint = "Add an ameide:workflowDefinition to its extensionElements"
            yield context.at(process.element, message, hint=hint)


@rule("AM706", on=(AMEIDE, NARROWED))
def task_definition_missing(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every automated step has a task definition.

    Service tasks, send tasks and events that throw a message name their verb and the policy that bounds it.

    Wrong:  <serviceTask id="ask"> with a zeebe:taskDefinition only
    Right:  <serviceTask id="ask"> with an ameide:taskDefinition beside it
    """
    for process in context.model.processes if is_used(context) else ():
        for _, node in jobs(process):
            # The task that undoes the case belongs to the runtime and has no contract.
            if node.binding.job_type != COMPENSATE and not extensions(node.element, "taskDefinition"):
                message = f"the {describe(node.element)} has no taskDefinition of the Ameide extension"
                hint = 'Add <ameide:taskDefinition type="..." policyRef="..." />'
                yield context.at(node.element, message, hint=hint)


@rule("AM707", on=(AMEIDE, NARROWED))
def subscription_missing(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every message that a process waits for has a subscription.

    The subscription defines from which state the correlation key is made, and that deliveries are identified by their
    `message_id`.

    Wrong:  <message id="docs" name="documents-received"> with a zeebe:subscription only
    Right:  <ameide:subscription correlationKeyTemplate="${state.case_id}" messageIdPath="message_id" /> beside it
    """
    reported: set[str] = set()
    for wait in waits(context) if is_used(context) else ():
        message = wait.message
        if message is None or not wait.needs_key or message.id in reported:
            continue
        if extensions(message.element, "subscription"):
            continue
        reported.add(message.id)
        text = f"the message {message.name or message.id} has no subscription of the Ameide extension"
        hint = 'Add <ameide:subscription correlationKeyTemplate="..." messageIdPath="message_id" />'
        yield context.at(message.element, text, hint=hint)


@rule("AM715", on=(AMEIDE,))
def policy_unknown(context: Context) -> Iterator[Finding]:
    """A policy that a task names is in the catalogue, and is the one in the contract.

    The policy bounds the step: how often, how long. A name without a policy bounds nothing, and two different policies
    for one step contradict each other.

    Wrong:  policyRef="pateint"
    Right:  policyRef="patient"
    """
    policies = context.contracts.policies
    is_given = context.contracts != Contracts() or profile_of(context).needs_catalogue
    for process in context.model.processes if is_given else ():
        verb = context.contracts.of_process(process.id)
        for _, node in jobs(process):
            for element in extensions(node.element, "taskDefinition"):
                reference = element.attribute("policyRef")
                if reference is None or not reference.value:
                    continue
                name = reference.value
                wanted = verb.policy_of(node.binding.job_type) if verb is not None else ""
                if name not in policies:
                    hint = suggestion(name, policies).replace("Remove it", "Declare it")
                    yield context.at(reference.place, f"no policy is called {name}", hint=hint)
                elif wanted and name != wanted:
                    message = f"policyRef is {name}, but the contract has {wanted}"
                    yield context.at(reference.place, message, hint=f"Write {wanted}, or change the contract")


@rule("AM717", on=(AMEIDE,))
def ameide_drift(context: Context) -> Iterator[Finding]:
    """The Ameide extension and the zeebe extension agree.

    The engine acts on the zeebe elements. Where an Ameide element differs, readers and compilers expect something that
    does not happen.

    Wrong:  ameide:taskDefinition type="kyc.close-case" beside zeebe:taskDefinition type="kyc.request-documents"
    Right:  the same type in both
    """
    for process in context.model.processes:
        for definition in extensions(process.element, "workflowDefinition"):
            kind = definition.attribute("workflowType")
            if kind is not None and kind.value != process.id:
                message = f"workflowType is {kind.value}, and the process is {process.id}"
                hint = f"Write {process.id}, or leave it out"
                yield context.at(kind.place, message, hint=hint, detail="workflowType")
        for _, node in process.walk():
            headers = {header.key: header.value for header in node.binding.headers}
            for definition in extensions(node.element, "taskDefinition"):
                kind = definition.attribute("type")
                if kind is not None and node.binding.type is not None and kind.value != node.binding.type.text:
                    message = f"the type is {kind.value} here and {node.binding.type.text} for the engine"
                    yield context.at(kind.place, message, hint=f"Write {node.binding.type.text}", detail="type")
            groups = extensions(node.element, "taskHeaders")
            for header in (header for group in groups for header in group.find_all("header", AMEIDE)):
                key, text = header.get("key") or "", header.get("value") or ""
                if key and key not in headers:
                    message = f"the engine has no header {key}, so no verb is given it"
                    hint = f'Write <zeebe:header key="{key}" value="{text}" /> too, or remove it'
                    yield context.at(header, message, hint=hint, detail=f"header {key}")
                elif headers.get(key, text) != text:
                    message = f"the header {key} is {text!r} here and {headers[key]!r} for the engine"
                    yield context.at(header, message, hint=f"Write {headers[key]}", detail=f"header {key}")


@rule("AM718", on=(AMEIDE, NARROWED))
def message_name_twice(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every message has its own name.

    Messages are matched by name. Two declarations of one name are two subscriptions for one message, and only one of
    them can be right.

    Wrong:  two messages with name="documents-received"
    Right:  one message, which both waits refer to
    """
    seen: set[str] = set()
    for message in context.model.messages.values() if is_used(context) else ():
        if message.name in seen:
            text = f"another message is called {message.name}"
            yield context.at(message.element, text, hint="Keep one, and let both waits refer to it")
        seen.add(message.name)


@rule("AM719", on=(AMEIDE, NARROWED))
def unreachable_node(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension every step can be reached, and no token is lost.

    A step that no token reaches is never executed. A start event or a gateway without an outgoing flow loses the token.

    Wrong:  <serviceTask id="ask"> with no flow that enters it
    Right:  a flow from the start to it
    """
    for process in context.model.processes if is_used(context) else ():
        for scope in process.scope.scopes():
            reached = reachable(scope)
            for node in scope.nodes:
                if node.id not in reached:
                    message = f"no token can reach the {describe(node.element)}"
                    yield context.at(node.element, message, hint="Draw a flow to it, or remove it", detail="in")
                if (node.kind is NodeKind.START_EVENT or node.kind.is_gateway) and not scope.outgoing(node):
                    message = f"the {describe(node.element)} leads nowhere"
                    yield context.at(node.element, message, hint="Draw a flow from it", detail="out")


@rule("AM720", severity=Severity.WARNING, on=(AMEIDE, NARROWED))
def several_ends(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension a process has one end.

    One end makes it clear what a finished case is. Several may be intended, where the outcomes differ.

    Wrong:  <endEvent id="done" /> and <endEvent id="done-too" />
    Right:  one endEvent behind an exclusiveGateway that joins
    """
    for process in context.model.processes if is_used(context) else ():
        ends = [node for node in process.scope.nodes if node.kind is NodeKind.END_EVENT]
        for extra in ends[1:]:
            message = f"the process has {len(ends)} ends"
            yield context.at(extra.element, message, hint=f"Lead the flow to {ends[0].id}")


@rule("AM721", severity=Severity.WARNING, on=(AMEIDE, NARROWED))
def unbounded_loop(context: Context) -> Iterator[Finding]:
    """In a file with the Ameide extension a loop is bounded by a counter.

    A loop that ends when some flag changes may never end. A gateway in it that also reads an integer flag, which a
    sub-verb increments, bounds it.

    Wrong:  a loop that is left when orch_docs_received = true
    Right:  a loop that is left when orch_docs_received = true or orch_attempts >= 5
    """
    for process in context.model.processes if is_used(context) else ():
        for scope in process.scope.scopes():
            loop = find_looping(scope)
            names = {node.id for node in loop}
            leaving = [b for b in context.branches if b.scope is scope and b.flow.source in names]
            if loop and not any(map(_counts, leaving)):
                message = f"nothing bounds the loop through {', '.join(node.id for node in loop)}"
                hint = "Let a gateway in the loop look at an integer flag that counts the rounds"
                yield context.at(loop[0].element, message, hint=hint)


def _counts(branch: Branch) -> bool:
    """Return whether a condition compares an integer."""
    tests = walk(branch.test) if branch.test is not None else iter(())
    return any(isinstance(test, Comparison) and type(test.literal.value) is int for test in tests)


@rule("AM722", severity=Severity.WARNING, on=(AMEIDE,))
def io_mapping_recommended(context: Context) -> Iterator[Finding]:
    """A step with the Ameide extension declares what it takes and what it returns.

    Without an ioMapping the verb gets the whole state. That works, and hides what the step depends on.

    Wrong:  <serviceTask id="ask"> with an ameide:taskDefinition only
    Right:  an ameide:ioMapping beside it
    """
    profile = profile_of(context)
    for _, node in context.nodes():
        has_definition = profile.may_have("ioMapping", node.kind) and extensions(node.element, "taskDefinition")
        if has_definition and not extensions(node.element, "ioMapping"):
            message = f"the {describe(node.element)} does not say what it takes and gives"
            yield context.at(node.element, message, hint="Add an ameide:ioMapping")


_REQUEST = pattern(r"\.request\.v[0-9]+$")


@rule("AM723", on=(AMEIDE,))
def request_without_wait(context: Context) -> Iterator[Finding]:
    """A request to the outside is followed by a wait for its answer.

    A verb whose type ends in `.request.v` and a number only asks. The answer comes as a message, and the next step of
    the process must wait for it.

    Wrong:  a serviceTask of type scoring.request.v1, then a serviceTask
    Right:  a serviceTask of type scoring.request.v1, then a receiveTask
    """
    for process in context.model.processes if is_used(context) else ():
        for scope, node in jobs(process):
            if _REQUEST.search(node.binding.job_type) and not any(_waits(step) for step in _next(scope, node)):
                message = f"nothing waits for the answer to {node.binding.job_type}"
                yield context.at(node.element, message, hint="Draw a receiveTask or a message event behind it")


def _next(scope: Scope, node: FlowNode) -> Iterator[FlowNode]:
    """Return the first nodes after a node that are not gateways."""
    pending = [node]
    seen: set[str] = set()
    while pending:
        for flow in scope.outgoing(pending.pop()):
            step = scope.by_id.get(flow.target)
            if step is None or step.id in seen:
                continue
            seen.add(step.id)
            if step.kind.is_gateway:
                pending.append(step)
            else:
                yield step


def _waits(node: FlowNode) -> bool:
    return node.kind is NodeKind.RECEIVE_TASK or (
        node.kind is NodeKind.CATCH_EVENT and isinstance(node.event, MessageEvent)
    )


@rule("AM724", on=("updateDefinition",))
def gate_name_twice(context: Context) -> Iterator[Finding]:
    """Every gate has its own name.

    A decision is sent to a gate by its name, which is `Update_` and the id of the user task unless an updateDefinition
    gives another. Two gates of one name would compete for one decision.

    Wrong:  two user tasks with <ameide:updateDefinition name="Update_Review" />
    Right:  Update_Review and Update_SecondReview
    """
    for process in context.model.processes:
        seen: dict[str, bool] = {}
        for _, node in process.walk(NodeKind.USER_TASK):
            given = [update.get("name") for update in extensions(node.element, "updateDefinition")]
            chosen = next((text for text in given if text), "")
            name = chosen or f"Update_{node.id}"
            # Two names made of ids are the same only if an id is missing or occurs twice, which other rules find.
            if name in seen and (chosen or seen[name]):
                message = f"another gate is called {name}"
                yield context.at(node.element, message, hint="Give it another name in its updateDefinition")
            seen[name] = bool(chosen) or seen.get(name, False)
