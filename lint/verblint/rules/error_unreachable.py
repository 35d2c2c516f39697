"""An event that catches errors can be reached by a code."""

from collections.abc import Iterator

from verblint.bpmn.model import Process
from verblint.contracts.contract import WorkflowVerbFields
from verblint.flow.catchers import catchers, throwers
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB414", "error-unreachable", Severity.WARNING, on=("errorEventDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """An event that catches errors can be reached by a code.

    If every verb below it declares its codes, it is known which of them arrive: those that no event nearer to the task
    catches. An event that none of them reaches never happens. Error end events count too.

    Wrong:  a boundary event for the code sanctioned, on a subprocess whose verbs declare no such code
    Right:  the code that they declare, or no event
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is not None:
            yield from _of_process(context, process, verb)


def _of_process(context: Context, process: Process, verb: WorkflowVerbFields) -> Iterator[Finding]:
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
