"""A header holds no address."""

from collections.abc import Iterator

from verblint.bpmn.element import ZEEBE
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule


@rule("HB311", "header-endpoint", Severity.ERROR, on=("header",))
def check(context: Context) -> Iterator[Finding]:
    """A header holds no address.

    Addresses differ between environments, and a model is the same in all of them. The address to call is configuration
    of the verb.

    Wrong:  <zeebe:header key="url" value="https://api.example.com" />
    Right:  <zeebe:header key="letter" value="reminder" />
    """
    for element in context.every("header", namespace=ZEEBE):
        value = element.attribute("value")
        if value is not None and "://" in value.value:
            key = element.get("key") or ""
            message = f"the header {key} holds the address {value.value[:40]}"
            yield context.at(value.place, message, hint="Move it to the configuration of the verb", detail=key)
