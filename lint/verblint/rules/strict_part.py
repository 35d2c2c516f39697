"""With the setting `strict-v1` nothing of the extension is left to a default."""

from collections.abc import Iterator

from verblint.ameide_schema import extensions
from verblint.finding import Finding, Severity
from verblint.model import Kind
from verblint.naming import described
from verblint.rule import STRICT_V1, Context, rule

_PARTS = {
    Kind.SERVICE_TASK: ("taskHeaders", "ioMapping"),
    Kind.SEND_TASK: ("taskHeaders", "ioMapping"),
    Kind.USER_TASK: ("updateDefinition",),
}


@rule("AM752", "strict-part", Severity.ERROR, on=(STRICT_V1,))
def check(context: Context) -> Iterator[Finding]:
    """With the setting `strict-v1` nothing of the extension is left to a default.

    A file has one process, and the process one end. Tasks have headers and a mapping, even when they are empty, and
    user tasks an update definition called `Update_` and their id.

    Wrong:  <userTask id="Review" /> with strict-v1 = true
    Right:  <userTask id="Review"> with <ameide:updateDefinition name="Update_Review" />
    """
    for process in context.model.processes if context.settings.strict_v1 else ():
        ends = [node for node in process.scope.nodes if node.kind is Kind.END_EVENT]
        if len(ends) != 1 or len(context.model.processes) != 1:
            message = f"the file has {len(context.model.processes)} processes, and this one {len(ends)} ends"
            yield context.at(process.element, message, hint="Keep one process with one endEvent")
        for _, node in process.walk():
            for part in _PARTS.get(node.kind, ()):
                if not extensions(node.element, part):
                    message = f"the {described(node.element)} has no {part}"
                    yield context.at(node.element, message, hint=f"Add an ameide:{part}", detail=part)
            for update in extensions(node.element, "updateDefinition"):
                if update.get("name") != f"Update_{node.id}":
                    message = f"the update of {node.id} is called {update.get('name')}"
                    yield context.at(update, message, hint=f'Write name="Update_{node.id}"', detail="name")
