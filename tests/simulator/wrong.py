"""Code with a bug in it, each piece in place of one of the product's: what the mutants put in."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.simulator.statements import frames, pops
from tests.simulator.store import Session, Values
from verbworker.background.poll_loop import PollLoop
from verbworker.errors import EngineError, StoreError
from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.stores.access.guarded_connection import GuardedConnection
from verbworker.stores.cases.instances import Instances
from verbworker.work.jobs import perform
from verbworker.work.jobs.perform import Transactional
from verbworker.work.jobs.step_guard import StepGuard
from verbworker.work.jobs.verdicts import JobResults, Redelivery, Relay, Verdicts
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.upkeep.sweep import Sweep

# ---- fences and leases -------------------------------------------------------------------------------------------


async def owned_by_anybody(s: Session, engine_id: str, job_key: int, owner: object, epoch: int) -> Values | None:
    return await s.lock("job_frame", (engine_id, job_key))


_may_take = frames._may_take


def takes_live_frames(s: Session, frame: Values, item: Values) -> bool:
    is_later = bool(item["activated_ms"] > frame["activated_ms"])
    return _may_take(s, frame, item) or (frame["state"] == "started" and is_later)


_taken = frames._taken


def key_per_run(s: Session, frame: Values, item: Values, *given: Any) -> Values:
    taken = _taken(s, frame, item, *given)
    return {**taken, "idempotency_key": f"{item['idempotency_key']}-{taken['epoch']}"}


# ---- commits -----------------------------------------------------------------------------------------------------


_init = Transactional.__init__


def keeps_engine(self: Any, database: Any, frames: Any, verb_run: Any, engine: Any, verdicts: Any) -> None:
    _init(self, database, frames, verb_run, engine, verdicts)
    frames.told_early = engine


_store = perform._VerbEnd.store


async def tells_before_commit(self: Any, transaction: Any, answer: object) -> JobResult:
    completed = await _store(self, transaction, answer)
    with suppress(EngineError):
        await self._frames.told_early.complete(self._claim.job_key, completed)
    return completed


async def pops_after_commit(self: Any, entered: Any, claim: Claim, running: Any, policy: Any) -> JobResult:
    """The verb's writes first, the verdict in a commit of its own."""
    limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
    async with self._database.transaction() as connection:
        answer = await self._verb_run.perform(entered, claim, running, limit, GuardedConnection(connection))
    async with self._database.transaction() as connection:
        verdicts: Verdicts = self._verdicts
        return await verdicts.pop_in(connection, entered, claim, answer)


_move = pops._move


async def moves_any_head(s: Session, frame: Values, uid: Any, base: bytes, *given: Any) -> bool:
    head = s.get("payload_head", (uid,))
    return await _move(s, frame, uid, base if head is None else head["hash"], *given)


# ---- identity of work --------------------------------------------------------------------------------------------


_pin_to = Instances.pin_to


async def pins_in_vain(self: Instances, instance_uid: UUID, job: Job, payload_hash: bytes) -> bool:
    await _pin_to(self, instance_uid, job, payload_hash)
    return True


def of_any_instance(s: Session, frame: Values, uid: UUID) -> bool:
    return True


async def admits_all(self: StepGuard, job: Job, claim: Claim, instance_uid: UUID, input_hash: bytes) -> Claim:
    return claim


async def checks_nothing(self: StepGuard, *given: object) -> None:
    return


def refuses_nothing(*given: object) -> None:
    return


_admit = StepGuard.admit


async def admits_strangers(self: StepGuard, job: Job, claim: Claim, *given: Any) -> Claim | JobResult:
    admitted = await _admit(self, job, replace(claim, instance=None), *given)
    return replace(admitted, instance=claim.instance) if isinstance(admitted, Claim) else admitted


async def adopts_nothing(self: InstanceIdentity, *given: object) -> bool:
    return False


async def finds_none(self: object, *given: object, **named: object) -> list[Any]:
    return []


async def identifies_nothing(self: object, job: Job, payload: bytes, on: object = None) -> None:
    return None


async def waits_in_vain(self: object, *given: object) -> bool:
    return False


# ---- the sweep ---------------------------------------------------------------------------------------------------


async def sweeps_nothing(self: Sweep) -> int:
    return 0


async def closes_nothing(self: object, *given: object) -> None:
    return


def is_plain_outage(error: BaseException) -> bool:
    return isinstance(error, StoreError | EngineError)


async def all_at_once(self: PollLoop, items: Any, limit: int, work: Any) -> list[Any]:
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(work(item)) for item in items]
    return [task.result() for task in started]


# ---- what the engine hears ---------------------------------------------------------------------------------------


async def sends_nothing(self: Relay) -> int:
    return 0


_fail = JobResults._fail


async def reports_before_it_sends(
    self: Any, job: Job, epoch: int, retries: int, delay: float, message: str, *, sure: Callable[[], bool]
) -> None:
    await self._frames.record_report(job.key, epoch)
    if sure():
        try:
            await self._engine.fail(job.key, retries=retries, message=message, backoff_ms=int(delay * 1000))
        except EngineError:
            return


async def replays_nothing(self: Redelivery, frame: object, delivery: object) -> None:
    return


_sends = iter(range(1, 1 << 60))


def new_id_each_time(tenant_id: str, message_id: str, generation: int) -> str:
    return f"{tenant_id}/{message_id}/{generation}/{next(_sends)}"
