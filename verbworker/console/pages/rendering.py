"""Renders templates as pages, with every value escaped and every time formatted the same way."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from verblint.contracts.contract import Choice, GateFact, GateInput
from verbworker.client.records import asked_of
from verbworker.console.access.session import LoginSession
from verbworker.contract.text import escape_hidden
from verbworker.runbook.decision_form import choices_of, inputs_of
from verbworker.runbook.facts import show_fact

_MENU = (
    ("/", "Cases"),
    ("/gates", "Tasks"),
    ("/processes", "Processes"),
    ("/incidents", "Incidents"),
    ("/dead-letters", "Dead letters"),
    ("/verbs", "Verbs"),
    ("/load", "Load"),
)
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))

_ASKS = {
    "audience": "Who decides",
    "distinct_from": "Not who decided at",
    "due": "Due",
    "follow_up": "Follow up",
    "form": "Form",
    "four_eyes": "Four eyes",
    "groups": "Groups",
    "priority": "Priority, 50 is normal",
    "users": "People",
}


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """What a person fills in to decide, and the buttons of the decisions."""

    inputs: tuple[GateInput, ...]
    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, detail: Mapping[str, Any]) -> Self:
        """Return the form of a gate."""
        return cls(tuple(inputs_of(detail).values()), tuple(choices_of(detail)))

    def show_inputs(self, values: Mapping[str, object]) -> list[tuple[str, str]]:
        """Return what was filled in, by label and written for people."""
        return [(label_of(one), format_input(one, values[one.name])) for one in self.inputs if one.name in values]

    def label(self, name: str) -> str:
        """Return a decision as its button is called."""
        return next((one.label for one in self.choices if one.name == name and one.label), name)

    def labels(self, names: Sequence[str]) -> str:
        """Return decisions as their buttons are called."""
        return " or ".join(map(self.label, names))


class Rendering:
    """The pages of one console."""

    def __init__(self, *, can_log_out: bool) -> None:
        # Escape everything, regardless of the template's name; an undefined name is an error, not a blank.
        self._environment = Environment(
            loader=PackageLoader("verbworker.console", "pages"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_escape_value,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            moment=moment, iso=iso, ago=ago, seconds=seconds, duration=duration, shown=format_value
        )
        self._environment.filters.update(asks=asks, until=until, form=DecisionForm.of, label=label_of)
        self._environment.globals.update(menu=_MENU, can_log_out=can_log_out)

    def page(
        self,
        name: str,
        session: LoginSession | None,
        *,
        here: str = "",
        live: str = "",
        status: int = 200,
        **values: Any,
    ) -> HTMLResponse:
        """Render one page; `live` is the topic of its event stream."""
        now = datetime.now(UTC)
        template = self._environment.get_template(f"{name}.html")
        text = template.render(session=session, here=here, live=live, now=now, **values)
        return HTMLResponse(text, status)


def _escape_value(value: object) -> object:
    """Show hidden characters of a text as escapes; what a template made of such values is done."""
    return escape_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def moment(at: datetime | None) -> str:
    """Format a time for people."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: datetime | None) -> str:
    """Format a time for machines."""
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds")


def ago(at: datetime | None, now: datetime) -> str:
    """Format the time since `at`, in the largest unit that fits."""
    if at is None:
        return ""
    passed = max(0, int((now - at).total_seconds()))
    for size, unit in _UNITS:
        if passed >= size:
            return f"{passed // size} {unit}"
    return f"{passed} s"


def asks(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a task asks of who decides, in words: when, how urgent, and who may."""
    return [
        (_ASKS.get(name, name.replace("_", " ")), _format_ask(name, value)) for name, value in asked_of(detail).items()
    ]


def label_of(one: GateInput) -> str:
    """Return what an input is called: its label, or its name as words."""
    words = one.name.replace("_", " ").replace("-", " ")
    return one.label or words[:1].upper() + words[1:]


def format_input(one: GateInput, value: object) -> str:
    """Return what was filled in with a decision, written for people."""
    formats = {"amount": "money", "date": "date", "yes/no": "yes/no"}
    return show_fact(GateFact(one.name, one.name, formats.get(one.type, "text"), one.currency), value).items[0].text


def _format_ask(name: str, value: object) -> str:
    if name in ("due", "follow_up"):
        shown = show_fact(GateFact(name, name, "datetime"), value)
    elif isinstance(value, list):
        return ", ".join(map(str, value))
    elif name == "four_eyes":
        return "another person than the one who asked for the case"
    else:
        shown = show_fact(GateFact(name, name), value)
    return ", ".join(item.text for item in shown.items) or shown.note


def until(at: datetime, now: datetime) -> str:
    """Format the time to `at`, or how long it has passed."""
    return f"in {ago(now, at)}" if at >= now else f"{ago(at, now)} late"


def seconds(duration: float | None) -> str:
    """Format a duration with the digits that matter."""
    if duration is None:
        return ""
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"


def duration(length: float | None) -> str:
    """Format a duration of any length in the largest unit that fits, short enough for a picture."""
    if length is None:
        return ""
    if length < 59.95:
        return seconds(length)
    # Nearly an hour is 1.0 h and not 60 min.
    size, unit = next((size, unit) for size, unit in _UNITS if length >= 0.99 * size)
    return f"{length / size:.1f} {unit}" if length < 10 * size and unit != "min" else f"{length / size:.0f} {unit}"


def format_value(value: object) -> str:
    """Format a value of a payload or a schema as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
