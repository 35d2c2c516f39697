"""The open tasks of a tenant as one person sees them: views, filters, orders and pages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from verbworker.contract.person import Person
from verbworker.stores.database import Database, Row
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query


class TaskView(StrEnum):
    """Which open tasks a list has."""

    MINE = "mine"  # claimed by the person, or free and for one of their roles
    CLAIMED = "claimed"
    ALL = "all"


class TaskOrder(StrEnum):
    """The order of a list; what the person claimed comes first in each."""

    DUE = "due"
    PRIORITY = "priority"
    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a list is limited to. `until` is the first moment that is not included."""

    view: TaskView = TaskView.MINE
    gate: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    order: TaskOrder = TaskOrder.DUE


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """The place of a task in a list, for the page that starts after it."""

    is_own: bool
    place: float
    opened_at: datetime
    token_id: UUID


@dataclass(frozen=True, slots=True)
class ListedTask:
    """One open task of a list."""

    token_id: UUID
    entry_id: UUID
    gate: str
    reason: str
    detail: Mapping[str, Any]
    claimed_by: str | None
    claimed_by_id: UUID | None
    claimed_at: datetime | None
    opened_at: datetime
    task_due: datetime | None
    priority: int
    sentence: str | None
    verb: str | None
    is_own: bool
    place: float

    @property
    def key(self) -> TaskPlace:
        """Return the start of the next page."""
        return TaskPlace(self.is_own, self.place, self.opened_at, self.token_id)


class TaskList:
    """The open tasks of every tenant. `roles` are those that count for the person; None means any."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        tenant_id: str,
        person: Person,
        roles: list[str] | None,
        wanted: TaskFilter,
        *,
        after: TaskPlace | None = None,
        limit: int,
    ) -> list[ListedTask]:
        """Return the first tasks of a list, or those after a place."""
        text = None if wanted.text is None else f"%{_escape_wild(wanted.text)}%"
        filters = wanted.view, wanted.gate, text, wanted.since, wanted.until, wanted.order
        place = (None,) * 4 if after is None else (after.is_own, after.place, after.opened_at, after.token_id)
        who = tenant_id, person.name, person.person_id, roles
        return [_task(row) for row in await self._database.fetch(query("tasks", "page"), *who, *filters, *place, limit)]

    async def counts(self, tenant_id: str, person: Person, roles: list[str] | None) -> dict[TaskView, int]:
        """Return how many open tasks each view has."""
        row = await self._database.fetchrow(query("tasks", "counts"), tenant_id, person.name, person.person_id, roles)
        assert row is not None, "an aggregate has one row"
        return {view: row[view.value] for view in TaskView}

    async def gates(self, tenant_id: str) -> list[str]:
        """Return the names of the gates that open tasks are at."""
        return [row["gate"] for row in await self._database.fetch(query("tasks", "gates"), tenant_id)]


def _escape_wild(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _task(row: Row) -> ListedTask:
    return value_of(ListedTask, row, detail=json.loads(row["detail"]))
