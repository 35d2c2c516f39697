"""Named bugs: each takes one fix out of the product, and the simulator must find it.

What the product decides in SQL is taken out of the statement's double, which is held to the SQL by a test.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch

from tests.simulator import wrong
from tests.simulator.runner import Outcome
from tests.simulator.statements import frames, pops, triggers
from tests.simulator.store import STATEMENTS, Values
from verbworker.background import poll_loop
from verbworker.background.poll_loop import PollLoop
from verbworker.stores.cases.instances import Instances
from verbworker.work.jobs import perform, step_guard
from verbworker.work.jobs.executor import Executor
from verbworker.work.jobs.perform import Transactional
from verbworker.work.jobs.step_guard import StepGuard, VisitIdentity
from verbworker.work.jobs.verdicts import JobResults, Redelivery, Relay
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.messages import delivery as message_delivery
from verbworker.work.starts.duplicate_instances import InstanceIdentity
from verbworker.work.upkeep.sweep import Sweep

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


_UNFENCED = (_replace(pops, "_owned", wrong.owned_by_anybody), _replace(triggers, "_FINAL", ()))


def _mutant(sentence: str, names: str, faults: str, seed: int, *patches: Make) -> Mutant:
    split = [frozenset(part.strip() for part in text.split(",")) for text in (names, faults)]
    return Mutant(sentence, split[0], split[1], seed, patches)


MUTANTS = {
    "pin ignored": _mutant(
        "issue 14, 1: an instance whose pin was refused works all the same, and nothing fences its verdict",
        "effect twice, two instances, call under two keys",
        "start lost, store slow",
        28,
        _replace(Instances, "pin_to", wrong.pins_in_vain),
        _replace(pops, "_is_of_instance", wrong.of_any_instance),
    ),
    "no sweep": _mutant(
        "issue 14, 2: only the engine's timeout hands a job out again, and it may be lost",
        "stuck, frame left started",
        "timeout lost, kill",
        6,
        _replace(Sweep, "sweep", wrong.sweeps_nothing),
    ),
    "errors in groups": _mutant(
        "issue 14, 4: one item of a batch ends the service by a group of errors",
        "service died",
        "cancel, store lost, engine lost, engine down, store down",
        1,
        _replace(PollLoop, "for_each", wrong.all_at_once),
        _replace(poll_loop, "is_outage", wrong.is_plain_outage),
    ),
    "no step guard": _mutant(
        "issue 14, 6: a step that comes again under another key runs again",
        "effect twice, call under two keys, payload wrong",
        "records lost",
        1,
        _replace(StepGuard, "admit", wrong.admits_all),
        _replace(StepGuard, "check_in", wrong.checks_nothing),
    ),
    "input in every step": _mutant(
        "a step that comes again behind branches in another order, with another input, runs again",
        "effect twice, payload wrong, call under two keys",
        "restored, timeout early",
        718,
        _replace(step_guard, "once_nodes", lambda process, **how: frozenset()),
    ),
    "late delivery goes on": _mutant(
        "a delivery from before the records were lost takes the step from the job that the engine has now",
        "stuck",
        "late, records lost",
        1164,
        _replace(step_guard, "_check_late", wrong.refuses_nothing),
        _replace(StepGuard, "admit", wrong.admits_strangers),
        _replace(InstanceIdentity, "_be_patient", wrong.refuses_nothing),  # the other wall: it is gone meanwhile
    ),
    "no adoption": _mutant(
        "issue 14, 6: an instance that comes again under another key stops for ever",
        "incident*, ended outside, stuck, instance left",
        "records lost",
        1,
        _replace(InstanceIdentity, "_adopt", wrong.adopts_nothing),
    ),
    "ended instances left": _mutant(
        "an instance that the engine brings back after its entry ended is looked for by nothing",
        "instance left",
        "cancel, restored",
        4,
        _replace(Instances, "find_lingering", wrong.finds_none),
    ),
    "visits by their keys": _mutant(
        "a gate whose task got another key is another gate",
        "asked again",
        "commands lost",
        67,
        _replace(VisitIdentity, "identify", wrong.identifies_nothing),
    ),
    "visits by their payload": _mutant(
        "a gate whose task got another key while a branch wrote the payload is another gate",
        "asked again",
        "commands lost",
        5632,
        _replace(step_guard, "single_visits_in", lambda content, process_id: frozenset()),
    ),
    "messages forgotten": _mutant(
        "a message that the engine forgot is not sent to the wait that it ended",
        "stuck",
        "restored",
        1099,
        _replace(Bridge, "_wait_again", wrong.waits_in_vain),
    ),
    "nothing closed": _mutant(
        "issue 14, 7: frames of jobs that the engine dropped stay open",
        "frame left started, report left",
        "cancel, kill",
        2,
        _replace(Sweep, "_close", wrong.closes_nothing),
        _replace(Executor, "_close", wrong.closes_nothing),
    ),
    "no fence": _mutant(
        "a claim that was overtaken records its outcome, and what is final may change",
        "effect twice",
        "control away, timeout early",
        98,
        *_UNFENCED,
    ),
    "takes live frames": _mutant(
        "a frame is claimed while its owner's lease is alive, and nothing fences the owner",
        "effect twice",
        "timeout early",
        31,
        _replace(frames, "_may_take", wrong.takes_live_frames),
        *_UNFENCED,
    ),
    "key per run": _mutant(
        "each run of a step has an idempotency key of its own",
        "call under two keys",
        "kill, engine lost",
        112,
        _replace(frames, "_taken", wrong.key_per_run),
    ),
    "tells before commit": _mutant(
        "the engine hears of a verdict before it is stored",
        "effect lost, frame left started, stuck, payload wrong, incident*",
        "store lost, kill, store down",
        3,
        _replace(Transactional, "__init__", wrong.keeps_engine),
        _replace(perform._VerbEnd, "store", wrong.tells_before_commit),
    ),
    "pops after commit": _mutant(
        "effect and verdict are two commits",
        "effect twice",
        "kill, store lost",
        0,
        _replace(Transactional, "run", wrong.pops_after_commit),
    ),
    "no merge": _mutant(
        "a branch overwrites what another one wrote",
        "payload wrong",
        "late, store slow",
        12,
        _replace(pops, "_move", wrong.moves_any_head),
    ),
    "no relay": _mutant(
        "a verdict that the engine did not hear is never sent again",
        "verdict never acknowledged, stuck",
        "kill, engine lost",
        3,
        _replace(Relay, "sweep", wrong.sends_nothing),
    ),
    "no replay": _mutant(
        "a stored verdict is not sent when its job comes again, and never by the relay",
        "stuck, verdict never acknowledged",
        "kill, engine lost",
        3,
        _replace(Relay, "sweep", wrong.sends_nothing),
        _replace(Redelivery, "_replay", wrong.replays_nothing),
    ),
    "reports before it sends": _mutant(
        "an incident counts as reported before the engine accepted it",
        "released without a person, stuck",
        "engine lost, engine down, kill",
        92,
        _replace(JobResults, "_fail", wrong.reports_before_it_sends),
    ),
    "impatient with keys": _mutant(
        "an identity counts as forged as soon as the entry has another living key",
        "instance left, stuck, incident*",
        "records lost, keys reused, kill, engine lost, crash",
        2805,
        _replace(InstanceIdentity, "_be_patient", wrong.refuses_nothing),
    ),
    "message under new ids": _mutant(
        "a message whose answer was lost is published again under another id",
        "message twice",
        "engine lost",
        16,
        _replace(message_delivery, "engine_message_id", wrong.new_id_each_time),
    ),
}
