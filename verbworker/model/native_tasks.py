"""Native user tasks of a deployed model: they report to the runtime, and let no variable out.

The linter's `engine` setting decides. From 8.8 on a task with `zeebe:userTask` is native and gets task listeners;
without it, and before 8.8, a user task is a job.
"""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode, NodeKind, Process
from verblint.bpmn.zeebe_schema import Version
from verblint.fixes.insertions import into_group
from verblint.names import OWN_JOBS
from verblint.report import Edit
from verbworker.errors import Refused
from verbworker.job.job import ENTRY_ID

CREATING = f"{OWN_JOBS}task.creating"
ASSIGNING = f"{OWN_JOBS}task.assigning"
COMPLETING = f"{OWN_JOBS}task.completing"
CANCELING = f"{OWN_JOBS}task.canceling"

DECISION = "decision"
REASON = "reason"
INPUTS = "inputs"
"""The variables in which a task list tells what a person decided; they stay local to the task."""

_LISTENERS = (
    ("creating", CREATING),
    ("assigning", ASSIGNING),
    ("completing", COMPLETING),
    ("canceling", CANCELING),
)
_FIRST_ENGINE = (8, 8)  # the first with task listeners; older ones refuse a model that has them


def is_native(node: FlowNode) -> bool:
    """Return whether the engine keeps the user task itself, instead of making a job of it."""
    return node.kind is NodeKind.USER_TASK and node.binding.is_user_task


def refuse_unheard(process: Process, engine: Version) -> None:
    """Reject native user tasks for an engine that does not report them: they would wait forever."""
    for _, node in process.walk(NodeKind.USER_TASK):
        if is_native(node) and engine < _FIRST_ENGINE:
            raise Refused(
                f"line {node.element.line} has the user task {node.id} with zeebe:userTask, which engine"
                f" {engine[0]}.{engine[1]} does not report; remove zeebe:userTask, and the task becomes a job"
            )


def hear_tasks(process: Process, retries: int) -> Iterator[Edit]:
    """Add task listeners to every native user task, and the mapping that keeps what a task list sends local."""
    for _, node in process.walk(NodeKind.USER_TASK):
        if is_native(node):
            yield into_group(node.element, "taskListeners", lambda namespace: _lines(namespace, retries))
            yield into_group(node.element, "ioMapping", _nothing_out)


def _lines(namespace: str, retries: int) -> str:
    return "".join(
        f'<zeebe:taskListener{namespace} eventType="{event}" type="{job_type}" retries="{retries}"/>'
        for event, job_type in _LISTENERS
    )


def _nothing_out(namespace: str) -> str:
    # With an output mapping, the engine keeps all other variables of a completion local to the task. This one writes a
    # variable its own value; the completing listener denies a completion that brings another value.
    return f'<zeebe:output{namespace} source="={ENTRY_ID}" target="{ENTRY_ID}"/>'
