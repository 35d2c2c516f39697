"""The verbs that a process calls, compared with the contract."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, Process
from verblint.contracts.contract import WorkflowVerbFields
from verblint.flow.catchers import Thrower, catchers, throwers
from verblint.flow.concurrency import TooEntangled, forks
from verblint.flow.job_nodes import is_job, jobs
from verblint.flow.writers import conflicts
from verblint.names import COMPENSATE, FOREIGN_JOBS, OWN_JOBS, nearest
from verblint.report import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB306", on=(CONTRACTS,))
def parallel_writers(context: Context) -> Iterator[Finding]:
    """Steps that run at the same time write different fields of the payload.

    Two sub-verbs on parallel branches start from the same payload. Where both change one field, one change would be
    lost, so the runtime refuses the second. Each verb declares what it writes; here those fields must not overlap.

    Wrong:  two branches of a parallelGateway, with kyc.screen-entity on both
    Right:  one after the other, or verbs whose `writes` differ
    """
    if not context.contracts.workflows and not context.contracts.directs:
        return
    for process in context.model.processes:
        try:
            yield from _find_conflicts(context, process)
        except TooEntangled:
            message = "the process forks too often to tell which of its steps run at the same time"
            yield context.at(process.element, message, hint="Split it into verbs that hand over by message")


def _find_conflicts(context: Context, process: Process) -> Iterator[Finding]:
    reported: set[str] = set()
    for fork in forks(process):
        for first, second, fields in conflicts(fork, context.contracts, context.contracts.of_process(process.id)):
            if second.id in reported:
                continue
            reported.add(second.id)
            message = f"{_label(first)} and {_label(second)} can run at the same time, and both may write {fields}"
            hint = "Run one after the other, or declare `writes` that differ"
            yield context.at(second.element, message, hint=hint, detail=first.id)


def _label(node: FlowNode) -> str:
    return f"{node.id} ({node.binding.job_type or 'no verb'})"


@rule("HB401", on=(CONTRACTS,))
def verb_not_allowed(context: Context) -> Iterator[Finding]:
    """A process calls only sub-verbs of its verb's allow-list.

    The contract defines which verbs a process may call, and the worker refuses every other. A model that names another
    verb fails at run time, with a real case in it.

    Wrong:  <zeebe:taskDefinition type="kyc.delete-everything" />, which sub_verbs does not list
    Right:  <zeebe:taskDefinition type="kyc.request-documents" />, which sub_verbs lists
    """
    for process, verb in context.workflows:
        for scope, node in jobs(process):
            name = node.binding.job_type
            is_own = name.startswith((OWN_JOBS, FOREIGN_JOBS))
            if not name or is_own or name in verb.sub_verbs or node.is_for_compensation or node.id in scope.handlers:
                continue
            near = nearest(name, verb.sub_verbs)
            hint = f"Write {near}" if near else f"List {name} under sub_verbs of {verb.name}, or name another verb"
            message = f"{name} is not in the allow-list of {verb.name}"
            yield context.at(node.binding.type or node.element, message, hint=hint)


@rule("HB404", severity=Severity.WARNING, on=(CONTRACTS,))
def sub_verb_unused(context: Context) -> Iterator[Finding]:
    """Every sub-verb of the allow-list is called.

    A verb that the process never calls is a permission without a use. Perhaps the task was deleted, perhaps it was
    forgotten.

    Wrong:  sub_verbs: [kyc.close-case], and no task of that type
    Right:  a task for it, or a shorter list
    """
    for process, verb in context.workflows:
        called = {node.binding.job_type for _, node in process.walk()}
        for name in verb.sub_verbs:
            if name not in called:
                message = f"{name} is in the allow-list, and no task calls it"
                hint = f"Draw a task for {name}, or take it off sub_verbs"
                yield context.at(process.element, message, hint=hint, detail=name)


@rule("HB405", severity=Severity.WARNING, on=(CONTRACTS,))
def compensation_missing(context: Context) -> Iterator[Finding]:
    """A step that the contract can undo is undone in the model.

    The manifest names a verb that undoes the step. Without a compensation boundary event on the task, and without a
    task of type `verbworker.compensate`, it is never called.

    Wrong:  compensation: {kyc.request-documents: kyc.withdraw-document-request}, and nothing in the model
    Right:  a serviceTask of type verbworker.compensate on the path where the case is given up
    """
    for process, verb in context.workflows:
        if any(node.binding.job_type == COMPENSATE for _, node in process.walk()):
            continue
        for scope, node in jobs(process):
            undo = verb.compensation.get(node.binding.job_type)
            is_undone = any(boundary.is_compensation_boundary for boundary in scope.boundaries(node))
            if undo is not None and not is_undone and not node.is_for_compensation:
                message = f"{undo} could undo {node.binding.job_type}, and nothing calls it"
                hint = f"Draw a serviceTask of type {COMPENSATE}, or a compensation boundary event here"
                yield context.at(node.element, message, hint=hint)


@rule("HB406", on=(CONTRACTS,))
def process_unknown(context: Context) -> Iterator[Finding]:
    """An executable process is the process of a workflow verb.

    Its id is the process key of the contract. A process that no contract names cannot be started, and none of its
    verbs, flags and messages can be checked.

    Wrong:  <process id="kyc-open-cases" isExecutable="true">
    Right:  <process id="kyc-open-case" isExecutable="true">, and process: kyc-open-case in the contract
    """
    if not context.contracts.workflows:
        return
    keys = [verb.process for verb in context.contracts.workflows.values()]
    for process in context.model.executable:
        if process.id not in keys:
            message = f"no workflow verb has the process {process.id or 'without an id'}"
            near = nearest(process.id, keys)
            hint = f"Write {near}" if near else "Name it as process in the contract of a workflow verb"
            yield context.at(process.element, message, hint=hint)


@rule("HB407", severity=Severity.WARNING, on=(CONTRACTS,))
def verb_without_contract(context: Context) -> Iterator[Finding]:
    """A sub-verb that a process calls has its own contract.

    Without one it is unknown what it writes, so it counts as writing everything, and no worker is known to perform it.

    Wrong:  <zeebe:taskDefinition type="kyc.rate-risk" />, and no file below verbs/ declares kyc.rate-risk
    Right:  verb: kyc.rate-risk, mode: transactional, writes: [risk]
    """
    known = context.contracts.directs
    for process in context.model.processes if known else ():
        for _, node in jobs(process):
            name = node.binding.job_type
            if name and name not in known and not name.startswith((OWN_JOBS, FOREIGN_JOBS)):
                message = f"no contract declares the verb {name}"
                hint = "Declare it below the verbs folder, with what it writes"
                yield context.at(node.binding.type or node.element, message, hint=hint)


@rule("HB408", on=(CONTRACTS,))
def compensation_verb(context: Context) -> Iterator[Finding]:
    """A compensation handler is a service task that calls the verb of the manifest.

    The manifest of the contract defines which verb undoes which step. A handler that calls another verb, or none,
    undoes something else.

    Wrong:  kyc.close-case as the handler of kyc.request-documents
    Right:  kyc.withdraw-document-request, as in the manifest
    """
    for process, verb in context.workflows:
        for scope in process.scope.scopes():
            for handler, undone in scope.handlers.items():
                node = scope.by_id[handler]
                wanted = verb.compensation.get(undone.binding.job_type)
                if wanted is None:
                    step = undone.binding.job_type or undone.kind
                    message = f"the manifest has nothing that undoes {undone.id} ({step})"
                    hint = "Add the pair to compensation in the contract, or remove the handler"
                    yield context.at(node.element, message, hint=hint)
                elif not is_job(node) or node.binding.job_type != wanted:
                    message = f"{undone.id} is undone by {wanted}, not by {node.binding.job_type or node.kind}"
                    yield context.at(node.element, message, hint=f"Write a serviceTask of type {wanted}")


@rule("HB411", severity=Severity.WARNING, on=(CONTRACTS,))
def undone_twice(context: Context) -> Iterator[Finding]:
    """A step is undone by a compensation handler or by the task that undoes everything, not by both.

    A task of type `verbworker.compensate` undoes every completed step of the manifest. It does not know which steps a
    handler has already undone in the engine, so a case that passes both undoes such a step twice.

    Wrong:  a compensation boundary event on kyc.request-documents, and a serviceTask of type verbworker.compensate
    Right:  the serviceTask alone: it undoes in reverse order, one step after the other
    """
    for process, verb in context.workflows:
        if all(node.binding.job_type != COMPENSATE for _, node in process.walk()):
            continue
        for scope in process.scope.scopes():
            for handler, undone in scope.handlers.items():
                if undone.binding.job_type in verb.compensation:
                    message = f"{undone.id} is undone by {handler} and by {COMPENSATE}"
                    hint = "Remove the handler and its boundary event"
                    yield context.at(scope.by_id[handler].element, message, hint=hint)


@rule("HB412", on=("errorEventDefinition",))
def error_undeclared(context: Context) -> Iterator[Finding]:
    """A code that is caught at a task is one that its verb declares.

    A verb that declares its codes ends with no other: the runtime turns any other code into an incident, so this event
    never happens. Perhaps the code is misspelt.

    Wrong:  errors: {invoice.book: [policy-lapsed]}, and a boundary event on its task for the code policy-lapse
    Right:  a boundary event for the code policy-lapsed
    """
    for process, verb in context.workflows:
        for thrower in throwers(context.model, process):
            name = thrower.node.binding.job_type
            declared = verb.errors.get(name)
            if declared is None or not thrower.levels:
                continue
            for catcher in thrower.levels[0].catchers:
                if catcher.code and catcher.code not in declared:
                    message = f"{name} does not declare the code {catcher.code}, which {catcher.event.id} catches"
                    near = nearest(catcher.code, declared)
                    hint = f"Catch {near}" if near else f"Declare {catcher.code} for {name}, or remove the event"
                    yield context.at(catcher.event.element, message, hint=hint, detail=catcher.code)


@rule("HB413", on=(CONTRACTS,))
def error_uncaught(context: Context) -> Iterator[Finding]:
    """Every code that a verb declares is caught where the verb is called.

    A code is thrown only where the model catches it: at the task, at a subprocess around it, or by an error event
    subprocess. Without that the case stops with an incident, and a person has to look. From inside an event subprocess
    that interrupts its scope, engines do not look outside it, and a message event cannot throw a code.

    Wrong:  errors: {invoice.book: [policy-lapsed]}, and no error event at its task or around it
    Right:  an error boundary event for policy-lapsed on the task or on the subprocess around it
    """
    for process, verb in context.workflows:
        for thrower in throwers(context.model, process):
            name = thrower.node.binding.job_type
            for code in verb.errors.get(name, ()):
                if thrower.catcher(code) is None:
                    message = f"{name} may end with the code {code}, and nothing catches it"
                    yield context.at(thrower.node.element, message, hint=_suggest_event(thrower, code), detail=code)


def _suggest_event(thrower: Thrower, code: str) -> str:
    if not thrower.hosts:
        return "Make it a task: engines take no code from an event"
    return f"Add an error boundary event for {code} to {' or '.join(thrower.hosts)}"


@rule("HB414", severity=Severity.WARNING, on=("errorEventDefinition",))
def error_unreachable(context: Context) -> Iterator[Finding]:
    """An event that catches errors can be reached by a code.

    If every verb below it declares its codes, it is known which of them arrive: those that no event nearer to the task
    catches. An event that none of them reaches never happens. Error end events count too.

    Wrong:  a boundary event for the code sanctioned, on a subprocess whose verbs declare no such code
    Right:  the code that they declare, or no event
    """
    for process, verb in context.workflows:
        yield from _find_unreachable(context, process, verb)


def _find_unreachable(context: Context, process: Process, verb: WorkflowVerbFields) -> Iterator[Finding]:
    reached: set[str] = set()
    doubtful: set[str] = set()
    declaring: set[str] = set()
    for thrower in throwers(context.model, process):
        codes = thrower.codes(verb.errors)
        if codes is None:
            doubtful |= {level.host for level in thrower.levels}
            continue
        found = (thrower.catcher(code) for code in codes)
        reached |= {catcher.event.id for catcher in found if catcher is not None}
        declaring.add(thrower.node.id)
    for catcher in catchers(context.model, process):
        # error-undeclared reports a code at a task whose verb declares others.
        is_undeclared = catcher.code and catcher.host in declaring
        if catcher.event.id not in reached and catcher.host not in doubtful and not is_undeclared:
            caught = f"the code {catcher.code}" if catcher.code else "every error"
            message = f"{catcher.event.id} catches {caught}, and no code of a verb reaches it"
            yield context.at(catcher.event.element, message, hint="Remove it, or catch a code that is declared")


@rule("HB415", severity=Severity.WARNING, on=("errorEventDefinition",))
def verb_without_errors(context: Context) -> Iterator[Finding]:
    """A verb whose errors are caught declares the codes it may end with.

    Without them it cannot be checked whether the events of the model catch what the verb throws: a misspelt code is
    found when a case stops with an incident. A verb that throws none declares an empty list.

    Wrong:  an error boundary event on a task, and no errors of its verb in the contract
    Right:  errors: {invoice.book: [policy-lapsed]}, and errors=("policy-lapsed",) where the verb is registered
    """
    for process, verb in context.workflows:
        for thrower in throwers(context.model, process):
            name = thrower.node.binding.job_type
            catcher = next(thrower.catchers, None)
            if catcher is not None and name in verb.sub_verbs and name not in verb.errors:
                message = f"{name} does not declare its error codes, and {catcher.event.id} catches errors over it"
                hint = f"Add {name} to errors of {verb.name}, with its codes or an empty list"
                yield context.at(thrower.node.binding.type or thrower.node.element, message, hint=hint)
