"""A verb whose errors are caught declares the codes it may end with."""

from collections.abc import Iterator

from verblint.flow.catchers import throwers
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB415", "verb-without-errors", Severity.WARNING, on=("errorEventDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """A verb whose errors are caught declares the codes it may end with.

    Without them it cannot be checked whether the events of the model catch what the verb throws: a misspelt code is
    found when a case stops with an incident. A verb that throws none declares an empty list.

    Wrong:  an error boundary event on a task, and no errors of its verb in the contract
    Right:  errors: {invoice.book: [policy-lapsed]}, and errors=("policy-lapsed",) where the verb is registered
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None:
            continue
        for thrower in throwers(context.model, process):
            name = thrower.node.binding.job_type
            catcher = next(thrower.catchers, None)
            if catcher is not None and name in verb.sub_verbs and name not in verb.errors:
                message = f"{name} does not declare its error codes, and {catcher.event.id} catches errors over it"
                hint = f"Add {name} to errors of {verb.name}, with its codes or an empty list"
                yield context.at(thrower.node.binding.type or thrower.node.element, message, hint=hint)
