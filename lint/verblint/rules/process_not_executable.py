"""A process that is drawn is executable."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import NOT_EXECUTABLE, Context, rule


@rule("HB602", "process-not-executable", Severity.WARNING, on=(NOT_EXECUTABLE,))
def check(context: Context) -> Iterator[Finding]:
    """A process that is drawn is executable.

    The engine does not deploy a process without `isExecutable="true"`. In a file with several processes it may be there
    only for the reader; often the attribute was forgotten.

    Wrong:  <process id="kyc-open-case">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    for process in context.model.processes:
        if not process.is_executable and context.model.executable:
            message = f"the process {process.id} is not executable and will not be deployed"
            yield context.at(
                process.element, message, hint='Write isExecutable="true", or move it to a file of its own'
            )
