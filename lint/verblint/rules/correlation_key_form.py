"""A correlation key is one variable; its name is `corr_` and lower-case words."""

from collections.abc import Iterator

from verblint.bpmn.binding import find_attribute
from verblint.bpmn.element import ZEEBE
from verblint.flow.message_waits import correlation_name
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB502", "correlation-key-form", Severity.ERROR, on=("subscription",))
def check(context: Context) -> Iterator[Finding]:
    """A correlation key is one variable; its name is `corr_` and lower-case words.

    The runtime writes these variables once, before the wait, and never again. A path or a computation reads domain
    data, and a key that changes while the process waits is a message that never arrives.

    Wrong:  <zeebe:subscription correlationKey="=case.id" />
    Right:  <zeebe:subscription correlationKey="=corr_case" />
    """
    for element in context.every("subscription", namespace=ZEEBE):
        key = find_attribute(element, "correlationKey")
        if key is None or correlation_name(key) is None:
            message = (
                f"the correlation key is {key.text[:40]!r}" if key is not None else "the correlation key is missing"
            )
            yield context.at(key or element, message, hint="Write =corr_<name>, declared under correlation.keys")
