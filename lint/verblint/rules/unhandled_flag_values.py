"""The conditions of a gateway without a default flow cover every value of their flags."""

from collections.abc import Iterator, Mapping

from verblint.feel.condition import Value
from verblint.flow.branching import decisions_without_default
from verblint.report.finding import Finding, Severity
from verblint.rule import CONTRACTS, Context, rule

_SHOWN = 3


@rule("HB219", "unhandled-flag-values", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """The conditions of a gateway without a default flow cover every value of their flags.

    The contract defines which values a flag can have, so the linter tries them all. A value for which no condition
    holds stops the instance with an incident on the day it first occurs.

    Wrong:  flows for "approved" and "rejected", and the flag may also be "more-info"
    Right:  a third flow for "more-info", or a default flow
    """
    for decision in decisions_without_default(context):
        unhandled = decision.find_gaps(context.contracts.of_process(decision.process.id))
        if not unhandled:
            continue
        shown = "; ".join(_describe_case(case) for case in unhandled[:_SHOWN])
        more = f"; and {len(unhandled) - _SHOWN} more" if len(unhandled) > _SHOWN else ""
        message = f"no flow can be taken when {shown}{more}"
        yield context.at(decision.gateway.element, message, hint="Draw a flow for it, or name a default flow")


def _describe_case(case: Mapping[str, Value]) -> str:
    return " and ".join(f"{name} is {_format_value(value)}" for name, value in case.items())


def _format_value(value: Value) -> str:
    if value == "\0":
        return "any other text"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
