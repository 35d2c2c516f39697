"""A condition reads neither the payload nor its hash."""

from collections.abc import Iterator

from verblint.feel.syntax_errors import PAYLOAD
from verblint.report.finding import Finding, Severity
from verblint.report.refusal import refused_conditions
from verblint.rule import Context, rule


@rule(PAYLOAD, "condition-reads-payload", Severity.ERROR, on=(PAYLOAD,))
def check(context: Context) -> Iterator[Finding]:
    """A condition reads neither the payload nor its hash.

    `domain_payload` is one opaque string to the engine. A branch on it breaks with the next change of the schema,
    and hides a decision of the domain in the diagram. Backticks, comments and invisible characters do not help.

    Wrong:  =contains(domain_payload, "approved")
    Right:  =orch_outcome = "approved"
    """
    return refused_conditions(context)
