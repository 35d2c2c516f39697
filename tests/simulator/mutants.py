"""Named bugs: each takes one fix out of the product, and the simulator must find it.

What the product decides in SQL is taken out of the statement's double, which is held to the SQL by a test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch
from uuid import UUID

from tests.simulator.runner import Outcome
from tests.simulator.statements import frames, pops, triggers
from tests.simulator.store import STATEMENTS, Session, Values
from verbworker import poll_loop
from verbworker.crossing import variables_of
from verbworker.errors import EngineError, StoreError
from verbworker.frame import Claim
from verbworker.job import Job
from verbworker.outcome import Completed
from verbworker.poll_loop import PollLoop
from verbworker.stores._database import Connection
from verbworker.stores._guard import GuardedConnection
from verbworker.stores.instances import Instances
from verbworker.work import messenger, step_guard
from verbworker.work.bridge import Bridge
from verbworker.work.duplicate_instances import InstanceIdentity
from verbworker.work.executor import Executor
from verbworker.work.popping import Popping
from verbworker.work.redelivery import Redelivery
from verbworker.work.relay import Relay
from verbworker.work.returns import Returns
from verbworker.work.step_guard import StepGuard
from verbworker.work.sweep import Sweep
from verbworker.work.transactional import Transactional
from verbworker.work.visit_identity import VisitIdentity

Make = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: what it breaks, which promises that violates, and the faults under which to look for it."""

    sentence: str
    names: frozenset[str]
    faults: frozenset[str]
    seed: int  # where it was found last
    patches: tuple[Make, ...]

    def is_seen_in(self, outcome: Outcome) -> bool:
        """Whether a schedule broke a promise that this bug breaks."""
        return any(fnmatchcase(name, known) for name in outcome.names for known in self.names)


@contextmanager
def applied(name: str | None) -> Iterator[None]:
    """Run with a bug, or without any."""
    with ExitStack() as stack:
        for make in () if name is None else MUTANTS[name].patches:
            stack.enter_context(make())
        yield


def _replace(place: object, name: str, by: object) -> Make:
    return lambda: patch.object(place, name, by)


def _statement(store: str, name: str, act: Callable[..., Awaitable[list[Values]]]) -> Make:
    return lambda: patch.dict(STATEMENTS, {(store, name): act})


# ---- fences and leases -------------------------------------------------------------------------------------------


async def _owned_by_anybody(s: Session, engine_id: str, job_key: int, owner: object, epoch: int) -> Values | None:
    return await s.lock("job_frame", (engine_id, job_key))


_UNFENCED = (_replace(pops, "_owned", _owned_by_anybody), _replace(triggers, "_FINAL", ()))


_may_take = frames._may_take


def _takes_live_frames(s: Session, frame: Values, item: Values) -> bool:
    is_later = bool(item["activated_ms"] > frame["activated_ms"])
    return _may_take(s, frame, item) or (frame["state"] == "started" and is_later)


_taken = frames._taken


def _key_per_run(s: Session, frame: Values, item: Values, *given: Any) -> Values:
    taken = _taken(s, frame, item, *given)
    return {**taken, "idempotency_key": f"{item['idempotency_key']}-{taken['epoch']}"}


# ---- commits -----------------------------------------------------------------------------------------------------


_init = Transactional.__init__


def _keeps_engine(self: Any, database: Any, frames: Any, performance: Any, engine: Any, popping: Any) -> None:
    _init(self, database, frames, performance, engine, popping)
    self._told_early = engine


async def _tells_before_commit(self: Any, connection: Connection, claim: Claim, completed: Completed) -> None:
    try:
        await self._told_early.complete(claim.job_key, variables_of(completed))
    except EngineError:
        return


async def _pops_after_commit(self: Any, entered: Any, claim: Claim, life: Any, policy: Any) -> Completed:
    """The verb's writes first, the verdict in a commit of its own."""
    limit = timedelta(seconds=policy.start_to_close_timeout_seconds)
    async with self._database.transaction() as connection:
        answer = await self._performance.perform(entered, claim, life, limit, GuardedConnection(connection))
    async with self._database.transaction() as connection:
        popping: Popping = self._popping
        return await popping.pop_in(connection, entered, claim, answer)


_move = pops._move


async def _moves_any_head(s: Session, frame: Values, uid: Any, base: bytes, *given: Any) -> bool:
    head = s.get("payload_head", (uid,))
    return await _move(s, frame, uid, base if head is None else head["hash"], *given)


# ---- identity of work --------------------------------------------------------------------------------------------


_pin_to = Instances.pin_to


async def _pins_in_vain(self: Instances, instance_uid: UUID, job: Job, payload_hash: bytes) -> bool:
    await _pin_to(self, instance_uid, job, payload_hash)
    return True


def _of_any_instance(s: Session, frame: Values, uid: UUID) -> bool:
    return True


async def _admits_all(self: StepGuard, job: Job, claim: Claim, instance_uid: UUID, input_hash: bytes) -> Claim:
    return claim


async def _checks_nothing(self: StepGuard, *given: object) -> None:
    return


def _refuses_nothing(*given: object) -> None:
    return


_admit = StepGuard.admit


async def _admits_strangers(self: StepGuard, job: Job, claim: Claim, *given: Any) -> Claim | Completed:
    admitted = await _admit(self, job, replace(claim, instance=None), *given)
    return replace(admitted, instance=claim.instance) if isinstance(admitted, Claim) else admitted


async def _adopts_nothing(self: InstanceIdentity, *given: object) -> bool:
    return False


async def _finds_none(self: object, *given: object, **named: object) -> list[Any]:
    return []


async def _is_never_certain(self: object, job: Job) -> bool:
    return False


async def _waits_in_vain(self: object, *given: object) -> bool:
    return False


# ---- the sweep ---------------------------------------------------------------------------------------------------


async def _sweeps_nothing(self: Sweep) -> int:
    return 0


async def _closes_nothing(self: object, *given: object) -> None:
    return


def _is_plain_outage(error: BaseException) -> bool:
    return isinstance(error, StoreError | EngineError)


async def _all_at_once(self: PollLoop, items: Any, limit: int, work: Any) -> list[Any]:
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(work(item)) for item in items]
    return [task.result() for task in started]


# ---- what the engine hears ---------------------------------------------------------------------------------------


async def _sends_nothing(self: Relay) -> int:
    return 0


_fail = Returns._fail


async def _reports_before_it_sends(
    self: Any, job_key: int, epoch: int, retries: int, delay: float, message: str, *, sure: Callable[[], bool]
) -> None:
    await self._frames.reported(job_key, epoch)
    if sure():
        try:
            await self._engine.fail(job_key, retries=retries, message=message, backoff_ms=int(delay * 1000))
        except EngineError:
            return


async def _replays_nothing(self: Redelivery, frame: object, delivery: object) -> None:
    return


_sends = iter(range(1, 1 << 60))


def _new_id_each_time(tenant_id: str, message_id: str, generation: int) -> str:
    return f"{tenant_id}/{message_id}/{generation}/{next(_sends)}"


def _mutant(sentence: str, names: str, faults: str, seed: int, *patches: Make) -> Mutant:
    split = [frozenset(part.strip() for part in text.split(",")) for text in (names, faults)]
    return Mutant(sentence, split[0], split[1], seed, patches)


MUTANTS = {
    "pin ignored": _mutant(
        "issue 14, 1: an instance whose pin was refused works all the same, and nothing fences its verdict",
        "effect twice, two instances, call under two keys",
        "start lost, store slow",
        28,
        _replace(Instances, "pin_to", _pins_in_vain),
        _replace(pops, "_is_of_instance", _of_any_instance),
    ),
    "no sweep": _mutant(
        "issue 14, 2: only the engine's timeout hands a job out again, and it may be lost",
        "stuck, frame left started",
        "timeout lost, kill",
        7,
        _replace(Sweep, "sweep", _sweeps_nothing),
    ),
    "errors in groups": _mutant(
        "issue 14, 4: one item of a batch ends the service by a group of errors",
        "service died",
        "cancel, store lost, engine lost, engine down, store down",
        1,
        _replace(PollLoop, "for_each", _all_at_once),
        _replace(poll_loop, "is_outage", _is_plain_outage),
    ),
    "no step guard": _mutant(
        "issue 14, 6: a step that comes again under another key runs again",
        "effect twice, call under two keys, payload wrong",
        "records lost",
        1,
        _replace(StepGuard, "admit", _admits_all),
        _replace(StepGuard, "check_in", _checks_nothing),
    ),
    "input in every step": _mutant(
        "a step that comes again behind branches in another order, with another input, runs again",
        "effect twice, payload wrong, call under two keys",
        "restored, timeout early",
        718,
        _replace(step_guard, "once_nodes", lambda process: frozenset()),
    ),
    "late delivery goes on": _mutant(
        "a delivery from before the records were lost takes the step from the job that the engine has now",
        "stuck",
        "late, records lost",
        1164,
        _replace(step_guard, "_check_late", _refuses_nothing),
        _replace(StepGuard, "admit", _admits_strangers),
    ),
    "no adoption": _mutant(
        "issue 14, 6: an instance that comes again under another key stops for ever",
        "incident*, ended outside, stuck, instance left",
        "records lost",
        1,
        _replace(InstanceIdentity, "_adopt", _adopts_nothing),
    ),
    "ended instances left": _mutant(
        "an instance that the engine brings back after its entry ended is looked for by nothing",
        "instance left",
        "cancel, restored",
        4,
        _replace(Instances, "lingering", _finds_none),
    ),
    "visits by their keys": _mutant(
        "a gate whose task got another key is another gate",
        "asked again",
        "commands lost",
        67,
        _replace(VisitIdentity, "is_certain", _is_never_certain),
    ),
    "messages forgotten": _mutant(
        "a message that the engine forgot is not sent to the wait that it ended",
        "stuck",
        "restored",
        1848,
        _replace(Bridge, "_wait_again", _waits_in_vain),
    ),
    "nothing closed": _mutant(
        "issue 14, 7: frames of jobs that the engine dropped stay open",
        "frame left started, report left",
        "cancel, kill",
        0,
        _replace(Sweep, "_close", _closes_nothing),
        _replace(Executor, "_close", _closes_nothing),
    ),
    "no fence": _mutant(
        "a claim that was overtaken records its outcome, and what is final may change",
        "effect twice",
        "control away, timeout early",
        62,
        *_UNFENCED,
    ),
    "takes live frames": _mutant(
        "a frame is claimed while its owner's lease is alive, and nothing fences the owner",
        "effect twice",
        "timeout early",
        31,
        _replace(frames, "_may_take", _takes_live_frames),
        *_UNFENCED,
    ),
    "key per run": _mutant(
        "each run of a step has an idempotency key of its own",
        "call under two keys",
        "kill, engine lost",
        3,
        _replace(frames, "_taken", _key_per_run),
    ),
    "tells before commit": _mutant(
        "the engine hears of a verdict before it is stored",
        "effect lost, frame left started, stuck, payload wrong, incident*",
        "store lost, kill, store down",
        3,
        _replace(Transactional, "__init__", _keeps_engine),
        _replace(Transactional, "_move", _tells_before_commit),
    ),
    "pops after commit": _mutant(
        "effect and verdict are two commits",
        "effect twice",
        "kill, store lost",
        0,
        _replace(Transactional, "run", _pops_after_commit),
    ),
    "no merge": _mutant(
        "a branch overwrites what another one wrote",
        "payload wrong",
        "late, store slow",
        12,
        _replace(pops, "_move", _moves_any_head),
    ),
    "no relay": _mutant(
        "a verdict that the engine did not hear is never sent again",
        "verdict never acknowledged, stuck",
        "kill, engine lost",
        0,
        _replace(Relay, "sweep", _sends_nothing),
    ),
    "no replay": _mutant(
        "a stored verdict is not sent when its job comes again, and never by the relay",
        "stuck, verdict never acknowledged",
        "kill, engine lost",
        0,
        _replace(Relay, "sweep", _sends_nothing),
        _replace(Redelivery, "_replay", _replays_nothing),
    ),
    "reports before it sends": _mutant(
        "an incident counts as reported before the engine accepted it",
        "released without a person, stuck",
        "engine lost, engine down, kill",
        92,
        _replace(Returns, "_fail", _reports_before_it_sends),
    ),
    "message under new ids": _mutant(
        "a message whose answer was lost is published again under another id",
        "message twice",
        "engine lost",
        16,
        _replace(messenger, "engine_message_id", _new_id_each_time),
    ),
}
