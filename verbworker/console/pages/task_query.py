"""The address of a list of tasks: its view, filters, order and page. A saved list is its address."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from verbworker.stores.cases.tasks import TaskFilter, TaskOrder, TaskPlace, TaskView

FIELDS = ("view", "gate", "q", "from", "to", "sort")
_LONGEST = 200  # characters of a field
_MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """What an address asks for: its fields as they are, the filter that they make, and what is wrong with them."""

    fields: Mapping[str, str]
    wanted: TaskFilter
    trouble: tuple[str, ...] = ()
    after: TaskPlace | None = field(default=None)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read the fields of an address; a wrong one is left out and named."""
        fields = {name: given[name] for name in FIELDS if given.get(name)}
        trouble: list[str] = []
        days = {name: _day(fields.get(name, ""), trouble) for name in ("from", "to")}
        until = days["to"]
        wanted = TaskFilter(
            TaskView(fields["view"]) if fields.get("view") in set(TaskView) else TaskView.MINE,
            fields.get("gate"),
            fields.get("q"),
            days["from"],
            None if until is None else until + timedelta(days=1),
            TaskOrder(fields["sort"]) if fields.get("sort") in set(TaskOrder) else TaskOrder.DUE,
        )
        return cls(fields, wanted, tuple(trouble), _place(given.get("after", "")))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read the fields as a form carries them along; what cannot be read is left out."""
        try:
            given = dict(parse_qsl(text[: _LONGEST * _MOST_FIELDS], max_num_fields=_MOST_FIELDS))
        except ValueError:
            given = {}
        return cls.of({name: value[:_LONGEST] for name, value in given.items() if "\0" not in value})

    @property
    def text(self) -> str:
        """Return the fields as the query of an address."""
        return urlencode(self.fields)

    def link(self, path: str = "/gates", **changes: str) -> str:
        """Return the address of a page with these fields and some changes, always from its beginning."""
        given = {**self.fields, **changes}
        text = urlencode({name: value for name, value in given.items() if value})
        return f"{path}?{text}" if text else path

    def link_after(self, place: TaskPlace) -> str:
        """Return the address of the page that starts after a place."""
        own = "own" if place.is_own else "free"
        at = place.opened_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return self.link(after=f"{own}~{place.place!r}~{at}~{place.token_id}")


def _day(text: str, trouble: list[str]) -> datetime | None:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else None
    except ValueError:
        day = None
    if text and (day is None or not 1970 <= day.year <= 9000):
        trouble.append(f"{text} is no day; write it as 2030-01-31")
        return None
    return day


def _place(text: str) -> TaskPlace | None:
    """Return the place that a page starts after; None for the first page and for what is no place."""
    own, place, at, token = (text.split("~") + [""] * 4)[:4]
    try:
        found = TaskPlace(own == "own", float(place), datetime.fromisoformat(at), UUID(token))
    except ValueError:
        return None
    return None if math.isnan(found.place) or found.opened_at.tzinfo is None else found
