"""The root of a model is the definitions element of BPMN."""

from collections.abc import Iterator

from verblint.bpmn.element import BPMN
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB013", "not-definitions", Severity.ERROR)
def check(context: Context) -> Iterator[Finding]:
    """The root of a model is the definitions element of BPMN.

    Another root is another kind of file, or BPMN under a namespace that no engine knows.

    Wrong:  <definitions xmlns="http://www.omg.org/spec/DMN/20180521/MODEL/">
    Right:  <definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL">
    """
    if not context.root.is_a("definitions"):
        found = f"{{{context.root.namespace}}}{context.root.local}"
        yield context.at(
            context.root, f"the root element is {found}", hint=f"Write definitions of the namespace {BPMN}"
        )
