"""Native user tasks over REST."""

from typing import Final

from verbworker.engine.protocol import OWN_ACTION
from verbworker.engine.zeebe.rest_client import RestClient
from verbworker.errors import JobNotActive, TaskTaken

_TAKEN: Final = "already been assigned"  # in the engine's sentence, as 8.9.17 answered


class UserTaskCalls:
    """The user-task calls of REST v2. gRPC has none."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    async def complete(self, key: int) -> None:
        """Complete a task; waits for its listeners."""
        path = f"/user-tasks/{key}/completion"
        await self._rest.call("POST", path, {"action": OWN_ACTION}, what="the completion of a user task")

    async def assign(self, key: int, assignee: str, *, override: bool) -> None:
        """Assign a task; `TaskTaken` if another person has it."""
        body = {"assignee": assignee, "allowOverride": override, "action": OWN_ACTION}
        try:
            await self._rest.call("POST", f"/user-tasks/{key}/assignment", body, what="the assignment of a user task")
        except JobNotActive as error:
            if _TAKEN in str(error):
                raise TaskTaken(f"the user task {key} is assigned to another person in the engine") from error
            raise

    async def unassign(self, key: int) -> None:
        """Remove the assignee of a task."""
        await self._rest.call("DELETE", f"/user-tasks/{key}/assignee", what="the release of a user task")
