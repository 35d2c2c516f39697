"""A process has no more service tasks than the settings allow."""

from collections.abc import Iterator

from verblint.flow.job_nodes import jobs
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB601", "too-many-service-tasks", Severity.WARNING, on=("serviceTask", "sendTask", "messageEventDefinition"))
def check(context: Context) -> Iterator[Finding]:
    """A process has no more service tasks than the settings allow.

    A long process is hard to read, hard to change while instances run, and often two processes that grew together. The
    limit is 15 unless the settings set another; send tasks and events that throw a message count as well.

    Wrong:  a process with 40 service tasks
    Right:  several workflow verbs that hand over by message
    """
    limit = context.settings.service_tasks
    for process in context.model.processes:
        count = len(list(jobs(process)))
        if count > limit:
            message = f"the process has {count} service tasks; {limit} is the most"
            yield context.at(process.element, message, hint="Split it into verbs that hand over by message")
