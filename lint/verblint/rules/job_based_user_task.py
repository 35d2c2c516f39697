"""From engine 8.10 on, a user task is native."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, engine_marks, rule


@rule("HB509", "job-based-user-task", Severity.ERROR, on=engine_marks(lambda version: version >= (8, 10)))
def check(context: Context) -> Iterator[Finding]:
    """From engine 8.10 on, a user task is native.

    Up to 8.9 a user task without `zeebe:userTask` is a job, which the runtime takes as the sign that a person is asked.
    8.10 no longer creates such jobs.

    Wrong:  <userTask id="Review" /> with engine 8.10
    Right:  <userTask id="Review"> with <zeebe:userTask />
    """
    if context.settings.engine_version < (8, 10):
        return
    for process in context.model.processes:
        for _, node in process.walk():
            if node.kind is NodeKind.USER_TASK and not node.binding.is_user_task:
                message = f"the user task is a job, which engine {context.settings.engine} no longer makes"
                yield context.at(node.element, message, hint="Add <zeebe:userTask /> to its extensionElements")
