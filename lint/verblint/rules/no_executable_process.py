"""A file has at least one executable process."""

from collections.abc import Iterator

from verblint.report.finding import Finding, Severity
from verblint.rule import NOT_EXECUTABLE, Context, rule


@rule("HB012", "no-executable-process", Severity.ERROR, on=(NOT_EXECUTABLE,))
def check(context: Context) -> Iterator[Finding]:
    """A file has at least one executable process.

    An engine refuses a file in which there is nothing to execute.

    Wrong:  <process id="kyc-open-case">
    Right:  <process id="kyc-open-case" isExecutable="true">
    """
    if not context.model.executable:
        first = context.model.processes[0].element if context.model.processes else context.root
        yield context.at(first, "the file has no executable process", hint='Write isExecutable="true" on the process')
