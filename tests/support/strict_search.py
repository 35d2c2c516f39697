"""A cluster that takes only the search requests its version documents, and refuses others as a real one does.

The table below is what the OpenAPI documents of 8.8, 8.9 and 8.10 say about the fields that we filter by. Items are the
recorded ones of 8.9.17; they are filtered, sorted and paged here.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.recorded_search import RecordedCluster, recorded_item
from tests.support.rest_replay import Answer, RestServer, Seen, problem, rest_server

VERSIONS = ("8.8", "8.9", "8.10")
LARGEST_PAGE = 10_000

# For each search the fields we use, and the versions that take operators such as $in for it; all take a plain value.
_OPERATORS: dict[str, dict[str, tuple[str, ...]]] = {
    "/v2/incidents/search": {"processInstanceKey": ("8.9", "8.10"), "state": ("8.9", "8.10")},
    "/v2/process-instances/search": {"processInstanceKey": VERSIONS, "state": VERSIONS, "endDate": VERSIONS},
    "/v2/jobs/search": {"processInstanceKey": VERSIONS, "state": VERSIONS},
    "/v2/user-tasks/search": {"processInstanceKey": ("8.10",), "state": VERSIONS},
    "/v2/element-instances/search": {"processInstanceKey": (), "state": VERSIONS},
    "/v2/message-subscriptions/search": {"processInstanceKey": VERSIONS, "messageSubscriptionState": VERSIONS},
}
_SORTED_BY = {"/v2/process-instances/search": ("processInstanceKey", "endDate")}
_PAGES = ({"limit"}, {"limit", "after"}, {"limit", "from"}, {"limit", "before"})
_COLLECTIONS = {
    "/v2/incidents/search": "incidents",
    "/v2/process-instances/search": "instances",
    "/v2/jobs/search": "jobs",
    "/v2/user-tasks/search": "user_tasks",
    "/v2/element-instances/search": "elements",
    "/v2/message-subscriptions/search": "subscriptions",
}

Forbids = Callable[[str, Mapping[str, Any]], str | None]
"""What a test adds: the property of a search's body that is refused, or None."""


@dataclass(slots=True)
class StrictCluster:
    """The searches of one version over items that a test moves in and out."""

    version: str
    items: RecordedCluster = field(default_factory=RecordedCluster)
    forbids: Forbids = lambda path, body: None
    refusal: Answer | None = None  # of what is forbidden, if not that of a property that is not known
    server: RestServer | None = None

    def answer(self, seen: Seen) -> Answer:
        """Answer a search by its rules; the version as topology; nothing else is there."""
        if seen.path == "/v2/topology":
            return Answer(body=json.dumps(_topology(self.version)).encode())
        if seen.path not in _COLLECTIONS:
            return problem(404, "Not Found", "No static resource")
        body = seen.json() or {}
        wrong = self._wrong(seen.path, body) or self.forbids(seen.path, body)
        if wrong is not None and self.refusal is not None:
            return self.refusal
        if wrong is not None:
            # The title and the sentence are those recorded for a property that is not known.
            return problem(400, "Bad Request", f"Request property [{wrong}] cannot be parsed")
        return Answer(body=json.dumps(self._find(seen.path, body)).encode())

    def asked(self, path: str) -> list[Any]:
        """The bodies of the requests to a search."""
        assert self.server is not None
        return [one.json() for one in self.server.seen if one.path == f"/v2{path}"]

    def _wrong(self, path: str, body: Mapping[str, Any]) -> str | None:
        for name in set(body) - {"filter", "sort", "page"}:
            return name
        for name, value in body.get("filter", {}).items():
            if name not in _OPERATORS[path] or (isinstance(value, dict) and self.version not in _OPERATORS[path][name]):
                return f"filter.{name}"
        if any(one["field"] not in _SORTED_BY.get(path, ()) for one in body.get("sort", [])):
            return "sort.field"
        page = body.get("page", {"limit": 100})
        return None if set(page) in _PAGES and 1 <= page["limit"] <= LARGEST_PAGE else "page"

    def _find(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        found = [one for one in getattr(self.items, _COLLECTIONS[path]) if _fits(one, body.get("filter", {}))]
        for one in body.get("sort", []):
            found.sort(key=lambda item, by=one["field"]: item.get(by) or "", reverse=one.get("order") == "DESC")  # type: ignore[misc]
        page = body.get("page", {"limit": 100})
        start = _places(len(found)).index(page["after"]) if "after" in page else 0
        items = found[start : start + page["limit"]]
        cursor = _places(len(found))[start + len(items)] if items else None
        told = {"totalItems": len(found), "hasMoreTotalItems": False, "startCursor": None, "endCursor": cursor}
        return {"page": told, "items": items}


def _places(count: int) -> list[str]:
    """A cursor for every place in a result, in the form of a real one."""
    return [b64encode(f"[{number}]".encode()).decode() for number in range(count + 1)]


def _fits(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_holds(item.get(name), value) for name, value in wanted.items())


def _holds(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    ((operator, limit),) = wanted.items()
    return value in limit if operator == "$in" else value is not None and value >= limit


def _topology(version: str) -> dict[str, Any]:
    return {"gatewayVersion": f"{version}.1", "clusterSize": 1, "partitionsCount": 1}


def copies(name: str, count: int, **changes: Callable[[int], Any]) -> list[dict[str, Any]]:
    """The recorded item of a search, this often, with fields that depend on its number."""
    item = recorded_item(name)
    return [{**item, **{key: change(number) for key, change in changes.items()}} for number in range(count)]


@contextmanager
def strict_cluster(version: str) -> Iterator[StrictCluster]:
    """Serve a cluster without items."""
    cluster = StrictCluster(version)
    with rest_server(cluster.answer) as server:
        cluster.server = server
        yield cluster
