"""Search over what a cluster exports: incidents, tokens, instances, jobs and user tasks. Answers may lag.

Every filter is one that 8.8 and later document. A cluster that refuses one all the same is asked more simply, and its
items are filtered here: see `_Form`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final, TypeVar

from verbworker import metrics
from verbworker.engine.protocol import ActiveElement, EngineIncident, EngineJob, EngineUserTask, InstanceState
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import EngineUnavailable, NotOffered, SearchRefused

_log = logging.getLogger(__name__)

WAIT_STATES_SINCE: Final = (8, 10, 0)
_MOST_ITEMS: Final = 10_000  # of one search; more would keep a round of upkeep busy for minutes
_KEYS_AT_ONCE: Final = 100  # keys in one filter, so that a request stays small
_CONCURRENT_SEARCHES: Final = 8  # where each key needs a request of its own
_SIMPLER_FOR_S: Final = 3600.0  # a cluster may be upgraded meanwhile
# Jobs that can still run. A search has no state for an activated job: it shows the last exported one.
_OPEN_JOBS: Final = frozenset(
    ("CREATED", "TIMED_OUT", "FAILED", "RETRIES_UPDATED", "MIGRATED", "PRIORITY_UPDATED", "TIMEOUT_UPDATED")
)
_OPEN_SUBSCRIPTIONS: Final = frozenset(("CREATED", "MIGRATED"))
_STATES: Final = frozenset(InstanceState)

Item = Mapping[str, Any]
Filters = Mapping[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Query:
    """One search: its path, the conditions on its items, and how many instance keys its filter takes at once."""

    name: str
    path: str
    wanted: Filters
    keys_at_once: int = 1
    newest: str = ""  # the time by which a history is read from its end, if the cluster does not filter by it


# Several keys at once are taken by 8.8 and later; for incidents by 8.9, and for user tasks by 8.10 only.
_INCIDENTS: Final = _Query("incidents", "/incidents/search", {"state": "ACTIVE"})
_USER_TASKS: Final = _Query("user tasks", "/user-tasks/search", {"state": "CREATED"})
_INSTANCES: Final = _Query("instances", "/process-instances/search", {}, _KEYS_AT_ONCE)
_JOBS: Final = _Query("jobs", "/jobs/search", {}, _KEYS_AT_ONCE)
_ELEMENTS: Final = _Query("elements", "/element-instances/search", {"state": "ACTIVE"})
_SUBSCRIPTIONS: Final = _Query("message subscriptions", "/message-subscriptions/search", {})
_WAIT_STATES: Final = _Query("wait states", "/element-instances/wait-states/search", {})


def _terminations(since: datetime) -> _Query:
    when = since.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    wanted = {"state": InstanceState.TERMINATED.value, "endDate": {"$gte": when}}
    return _Query("terminations", "/process-instances/search", wanted, newest="endDate")


class _Form(IntEnum):
    """How a search is asked, from the most exact form to the simplest; what it leaves out is filtered here."""

    EXACT = 0
    EQUAL = 1  # no operators: conditions that need one are left out, and each key has a request of its own
    ALL = 2  # no filter


class Search:
    """The searches of one cluster.

    `NotOffered` without a REST address or without secondary storage, `SearchRefused` if no form of a search is taken.
    """

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest
        self._refused: dict[tuple[str, _Form], tuple[float, SearchRefused]] = {}  # until when, by name
        self._said: set[tuple[str, str]] = set()

    async def incidents(self, instance_keys: Sequence[int]) -> list[EngineIncident]:
        """Return the active incidents of these instances, or all without keys."""
        return await self._find(_INCIDENTS, instance_keys, _incident)

    async def waits(self, instance_key: int, *, by_wait_states: bool = False) -> list[ActiveElement]:
        """Return the active elements of an instance, and the messages they wait for as lines of their own.

        `by_wait_states` asks the search that only 8.10 has, for what the elements wait for.
        """
        keys = [instance_key]
        if by_wait_states:
            try:
                return await self._find(_WAIT_STATES, keys, _wait_state)
            except NotOffered as error:
                self._say_once("wait states are not offered; active elements are read", _WAIT_STATES, str(error))
        elements = await self._find(_ELEMENTS, keys, _element)
        items = await self._find(_SUBSCRIPTIONS, keys, dict)
        opened = [item for item in items if item.get("messageSubscriptionState") in _OPEN_SUBSCRIPTIONS]
        messages = [_message(item, elements) for item in opened]
        heard = {message.element_instance_key for message in messages}
        return [element for element in elements if element.element_instance_key not in heard] + messages

    async def instance_states(self, instance_keys: Sequence[int]) -> dict[int, InstanceState]:
        """Return the states of those instances that the search finds; a state of a later version is left out."""
        if not instance_keys:
            return {}
        items = await self._find(_INSTANCES, instance_keys, dict)
        return {_read(_instance_key, item): InstanceState(item["state"]) for item in items if _has_known_state(item)}

    async def terminations(self, since: datetime) -> list[int]:
        """Return the instances that were terminated since a moment."""
        return await self._find(_terminations(since), (), _instance_key)

    async def open_jobs(self, instance_keys: Sequence[int]) -> list[EngineJob]:
        """Return the jobs of these instances that can still run."""
        if not instance_keys:
            return []
        items = await self._find(_JOBS, instance_keys, dict)
        return [_read(_job, item) for item in items if item.get("state") in _OPEN_JOBS and item.get("retries")]

    async def user_tasks(self, instance_keys: Sequence[int]) -> list[EngineUserTask]:
        """Return the native user tasks that wait for a person."""
        return await self._find(_USER_TASKS, instance_keys, _user_task)

    async def refusals(self) -> list[str]:
        """Ask for one item by each search in its exact form; return what was refused, in a sentence each."""
        found: list[str] = []
        ended = _terminations(datetime.now(UTC))
        for query in (_INCIDENTS, ended, _USER_TASKS, _JOBS, _INSTANCES, _ELEMENTS, _SUBSCRIPTIONS):
            keys = () if query is ended else (1, 2)
            body = {"filter": _filters(_Form.EXACT, query, keys)[0], "page": {"limit": 1}}
            try:
                await self._rest.call("POST", query.path, body, what="a search")
            except NotOffered as refused:  # its form, or the whole search for want of a permission
                found.append(f"{query.name}: {refused}")
        return found

    async def _find(self, query: _Query, keys: Sequence[int], read: Callable[[Item], Found]) -> list[Found]:
        if not self._rest.has_address:
            raise NotOffered("this needs Zeebe's REST address: set ZEEBE_REST_ADDRESS")
        clock = asyncio.get_running_loop().time
        last: SearchRefused | None = None
        for form in _forms(query, keys):
            until, before = self._refused.get((query.name, form), (0.0, None))
            if before is not None and clock() < until:
                last = before
                continue
            try:
                items = await self._ask(form, query, keys)
            except SearchRefused as error:
                last = error
                self._refused[query.name, form] = (clock() + _SIMPLER_FOR_S, error)
                self._say_once("search refused", query, str(error))
                continue
            except NotOffered:
                _note_refusal(query, "all")
                raise
            _note_refusal(query, None if last is None else "filter")
            return [_read(read, item) for item in items]
        _note_refusal(query, "all")
        raise last or NotOffered("this cluster offers no search")

    async def _ask(self, form: _Form, query: _Query, keys: Sequence[int]) -> list[Item]:
        exact = {**query.wanted, **({"processInstanceKey": _one_of(keys)} if keys else {})}
        found: list[Item] = []
        for some in _parts(_filters(form, query, keys), _CONCURRENT_SEARCHES):
            for items in await asyncio.gather(*(self._collect(form, query, filters) for filters in some)):
                found += items if form is _Form.EXACT else [item for item in items if _fits(item, exact)]
        return found

    async def _collect(self, form: _Form, query: _Query, filters: Filters) -> list[Item]:
        body: dict[str, Any] = {"filter": filters} if filters else {}
        if form is _Form.EQUAL and query.newest:
            body["sort"] = [{"field": query.newest, "order": "DESC"}]
        items: list[Item] = []
        async for item in self._read_until(query if "sort" in body else None, body, query.path):
            items.append(item)
            if len(items) >= _MOST_ITEMS:
                self._say_once("a search found more than is read", query, f"{_MOST_ITEMS} items")
                break
        return items

    async def _read_until(self, query: _Query | None, body: Item, path: str) -> AsyncIterator[Item]:
        """Yield the items of a search; of a history that is read from its end, only those that are late enough."""
        async for item in self._rest.pages(path, body, what="a search"):
            if query is not None and not _holds(item.get(query.newest), query.wanted[query.newest]):
                return
            yield item

    def _say_once(self, words: str, query: _Query, reason: str) -> None:
        if (words, query.name) not in self._said:
            self._said.add((words, query.name))
            _log.warning(words, extra={"search": query.name, "path": query.path, "reason": reason})


def _note_refusal(query: _Query, extent: str | None) -> None:
    for one in ("filter", "all"):
        metrics.SEARCH_REFUSED.labels(query.name, one).set(one == extent)


def _forms(query: _Query, keys: Sequence[int]) -> list[_Form]:
    """Return the forms of a search that differ from one another."""
    is_plain = _filters(_Form.EXACT, query, keys) == _filters(_Form.EQUAL, query, keys) and not query.newest
    return [form for form in _Form if form is not _Form.EQUAL or not is_plain]


def _filters(form: _Form, query: _Query, keys: Sequence[int]) -> list[dict[str, Any]]:
    """Return the filter of each request that a search needs in this form."""
    if form is _Form.ALL:
        return [{}]
    at_once = query.keys_at_once if form is _Form.EXACT else 1
    wanted = {name: value for name, value in query.wanted.items() if form is _Form.EXACT or not isinstance(value, dict)}
    if not keys:
        return [wanted]
    return [{"processInstanceKey": _one_of(some), **wanted} for some in _parts(keys, at_once)]


def _parts(items: Sequence[Found], size: int) -> Iterator[Sequence[Found]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _one_of(keys: Sequence[int]) -> Any:
    return str(keys[0]) if len(keys) == 1 else {"$in": [str(key) for key in keys]}


def _fits(item: Item, filters: Filters) -> bool:
    return all(_holds(item.get(name), wanted) for name, wanted in filters.items())


def _holds(value: Any, wanted: Any) -> bool:
    """Return whether a field of an item meets the condition that a filter sets for it."""
    match wanted:
        case {"$in": values}:
            return value in values
        case {"$gte": moment}:
            found, least = _moment(value), _moment(moment)
            return found is not None and least is not None and found >= least
        case _:
            return bool(value == wanted)


def _read(read: Callable[[Item], Found], item: Item) -> Found:
    try:
        return read(item)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineUnavailable(f"Zeebe answered a search with an item that cannot be read: {error!r}") from error


def _incident(item: Item) -> EngineIncident:
    return EngineIncident(
        incident_key=int(item["incidentKey"]),
        instance_key=int(item["processInstanceKey"]),
        element_id=str(item["elementId"]),
        element_instance_key=int(item["elementInstanceKey"]),
        kind=str(item["errorType"]),
        message=str(item.get("errorMessage") or ""),
        job_key=None if item.get("jobKey") is None else int(item["jobKey"]),
        raised_at=_moment(item.get("creationTime")),
        process_id=str(item.get("processDefinitionId") or ""),
        definition_key=None if item.get("processDefinitionKey") is None else int(item["processDefinitionKey"]),
    )


def _element(item: Item) -> ActiveElement:
    key, since = int(item["elementInstanceKey"]), _moment(item.get("startDate"))
    return ActiveElement(str(item["elementId"]), key, str(item["type"]), since)


def _message(item: Item, elements: Sequence[ActiveElement]) -> ActiveElement:
    """Return a subscription, with what is known of the element that holds it."""
    key = _read(lambda one: int(one["elementInstanceKey"]), item)
    host = next((element for element in elements if element.element_instance_key == key), None)
    since = host.since if host is not None else _moment(item.get("lastUpdatedDate"))
    element_id, kind = str(item.get("elementId")), "UNSPECIFIED" if host is None else host.type
    return ActiveElement(element_id, key, kind, since, item.get("messageName"), item.get("correlationKey"))


def _wait_state(item: Item) -> ActiveElement:
    """Return a wait as 8.10's OpenAPI document has it; no cluster that offers this search was recorded."""
    element_id, key, details = str(item["elementId"]), int(item["elementInstanceKey"]), item["details"]
    message = details.get("messageName"), details.get("correlationKey")
    return ActiveElement(element_id, key, str(item["elementType"]), None, *message)


def _instance_key(item: Item) -> int:
    return int(item["processInstanceKey"])


def _has_known_state(item: Item) -> bool:
    return item.get("state") in _STATES


def _job(item: Item) -> EngineJob:
    key, instance_key = int(item["jobKey"]), int(item["processInstanceKey"])
    return EngineJob(key, instance_key, str(item["type"]), int(item["retries"]), _moment(item.get("deadline")))


def _user_task(item: Item) -> EngineUserTask:
    return EngineUserTask(
        user_task_key=int(item["userTaskKey"]),
        instance_key=int(item["processInstanceKey"]),
        element_id=str(item["elementId"]),
        element_instance_key=int(item["elementInstanceKey"]),
        assignee=item.get("assignee"),
        created_at=_moment(item.get("creationDate")),
        candidate_groups=tuple(map(str, item.get("candidateGroups") or ())),
        candidate_users=tuple(map(str, item.get("candidateUsers") or ())),
        due_at=_moment(item.get("dueDate")),
        follow_up_at=_moment(item.get("followUpDate")),
        priority=item.get("priority"),
        form=item.get("externalFormReference") or item.get("formKey"),
    )


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
