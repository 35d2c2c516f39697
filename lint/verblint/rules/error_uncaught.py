"""Every code that a verb declares is caught where the verb is called."""

from collections.abc import Iterator

from verblint.flow.catchers import Thrower, throwers
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule


@rule("HB413", "error-uncaught", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """Every code that a verb declares is caught where the verb is called.

    A code is thrown only where the model catches it: at the task, at a subprocess around it, or by an error event
    subprocess. Without that the case stops with an incident, and a person has to look. From inside an event subprocess
    that interrupts its scope, engines do not look outside it, and a message event cannot throw a code.

    Wrong:  errors: {invoice.book: [policy-lapsed]}, and no error event at its task or around it
    Right:  an error boundary event for policy-lapsed on the task or on the subprocess around it
    """
    for process in context.model.processes:
        verb = context.contracts.of_process(process.id)
        if verb is None or not verb.errors:
            continue
        for thrower in throwers(context.model, process):
            name = thrower.node.binding.job_type
            for code in verb.errors.get(name, ()):
                if thrower.catcher(code) is None:
                    message = f"{name} may end with the code {code}, and nothing catches it"
                    yield context.at(thrower.node.element, message, hint=_hint(thrower, code), detail=code)


def _hint(thrower: Thrower, code: str) -> str:
    if not thrower.hosts:
        return "Make it a task: engines take no code from an event"
    return f"Add an error boundary event for {code} to {' or '.join(thrower.hosts)}"
