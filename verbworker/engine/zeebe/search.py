"""Search over what a cluster exports: incidents, tokens, instances, jobs and user tasks. Answers may lag."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from verbworker.engine.protocol import ActiveElement, EngineIncident, EngineJob, EngineUserTask, InstanceState
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import AccessDenied, CommandInvalid, EngineUnavailable, JobGone, NotOffered

WAIT_STATES_SINCE: Final = (8, 10, 0)
_MOST_ITEMS: Final = 10_000  # of one search; more would keep a round of upkeep busy for minutes
_KEYS_AT_ONCE: Final = 100  # keys in one filter, so that a request stays small
# Jobs that can still run. A search has no state for an activated job: it shows the last exported one.
_OPEN_JOBS: Final = frozenset(
    ("CREATED", "TIMED_OUT", "FAILED", "RETRIES_UPDATED", "MIGRATED", "PRIORITY_UPDATED", "TIMEOUT_UPDATED")
)

Item = Mapping[str, Any]
Found = TypeVar("Found")


class Search:
    """The searches of one cluster. `NotOffered` without a REST address or without secondary storage."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    async def incidents(self, instance_keys: Sequence[int]) -> list[EngineIncident]:
        """Return the active incidents of these instances, or all without keys."""
        return await self._of_instances("/incidents/search", {"state": "ACTIVE"}, instance_keys, _incident)

    async def waits(self, instance_key: int, *, by_wait_states: bool = False) -> list[ActiveElement]:
        """Return the active elements of an instance, and the messages they wait for as lines of their own.

        `by_wait_states` asks the search that only 8.10 has, for what the elements wait for.
        """
        keys = [instance_key]
        if by_wait_states:
            return await self._of_instances("/element-instances/wait-states/search", {}, keys, _wait_state)
        elements = await self._of_instances("/element-instances/search", {"state": "ACTIVE"}, keys, _element)
        items = await self._of_instances("/message-subscriptions/search", {}, keys, dict)
        messages = [_message(item, elements) for item in items if item.get("messageSubscriptionState") == "CREATED"]
        heard = {message.element_instance_key for message in messages}
        return [element for element in elements if element.element_instance_key not in heard] + messages

    async def instance_states(self, instance_keys: Sequence[int]) -> dict[int, InstanceState]:
        """Return the states of those instances that the search finds."""
        if not instance_keys:
            return {}
        return dict(await self._of_instances("/process-instances/search", {}, instance_keys, _state))

    async def terminations(self, since: datetime) -> list[int]:
        """Return the instances that were terminated since a moment."""
        when = since.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        wanted = {"state": InstanceState.TERMINATED.value, "endDate": {"$gte": when}}
        return [key for key, _ in await self._of_instances("/process-instances/search", wanted, (), _state)]

    async def open_jobs(self, instance_keys: Sequence[int]) -> list[EngineJob]:
        """Return the jobs of these instances that can still run."""
        if not instance_keys:
            return []
        items = await self._of_instances("/jobs/search", {}, instance_keys, dict)
        return [_read(_job, item) for item in items if item.get("state") in _OPEN_JOBS and item.get("retries")]

    async def user_tasks(self, instance_keys: Sequence[int]) -> list[EngineUserTask]:
        """Return the native user tasks that wait for a person."""
        return await self._of_instances("/user-tasks/search", {"state": "CREATED"}, instance_keys, _user_task)

    async def _of_instances(
        self, path: str, wanted: Mapping[str, Any], keys: Sequence[int], read: Callable[[Item], Found]
    ) -> list[Found]:
        if not self._rest.has_address:
            raise NotOffered("this needs Zeebe's REST address: set ZEEBE_REST_ADDRESS")
        found: list[Found] = []
        for start in range(0, max(len(keys), 1), _KEYS_AT_ONCE):
            some = [str(key) for key in keys[start : start + _KEYS_AT_ONCE]]
            one_or_many: Any = some[0] if len(some) == 1 else {"$in": some}
            filters = {**wanted, "processInstanceKey": one_or_many} if some else dict(wanted)
            found += [_read(read, item) for item in await self._collect(path, {"filter": filters})]
        return found

    async def _collect(self, path: str, body: Mapping[str, Any]) -> list[Item]:
        items: list[Item] = []
        try:
            async for item in self._rest.pages(path, body, what="a search"):
                items.append(item)
                if len(items) >= _MOST_ITEMS:
                    break
        except (AccessDenied, CommandInvalid, JobGone) as error:
            # A cluster without secondary storage answers 403, an older version 404 or 405.
            raise NotOffered(f"this cluster offers no search: {error}") from error
        return items


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


def _state(item: Item) -> tuple[int, InstanceState]:
    return int(item["processInstanceKey"]), InstanceState(item["state"])


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
