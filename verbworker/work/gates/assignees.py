"""Claims of native user tasks, mirrored to the engine: its task list shows who has a task here.

A claim is stored here first, and a worker sends it. What the engine says is stored with the gate, so that the person
who claims is told, in whatever process.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from verbworker.engine.protocol import Engine, Searchable, UserTasks
from verbworker.errors import CommandInvalid, EngineError, JobGone, TaskTaken
from verbworker.retrying import is_away
from verbworker.stores.cases.gates import GateStore, Unassigned
from verbworker.stores.database import Database
from verbworker.work.gates.gate_writes import GateWrites

_log = logging.getLogger(__name__)

ENGINE_PERSON = "the task list"
"""Who released a task, where the engine does not say."""

_AGAIN_AFTER = timedelta(seconds=2)  # a person looks at the other task list within seconds


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
        self._gates = GateStore(database)
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
            await self._gates.postpone_claim(claim, by=_AGAIN_AFTER, reason=str(error))
            if is_away(error):
                self._report(error)
            else:
                fields = {"user_task_key": claim.user_task_key, "reason": str(error)}
                _log.debug("claim not sent yet; it will be sent again", extra=fields)
            return False
        await self._gates.record_assignee(claim)
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
        reason = f"the engine's task list refuses, because {await self._find_holder(claim)} has it there"
        async with self._database.transaction() as connection:
            gate = await self._gates.hold_in(connection, claim.token_id, None)
            if gate is not None and gate.closed_at is None and gate.claimed_by == claim.claimed_by:
                await self._writes.mirror_release_in(connection, gate, ENGINE_PERSON, reason=reason)
                await self._gates.refuse_claim_in(connection, claim.token_id, reason)

    async def _find_holder(self, claim: Unassigned) -> str:
        """Return who has a task in the engine, as far as a search tells."""
        if isinstance(self._engine, Searchable):
            try:
                tasks = await self._engine.user_tasks([claim.instance_key])
            except EngineError:
                tasks = []  # the name is a courtesy
            held = [task.assignee for task in tasks if task.user_task_key == claim.user_task_key]
            if held and held[0] not in (None, claim.claimed_by):
                return held[0]
        return "another person"
