"""The Ameide extension and the zeebe extension agree."""

from collections.abc import Iterator

from verblint.bpmn.ameide_schema import extensions
from verblint.bpmn.element import AMEIDE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("AM717", "ameide-drift", Severity.ERROR, on=(AMEIDE,))
def check(context: Context) -> Iterator[Finding]:
    """The Ameide extension and the zeebe extension agree.

    The engine acts on the zeebe elements. Where an Ameide element differs, readers and compilers expect something that
    does not happen.

    Wrong:  ameide:taskDefinition type="kyc.close-case" beside zeebe:taskDefinition type="kyc.request-documents"
    Right:  the same type in both
    """
    for process in context.model.processes:
        for definition in extensions(process.element, "workflowDefinition"):
            kind = definition.attribute("workflowType")
            if kind is not None and kind.value != process.id:
                message = f"workflowType is {kind.value}, and the process is {process.id}"
                yield context.at(
                    kind.place, message, hint=f"Write {process.id}, or leave it out", detail="workflowType"
                )
        for _, node in process.walk():
            headers = {header.key: header.value for header in node.binding.headers}
            for definition in extensions(node.element, "taskDefinition"):
                kind = definition.attribute("type")
                if kind is not None and node.binding.type is not None and kind.value != node.binding.type.text:
                    message = f"the type is {kind.value} here and {node.binding.type.text} for the engine"
                    yield context.at(kind.place, message, hint=f"Write {node.binding.type.text}", detail="type")
            for header in (
                h for group in extensions(node.element, "taskHeaders") for h in group.find_all("header", AMEIDE)
            ):
                key, text = header.get("key") or "", header.get("value") or ""
                if headers.get(key, text) != text:
                    message = f"the header {key} is {text!r} here and {headers[key]!r} for the engine"
                    yield context.at(header, message, hint=f"Write {headers[key]}", detail=f"header {key}")
