"""The frame protocol as a small machine of its own: one job, two workers, an engine that forgets, and no clock.

Every crash, timeout, expiry, late or lost message is a step that may happen at any moment. Times are only orders:
activations and epochs are renumbered after each step, so that the space is finite without a bound on either.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Worker(NamedTuple):
    """What a worker is doing, for which activation and under which epoch."""

    doing: str = "idle"
    act: int = 0
    epoch: int = 0


class Frame(NamedTuple):
    """The row. `owner` is a worker's place, or -1 when that process boot is gone."""

    state: str
    epoch: int
    owner: int
    act: int
    is_live: bool = True
    is_due: bool = False
    runs: int = 1
    retries: int = 1
    reported: int = 0
    output: int = 0


class Message(NamedTuple):
    """A command on its way to the engine."""

    kind: str  # complete, retry, hold
    number: int  # of the output, or of the epoch that failed
    sender: int


class State(NamedTuple):
    """Everything, at one moment."""

    job: str = "ready"  # ready, active, incident, done
    told: int = 0
    last_act: int = 0
    resolves: int = 0
    frame: Frame | None = None
    workers: tuple[Worker, ...] = (Worker(), Worker())
    messages: tuple[Message, ...] = ()
    effects: int = 0
    calls: int = 0


class Broken(Exception):
    """A step broke an invariant."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol as specified, or with one hole in it."""

    mode: str = "transactional"  # or external
    on_unknown: str = "rerun"
    hole: str = ""
    max_runs: int = 2
    retries: int = 2
    in_flight: int = 1
    resolves: int = 1
    sweeps: bool = True
    times_out: bool = True  # a broker may lose the timeouts of its jobs: then only the sweep hands them out again

    def claim(self, frame: Frame | None, act: int) -> str | None:
        """How a delivery may claim the frame: T1, T2, T3, T12."""
        if frame is None:
            return "new"
        if frame.state == "completed":
            return "takeover" if self.hole == "a completed frame may be claimed" else None
        if act <= frame.act and self.hole != "activations have no order":
            return None
        match frame.state:
            case "failed":
                return "retry" if frame.is_due else None
            case "started":
                return "takeover" if not frame.is_live and self.may_run_again(frame) else None
        is_later = act > frame.reported or self.hole == "activations have no order"
        return "release" if frame.reported and is_later else None

    def may_run_again(self, frame: Frame) -> bool:
        """Whether a frame whose owner vanished may simply be run again."""
        if self.hole == "nobody takes over":
            return False
        if frame.runs >= self.max_runs and self.hole != "runs are not counted":
            return False
        return self.mode == "transactional" or self.on_unknown != "hold" or self.hole == "what is held runs again"

    def is_fenced(self, state: State, place: int) -> bool:
        """Whether a worker may not record the outcome of its claim any more."""
        frame, worker = state.frame, state.workers[place]
        if self.hole == "a verdict has no fence":
            return False
        if frame is None or frame.state != "started":
            return True
        return self.hole != "a verdict is fenced by state only" and (frame.epoch, frame.owner) != (worker.epoch, place)


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Everything that may happen next."""
    yield from _engine_steps(state, rules)
    yield from _time_steps(state)
    for message in state.messages:
        yield from _message_steps(state, message)
    for place, worker in enumerate(state.workers):
        yield from _worker_steps(state, rules, place, worker)


def _engine_steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    if state.job == "active" and rules.times_out:
        yield "timeout", state._replace(job="ready")
    if state.job == "incident" and state.resolves < rules.resolves:
        yield "resolve", state._replace(job="ready", resolves=state.resolves + 1)
    if state.job == "ready":
        for place, worker in enumerate(state.workers):
            if worker.doing == "idle":
                act = state.last_act + 1
                yield "activate", _doing(state, place, Worker("got", act))._replace(job="active", last_act=act)


def _time_steps(state: State) -> Iterator[tuple[str, State]]:
    frame = state.frame
    if frame is not None and frame.state == "started" and frame.is_live:
        yield "expire", state._replace(frame=frame._replace(is_live=False))
    if frame is not None and frame.state == "failed" and not frame.is_due:
        yield "due", state._replace(frame=frame._replace(is_due=True))


def _message_steps(state: State, message: Message) -> Iterator[tuple[str, State]]:
    rest = state._replace(messages=tuple(one for one in state.messages if one != message))
    yield "lose", rest
    if state.job not in ("ready", "active"):
        yield "refuse", _answer(rest, message, "idle")
        return
    match message.kind:
        case "complete":
            yield "complete", rest._replace(job="done", told=message.number)
        case "retry":
            yield "accept retry", _answer(rest._replace(job="ready"), message, "accepted")
            yield "accept retry unheard", rest._replace(job="ready")
        case _:
            yield "accept incident", _answer(rest._replace(job="incident"), message, "accepted")
            yield "accept incident unheard", rest._replace(job="incident")


def _answer(state: State, message: Message, doing: str) -> State:
    """The engine's answer reaches the sender if it still waits for it."""
    if message.sender >= 0:
        worker = state.workers[message.sender]
        if worker.doing == "waiting" and worker.epoch == message.number:
            return _doing(state, message.sender, worker._replace(doing=doing) if doing != "idle" else Worker())
    return state


def _worker_steps(state: State, rules: Rules, place: int, worker: Worker) -> Iterator[tuple[str, State]]:
    frame = state.frame
    match worker.doing:
        case "idle":
            if frame is not None and frame.state == "completed" and state.job != "done":
                yield "relay", _send(state, rules, Message("complete", frame.output, -1))
            if frame is not None and rules.sweeps:
                yield from _sweep(state, rules, frame, place)
            return
        case "got":
            yield from _push(state, rules, place, worker)
        case "run" | "called":
            yield from _run(state, rules, place, worker)
        case "settle":
            yield "settle", _settle(state, rules, place, worker)
        case "tell":
            yield "send complete", _doing(_send(state, rules, Message("complete", worker.epoch, -1)), place, Worker())
        case "tell retry" | "tell hold":
            _check_report(frame, worker.epoch)
            message = Message(worker.doing.removeprefix("tell "), worker.epoch, place)
            sent = _doing(_send(state, rules, message), place, worker._replace(doing="waiting"))
            yield "send failure", _reported(sent, worker.epoch) if rules.hole == "told when it is sent" else sent
        case "waiting":
            yield "give up", _doing(state, place, Worker())
        case "accepted":
            yield "reported", _doing(_reported(state, worker.epoch), place, Worker())
    yield "crash", _crash(state, place)


def _push(state: State, rules: Rules, place: int, worker: Worker) -> Iterator[tuple[str, State]]:
    frame, kind = state.frame, rules.claim(state.frame, worker.act)
    if kind is None:
        assert frame is not None
        yield "follow", _follow(state, rules, frame, place, worker)
        return
    claimed = _claim(frame, kind, place, worker.act, rules)
    if kind == "release" and state.resolves == 0:
        raise Broken("RELEASED_BY_NOBODY")
    if claimed.runs > rules.max_runs and kind == "takeover":
        raise Broken("TOO_MANY_RUNS")
    pushed = state._replace(frame=claimed)
    yield "push", _doing(pushed, place, worker._replace(doing="run", epoch=claimed.epoch))
    yield "push unheard", pushed


def _claim(frame: Frame | None, kind: str, place: int, act: int, rules: Rules) -> Frame:
    if frame is None:
        return Frame("started", 1, place, act, retries=rules.retries)
    runs = 1 if kind == "release" else frame.runs + 1
    # Runs after a recorded failure are bounded by the retries, so the count need not grow with them.
    runs = min(runs, rules.max_runs + (kind == "takeover"))
    retries = rules.retries if kind == "release" else frame.retries
    return Frame("started", frame.epoch + 1, place, act, runs=runs, retries=retries)


def _follow(state: State, rules: Rules, frame: Frame, place: int, worker: Worker) -> State:
    """The decision table."""
    idle = _doing(state, place, Worker())
    if frame.state == "completed":
        return _send(idle, rules, Message("complete", frame.output, -1))
    is_mine = frame.state == "started" and frame.is_live and (frame.owner, frame.act) == (place, worker.act)
    if is_mine:
        return _doing(state, place, worker._replace(doing="run", epoch=frame.epoch))
    if worker.act <= frame.act:
        return idle
    match frame.state:
        case "failed":
            return _doing(state, place, worker._replace(doing="tell retry", epoch=frame.epoch))
        case "incident":
            told = worker._replace(doing="tell hold", epoch=frame.epoch)
            return idle if frame.reported else _doing(state, place, told)
    if frame.is_live or rules.hole == "nobody takes over":
        return idle
    held = frame._replace(state="incident", epoch=frame.epoch + 1, owner=place, act=worker.act)
    return _doing(state._replace(frame=held), place, worker._replace(doing="tell hold", epoch=held.epoch))


def _sweep(state: State, rules: Rules, frame: Frame, place: int) -> Iterator[tuple[str, State]]:
    """Take what its owner can neither finish nor report, under a new epoch. No lease protects a report here."""
    if frame.state == "started" and not frame.is_live and rules.hole != "nobody takes over":
        is_free = rules.may_run_again(frame) or rules.hole == "what is swept always runs again"
        doing = "tell retry" if is_free else "tell hold"
        ended = frame._replace(state="failed" if doing == "tell retry" else "incident", is_due=True, reported=0)
        yield "sweep", _taken(state, frame if rules.hole == "swept before it is stored" else ended, place, doing)
    elif frame.state == "incident" and not frame.reported:
        yield "sweep a report", _taken(state, frame, place, "tell hold")
    elif frame.state == "failed" and frame.is_due:
        yield "sweep a report", _taken(state, frame, place, "tell retry")
    elif frame.state == "incident" and state.job == "active":
        # It was told, released by a person and handed out, but nobody claimed it.
        yield "ask", _send(state, rules, Message("retry", frame.epoch, -1))


def _taken(state: State, frame: Frame, place: int, doing: str) -> State:
    taken = frame._replace(epoch=frame.epoch + 1, owner=place)
    return _doing(state._replace(frame=taken), place, Worker(doing, frame.act, taken.epoch))


def _run(state: State, rules: Rules, place: int, worker: Worker) -> Iterator[tuple[str, State]]:
    if rules.hole == "told before it is stored":
        yield "send early", _send(state, rules, Message("complete", worker.epoch, -1))
    if rules.hole == "failed before it is stored":
        _check_report(state.frame, worker.epoch)
    if worker.doing == "run" and rules.mode == "external":
        # A frame is durable, so the call goes out; whether its answer comes back is another matter.
        key = worker.epoch if rules.hole == "a key per attempt" else 1
        if state.calls and (rules.on_unknown == "hold" and not state.resolves):
            raise Broken("CALLED_TWICE")
        if state.calls and key != state.calls:
            raise Broken("TWO_KEYS")
        yield "call", _doing(state, place, worker._replace(doing="called"))._replace(calls=key)
    elif worker.doing == "run" and rules.hole == "the verb commits for itself":
        yield "effect", _doing(state._replace(effects=_once(state)), place, worker._replace(doing="called"))
    else:
        yield from _pop(state, rules, place, worker)
    if worker.doing == "run":
        yield from _end(state, rules, place, worker, "give back")
    for ending in ("fail", "stop") if worker.doing == "called" or rules.mode == "transactional" else ():
        if rules.on_unknown != "hold" or ending == "stop":
            yield from _end(state, rules, place, worker, ending)


def _pop(state: State, rules: Rules, place: int, worker: Worker) -> Iterator[tuple[str, State]]:
    """T5: with a transactional verb the effect is in the same commit, or in none."""
    if rules.is_fenced(state, place):
        yield "fenced", _doing(state, place, Worker())
        return
    frame = state.frame
    assert frame is not None
    if frame.epoch != worker.epoch and rules.hole == "a verdict is fenced by state only":
        raise Broken("RECORDED_BY_A_ZOMBIE")
    popped = state._replace(frame=frame._replace(state="completed", is_live=False, output=worker.epoch))
    if rules.mode == "transactional" and rules.hole != "the verb commits for itself":
        popped = popped._replace(effects=_once(state))
    yield "pop", _doing(popped, place, worker._replace(doing="tell"))
    yield "pop unheard", _doing(popped, place, worker._replace(doing="settle"))
    yield "pop lost", _doing(state, place, worker._replace(doing="settle"))


def _end(state: State, rules: Rules, place: int, worker: Worker, ending: str) -> Iterator[tuple[str, State]]:
    """T6, T7 and T14. The last retry is never spent on a retry."""
    if rules.is_fenced(state, place):
        yield "fenced", _doing(state, place, Worker())
        return
    frame = state.frame
    assert frame is not None
    if frame.epoch != worker.epoch and rules.hole == "a verdict is fenced by state only":
        raise Broken("RECORDED_BY_A_ZOMBIE")
    ended = frame._replace(state="failed", is_live=False)
    doing = "tell retry"
    if ending == "stop" or (ending == "fail" and frame.retries == 1):
        ended, doing = ended._replace(state="incident"), "tell hold"
    elif ending == "fail":
        ended = ended._replace(retries=frame.retries - 1)
    else:
        ended = ended._replace(runs=max(frame.runs - 1, 0), is_due=True)
    yield ending, _doing(state._replace(frame=ended), place, worker._replace(doing=doing))


def _once(state: State) -> int:
    if state.effects:
        raise Broken("EFFECT_TWICE")
    return 1


def _settle(state: State, rules: Rules, place: int, worker: Worker) -> State:
    """C5: a lost answer is looked up, never guessed. What an external call answered is still at hand."""
    frame = state.frame
    if frame is None or (frame.epoch, frame.owner) != (worker.epoch, place):
        return _doing(state, place, Worker())
    again = "called" if rules.mode == "external" else "run"
    return _doing(state, place, worker._replace(doing="tell" if frame.state == "completed" else again))


def _check_report(frame: Frame | None, epoch: int) -> None:
    if frame is None or (frame.epoch <= epoch and frame.state not in ("failed", "incident")):
        raise Broken("FAILED_WITHOUT_RECORD")


def _reported(state: State, epoch: int) -> State:
    """T10: what was activated by now was activated before the report."""
    frame = state.frame
    if frame is None or frame.epoch != epoch or frame.state not in ("failed", "incident"):
        return state
    return state._replace(frame=frame._replace(reported=state.last_act))


def _send(state: State, rules: Rules, message: Message) -> State:
    if message in state.messages or len(state.messages) >= rules.in_flight:
        return state  # the same once more, or lost on the way
    return state._replace(messages=(*state.messages, message))


def _doing(state: State, place: int, worker: Worker) -> State:
    workers = state.workers
    return state._replace(workers=(*workers[:place], worker, *workers[place + 1 :]))


def _crash(state: State, place: int) -> State:
    """The process dies; its next boot is somebody else to the frame."""
    frame = state.frame
    if frame is not None and frame.owner == place:
        frame = frame._replace(owner=-1)
    messages = tuple(one._replace(sender=-1) if one.sender == place else one for one in state.messages)
    return _doing(state, place, Worker())._replace(frame=frame, messages=messages)
