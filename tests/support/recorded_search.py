"""A cluster's searches with what a real 8.9.17 answered: the recorded items, found by key and state as there."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.rest_replay import Answer, RestServer, Seen, problem, recorded, replayed, rest_server

WORK, GATEWAY, MAIL, NATIVE = 2251799813685355, 2251799813685366, 2251799813685393, 2251799813685319
CANCELLED = 2251799813685339
NO_RETRIES, UNHANDLED, CONDITION = 2251799813685363, 2251799813685365, 2251799813685377
JOB = 2251799813685360

_COLLECTIONS = {
    "/v2/incidents/search": "incidents",
    "/v2/process-instances/search": "instances",
    "/v2/jobs/search": "jobs",
    "/v2/user-tasks/search": "user_tasks",
    "/v2/element-instances/search": "elements",
    "/v2/message-subscriptions/search": "subscriptions",
}


def recorded_item(name: str) -> dict[str, Any]:
    """The only item that a recorded search found."""
    (exchange,) = [one for one in recorded() if one.name == name]
    item: dict[str, Any] = exchange.response["items"][0]
    return item


@dataclass(slots=True)
class RecordedCluster:
    """What the cluster has now, and what was said to it. A test moves items in and out, as exporters do, late."""

    incidents: list[dict[str, Any]] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    user_tasks: list[dict[str, Any]] = field(default_factory=list)
    elements: list[dict[str, Any]] = field(default_factory=list)
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    refusal: Answer | None = None
    server: RestServer | None = None

    def answer(self, seen: Seen) -> Answer:
        """Answer a search from the items, anything else as it was recorded."""
        if self.refusal is not None:
            return self.refusal
        collection = _COLLECTIONS.get(seen.path)
        if collection is None:
            assert self.server is not None
            known = [one for one in recorded() if (one.method, one.path) == (seen.method, seen.path)]
            said = [one for one in self.server.seen if (one.method, one.path) == (seen.method, seen.path)]
            return replayed(known[min(len(said), len(known)) - 1]) if known else problem(404, "NOT_FOUND")
        wanted = seen.json().get("filter", {})
        items = [one for one in getattr(self, collection) if _matches(one, wanted)]
        page = {"totalItems": len(items), "hasMoreTotalItems": False, "startCursor": None, "endCursor": None}
        return Answer(200, json.dumps({"page": page, "items": items}).encode())

    def asked(self, path: str) -> list[Any]:
        """The bodies of the requests to a path."""
        assert self.server is not None
        return [one.json() for one in self.server.seen if one.path == path]


def _matches(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_holds(item.get(name), value) for name, value in wanted.items())


def _holds(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if "$in" in wanted:
        return value in wanted["$in"]
    return value is not None and value >= wanted["$gte"]


@contextmanager
def recorded_cluster() -> Iterator[RecordedCluster]:
    """Serve a cluster without items; its address is `server.url`."""
    cluster = RecordedCluster()
    with rest_server(cluster.answer) as server:
        cluster.server = server
        yield cluster
