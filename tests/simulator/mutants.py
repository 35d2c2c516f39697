"""Named bugs: each takes one fix out of the product, and the simulator must find it.

What the product decides in SQL is taken out of the statement's double, which is held to the SQL by a test.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch

from tests.simulator.runner import Outcome
from tests.simulator.statements import frames, pops, triggers
from tests.simulator.store import STATEMENTS, Session, Values
from verbworker.crossing import variables_of
from verbworker.errors import EngineError
from verbworker.frame import Claim
from verbworker.outcome import Completed
from verbworker.stores._database import Connection
from verbworker.work import messenger
from verbworker.work.popping import Popping
from verbworker.work.redelivery import Redelivery
from verbworker.work.relay import Relay
from verbworker.work.returns import Returns
from verbworker.work.transactional import Transactional

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


# ---- fences and leases ------------------------------------------------------------------------------------------------


async def _owned_by_anybody(s: Session, engine_id: str, job_key: int, owner: object, epoch: int) -> Values | None:
    return await s.lock("job_frame", (engine_id, job_key))


_UNFENCED = (_replace(pops, "_owned", _owned_by_anybody), _replace(triggers, "_FINAL", ()))


_may_take = frames._may_take


def _takes_live_frames(s: Session, frame: Values, item: Values) -> bool:
    is_later = bool(item["activated_ms"] > frame["activated_ms"])
    return _may_take(s, frame, item) or (frame["state"] == "started" and is_later)


def _takes_no_started(s: Session, frame: Values, item: Values) -> bool:
    return frame["state"] != "started" and _may_take(s, frame, item)


_taken = frames._taken


def _key_per_run(s: Session, frame: Values, item: Values, *given: Any) -> Values:
    taken = _taken(s, frame, item, *given)
    return {**taken, "idempotency_key": f"{item['idempotency_key']}-{taken['epoch']}"}


# ---- commits ----------------------------------------------------------------------------------------------------------


_init = Transactional.__init__


def _keeps_engine(self: Any, database: Any, frames: Any, performance: Any, engine: Any) -> None:
    _init(self, database, frames, performance, engine)
    self._told_early = engine


async def _tells_before_commit(self: Any, connection: Connection, claim: Claim, completed: Completed) -> None:
    try:
        await self._told_early.complete(claim.job_key, variables_of(completed))
    except EngineError:
        return


async def _pops_after_commit(self: Any, entered: Any, claim: Claim, life: Any, policy: Any) -> Completed:
    """The verb's writes first, the verdict in a commit of its own."""
    from datetime import timedelta

    from verbworker.stores._guard import GuardedConnection

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


# ---- what the engine hears ----------------------------------------------------------------------------------------------


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
    "no fence": _mutant(
        "a claim that was overtaken records its outcome, and what is final may change",
        "effect twice",
        "control away, timeout early",
        1813,
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
    "no takeover": _mutant(
        "a frame whose owner died is never claimed",
        "stuck, frame left started",
        "kill",
        1,
        _replace(frames, "_may_take", _takes_no_started),
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
        3,
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
