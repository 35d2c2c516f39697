"""Claims of native user tasks, mirrored to the engine: its task list shows who has a task here."""

import logging
from collections.abc import Callable

from verbworker.engine.protocol import Engine, UserTasks
from verbworker.errors import CommandInvalid, EngineError, JobGone, TaskTaken
from verbworker.retrying import is_away
from verbworker.stores.cases.gates import GateStore, Unassigned
from verbworker.stores.database import Database
from verbworker.work.gates.gate_writes import GateWrites

_log = logging.getLogger(__name__)

ENGINE_PERSON = "the task list"
"""Who released a task, where the engine does not say."""


def tasks_of(engine: Engine) -> UserTasks:
    """Return an engine with native user tasks; raises `CommandInvalid` for any other."""
    if not isinstance(engine, UserTasks):
        raise CommandInvalid(f"the engine {engine.engine_id} has no native user tasks")
    return engine


class Assignees:
    """Sends claims and releases to the engine. A claim is stored here first; the engine may have another assignee."""

    def __init__(self, database: Database, engine: Engine, *, report: Callable[[Exception], None]) -> None:
        self._database = database
        self._engine = engine
        self._report = report
        self._book = GateStore(database)
        self._writes = GateWrites(database)

    async def send(self, claim: Unassigned) -> bool:
        """Send one claim or release; return whether the engine has it."""
        try:
            await self._send(claim)
        except TaskTaken as error:
            await self._give_up(claim, error)
            return True
        except JobGone:
            pass  # the task has ended; what closes the gate arrives on its own way
        except EngineError as error:
            if is_away(error):
                self._report(error)
            else:
                said = {"user_task_key": claim.user_task_key, "reason": str(error)}
                _log.debug("claim not sent yet; it will be sent again", extra=said)
            return False
        await self._book.record_assignee(claim.token_id, claim.claimed_by)
        return True

    async def _send(self, claim: Unassigned) -> None:
        tasks = tasks_of(self._engine)
        if claim.claimed_by is None:
            await tasks.unassign_user_task(claim.user_task_key)
        else:
            # We know whom the engine has: only that person may be replaced.
            override = claim.engine_assignee is not None
            await tasks.assign_user_task(claim.user_task_key, claim.claimed_by, override=override)

    async def _give_up(self, claim: Unassigned, error: TaskTaken) -> None:
        """Release a claim that the engine refused: another person took the task there first."""
        _log.warning("claim released", extra={"user_task_key": claim.user_task_key, "reason": str(error)})
        async with self._database.transaction() as connection:
            gate = await self._book.hold_in(connection, claim.token_id, None)
            if gate is not None and gate.closed_at is None and gate.claimed_by == claim.claimed_by:
                await self._writes.release_in(connection, gate, ENGINE_PERSON, reason=str(error))
