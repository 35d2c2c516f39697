"""Renders templates as pages, with every value escaped and every time formatted the same way."""

import json
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from verbworker.console.access.session import LoginSession
from verbworker.contract.text import escape_hidden

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
