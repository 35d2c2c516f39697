"""Before engine 8.8, a user task is a job."""

from collections.abc import Iterator

from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, engine_marks, rule


@rule("HB510", "native-user-task", Severity.ERROR, on=engine_marks(lambda version: version < (8, 8)))
def check(context: Context) -> Iterator[Finding]:
    """Before engine 8.8, a user task is a job.

    The runtime learns of a native user task through a task listener, which older engines do not have. The process would
    wait there, and no person would be asked.

    Wrong:  <userTask id="Review"> with <zeebe:userTask /> and engine 8.6
    Right:  <userTask id="Review" />
    """
    if context.settings.engine_version >= (8, 8):
        return
    for process in context.model.processes:
        for _, node in process.walk():
            if node.kind is NodeKind.USER_TASK and node.binding.is_user_task:
                message = (
                    f"the user task is native, and engine {context.settings.engine} does not tell the runtime of it"
                )
                yield context.at(node.element, message, hint="Remove <zeebe:userTask />, or set the engine to 8.8")
