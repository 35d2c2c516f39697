"""A code that is caught at a task is one that its verb declares."""

from collections.abc import Iterator

from verblint.flow.catchers import throwers
from verblint.names import nearest
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB412", "error-undeclared", Severity.ERROR, on=("errorEventDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """A code that is caught at a task is one that its verb declares.

    A verb that declares its codes ends with no other: the runtime turns any other code into an incident, so this event
    never happens. Perhaps the code is misspelt.

    Wrong:  errors: {invoice.book: [policy-lapsed]}, and a boundary event on its task for the code policy-lapse
    Right:  a boundary event for the code policy-lapsed
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None:
            continue
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
