"""Every reference leads to an element of the right kind."""

from collections.abc import Iterator

from verblint.bpmn.references import dangling_references
from verblint.names import suggestion
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB010", "dangling-reference", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """Every reference leads to an element of the right kind.

    A flow that leads nowhere, a default that is not a flow of its gateway, an event attached to nothing: an engine
    refuses the model or, worse, takes an error event without its error for one that catches every error.

    Wrong:  <sequenceFlow sourceRef="ask" targetRef="nowhere" />
    Right:  <sequenceFlow sourceRef="ask" targetRef="end" />
    """
    for reference in dangling_references(context.model):
        message = f"{reference.name} refers to {reference.target or 'nothing'}, which is not {reference.wanted}"
        hint = suggestion(reference.target, reference.candidates).replace("Remove it", f"Name {reference.wanted}")
        yield context.at(reference.place, message, hint=hint, detail=f"{reference.name} {reference.target}")
