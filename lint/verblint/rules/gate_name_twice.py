"""Every gate has its own name."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.model import NodeKind
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM724", "gate-name-twice", Severity.ERROR, on=("updateDefinition",))
def check(context: Context) -> Iterator[Finding]:
    """Every gate has its own name.

    A decision is sent to a gate by its name, which is `Update_` and the id of the user task unless an updateDefinition
    gives another. Two gates of one name would compete for one decision.

    Wrong:  two user tasks with <ameide:updateDefinition name="Update_Review" />
    Right:  Update_Review and Update_SecondReview
    """
    for process in context.model.processes:
        seen: set[str] = set()
        for _, node in process.walk():
            if node.kind is not NodeKind.USER_TASK:
                continue
            given = [update.get("name") for update in extensions(node.element, "updateDefinition")]
            name = next((text for text in given if text), f"Update_{node.id}")
            if name in seen:
                message = f"another gate is called {name}"
                yield context.at(node.element, message, hint="Give it another name in its updateDefinition")
            seen.add(name)
