"""The search for wait states of 8.10, by its OpenAPI document."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from verbworker.engine.protocol import ActiveElement
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.engine.zeebe.search import Search
from verbworker.errors import EngineUnavailable


class Pages:
    """A client that finds these items."""

    has_address = True

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
    ("details", "message"),
    [
        ({"waitStateType": "MESSAGE", "messageName": "papers", "correlationKey": "c-1"}, ("papers", "c-1")),
        ({"waitStateType": "JOB", "jobKey": "9", "jobType": "kyc.check", "retries": 3}, (None, None)),
        ({"waitStateType": "TIMER", "dueDate": 1_700_000_000_000, "repetitions": 1}, (None, None)),
    ],
)
async def test_what_an_element_waits_for_is_read(details: dict[str, Any], message: tuple[Any, Any]) -> None:
    rest = Pages(item(**details))
    found = await Search(cast(RestClient, rest)).waits(5, by_wait_states=True)

    assert found == [ActiveElement("wait", 7, "RECEIVE_TASK", None, *message)]
    assert rest.asked == [("/element-instances/wait-states/search", {"filter": {"processInstanceKey": "5"}})]


@pytest.mark.parametrize("broken", [{}, {"elementId": "x"}])
async def test_an_answer_that_cannot_be_read_is_an_outage(broken: dict[str, Any]) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be read"):
        await Search(cast(RestClient, Pages(broken))).waits(5, by_wait_states=True)
