"""The search for wait states of 8.10, by its OpenAPI document."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from verbworker.engine.zeebe.wait_states import WaitState, search_wait_states
from verbworker.errors import EngineUnavailable


class Pages:
    """A client that finds these items."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self._items = items
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def pages(
        self, path: str, body: Mapping[str, Any], *, what: str, limit: int = 100
    ) -> AsyncIterator[dict[str, Any]]:
        self.asked.append((path, body))
        for item in self._items:
            yield item


def item(**details: Any) -> dict[str, Any]:
    return {"elementId": "wait", "elementInstanceKey": "7", "elementType": "RECEIVE_TASK", "details": details}


@pytest.mark.parametrize(
    ("details", "found"),
    [
        (
            {"waitStateType": "MESSAGE", "messageName": "papers", "correlationKey": "c-1"},
            {"kind": "MESSAGE", "message_name": "papers", "correlation_key": "c-1"},
        ),
        (
            {"waitStateType": "JOB", "jobKey": "9", "jobType": "kyc.check", "retries": 3},
            {"kind": "JOB", "job_key": 9, "job_type": "kyc.check"},
        ),
        (
            {"waitStateType": "TIMER", "dueDate": 1_700_000_000_000, "repetitions": 1},
            {"kind": "TIMER", "due": datetime.fromtimestamp(1_700_000_000, UTC)},
        ),
        (
            {"waitStateType": "USER_TASK", "taskKey": "8", "dueDate": "2026-11-18T04:00:00Z"},
            {"kind": "USER_TASK", "due": datetime(2026, 11, 18, 4, tzinfo=UTC)},
        ),
        ({"waitStateType": "SIGNAL", "signalName": "s"}, {"kind": "SIGNAL"}),
    ],
)
async def test_a_wait_is_read_by_its_kind(details: dict[str, Any], found: dict[str, Any]) -> None:
    rest = Pages(item(**details))

    assert await search_wait_states(rest, 5) == [WaitState("wait", 7, "RECEIVE_TASK", **found)]
    assert rest.asked == [("/element-instances/wait-states/search", {"filter": {"processInstanceKey": "5"}})]


@pytest.mark.parametrize("broken", [{}, {"elementId": "x"}, item(waitStateType="TIMER", dueDate="soon")])
async def test_an_answer_that_cannot_be_read_is_an_outage(broken: dict[str, Any]) -> None:
    with pytest.raises(EngineUnavailable, match="wait states"):
        await search_wait_states(Pages(broken), 5)
