"""A model names no secrets and no cluster variables."""

from collections.abc import Iterator

from verblint.bpmn.places import values_with
from verblint.report.finding import Finding, Severity
from verblint.rule import Context, rule
from verblint.startup.pattern import pattern

_SECRET = pattern(r"\bsecrets\s*\.|\bcamunda\s*\.\s*(?:vars|secrets)\b")


@rule("HB123", "secret", Severity.ERROR, words=("secrets", "vars"))
def check(context: Context) -> Iterator[Finding]:
    """A model names no secrets and no cluster variables.

    Connectors and engines resolve secrets, outside of every verb. A verb takes them from its own configuration, where
    they do not show in a diagram.

    Wrong:  <zeebe:header key="token" value="{{secrets.API_TOKEN}}" />
    Right:  a verb that reads its configuration
    """
    for value in values_with(context, _names_secret, "secrets", "vars"):
        message = f"the value {value.text[:40]!r} refers to a secret or a cluster variable"
        yield context.at(value, message, hint="Remove it: verbs have their own configuration", detail=value.text)


def _names_secret(text: str) -> bool:
    return _SECRET.search(text) is not None
