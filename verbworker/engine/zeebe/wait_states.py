"""What an instance waits for, as Camunda 8.10 lists it: jobs, messages, user tasks, timers, signals and conditions.

By its OpenAPI document alone: no cluster that offers this search was recorded. It is a search, so it may lag.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from verbworker.errors import EngineUnavailable

WAIT_STATES_SINCE: Final = (8, 10, 0)
_PATH: Final = "/element-instances/wait-states/search"


class Pages(Protocol):
    """The part of a REST client that searches."""

    def pages(
        self, path: str, body: Mapping[str, Any], *, what: str, limit: int = 100
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of a search, page by page."""


@dataclass(frozen=True, slots=True)
class WaitState:
    """One thing that one element of an instance waits for."""

    element_id: str
    element_instance_key: int
    element_type: str
    kind: str  # JOB, MESSAGE, USER_TASK, TIMER, SIGNAL or CONDITION
    job_key: int | None = None
    job_type: str | None = None
    message_name: str | None = None
    correlation_key: str | None = None
    due: datetime | None = None


async def search_wait_states(rest: Pages, instance_key: int) -> list[WaitState]:
    """Return what an instance waits for; raises `EngineError` from a cluster without this search."""
    body = {"filter": {"processInstanceKey": str(instance_key)}}
    found = rest.pages(_PATH, body, what="the search for wait states")
    try:
        return [_read(item) async for item in found]
    except (KeyError, TypeError, ValueError) as error:
        raise EngineUnavailable("Zeebe answered the search for wait states with something unreadable") from error


def _read(item: Mapping[str, Any]) -> WaitState:
    details = item["details"]
    job_key = details.get("jobKey")
    return WaitState(
        element_id=str(item["elementId"]),
        element_instance_key=int(item["elementInstanceKey"]),
        element_type=str(item["elementType"]),
        kind=str(details["waitStateType"]),
        job_key=None if job_key is None else int(job_key),
        job_type=details.get("jobType"),
        message_name=details.get("messageName"),
        correlation_key=details.get("correlationKey"),
        due=_moment(details.get("dueDate")),
    )


def _moment(value: object) -> datetime | None:
    """Return a due date: a user task has it as text, a timer as milliseconds."""
    if value is None:
        return None
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    return datetime.fromisoformat(str(value))
