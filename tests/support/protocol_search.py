"""Searches the whole space of the frame protocol: every state it can reach, and whether each can still end well."""

from collections import deque
from dataclasses import dataclass

from tests.support.protocol import Broken, Message, Rules, State, Worker, steps


@dataclass(frozen=True, slots=True)
class Found:
    """What a search saw."""

    states: int
    broken: str | None
    path: tuple[str, ...]
    stuck: int


def search(rules: Rules, *, limit: int = 2_000_000) -> Found:
    """Visit every state breadth first; stop at the first that breaks an invariant, with the shortest way to it."""
    first = _normal(State())
    index = {first: 0}
    names: dict[State, int] = {}  # states as they come, because renumbering each costs more than remembering it
    parents: list[tuple[int, str]] = [(-1, "")]
    arrivals: list[list[int]] = [[]]
    ends: list[int] = []
    queue = deque([first])
    while queue:
        state = queue.popleft()
        here = index[state]
        try:
            _check(state)
            for name, following in steps(state, rules):
                place = names.get(following, -1)
                if place < 0:
                    place = names[following] = _visit(_normal(following), index, queue)
                if place == len(parents):
                    parents.append((here, name))
                    arrivals.append([])
                arrivals[place].append(here)
        except Broken as broken:
            return Found(len(index), str(broken), _path(parents, here), 0)
        if state.job in ("done", "incident") or _is_unknown(state, rules):
            ends.append(here)
        assert len(index) < limit, "the space is larger than expected"
    return Found(len(index), None, (), len(index) - _backwards(ends, arrivals))


def _is_unknown(state: State, rules: Rules) -> bool:
    """Whether a job was handed out and never claimed: without the engine's timeout no sweep can know of it."""
    return not rules.times_out and state.frame is None and state.job == "active"


def _visit(state: State, index: dict[State, int], queue: deque[State]) -> int:
    place = index.get(state)
    if place is None:
        place = index[state] = len(index)
        queue.append(state)
    return place


def _check(state: State) -> None:
    """What must hold in every state by itself."""
    frame = state.frame
    if state.job == "done":
        if frame is None or frame.state != "completed":
            raise Broken("COMPLETED_WITHOUT_RECORD")
        if state.told != frame.output:
            raise Broken("TOLD_SOMETHING_ELSE")
    if state.effects and (frame is None or frame.state != "completed"):
        raise Broken("EFFECT_WITHOUT_RECORD")


def _path(parents: list[tuple[int, str]], at: int) -> tuple[str, ...]:
    names = []
    while at > 0:
        at, name = parents[at]
        names.append(name)
    return tuple(reversed(names))


def _backwards(ends: list[int], arrivals: list[list[int]]) -> int:
    """How many states can still reach an end."""
    reached = bytearray(len(arrivals))
    queue = list(ends)
    for place in queue:
        reached[place] = 1
    while queue:
        for before in arrivals[queue.pop()]:
            if not reached[before]:
                reached[before] = 1
                queue.append(before)
    return sum(reached)


def _normal(state: State) -> State:
    """The same situation by other names: numbers become ranks, and the two workers may change places."""
    frame, (left, right), messages = state.frame, state.workers, state.messages
    acts = {0, state.last_act, left.act, right.act}
    epochs = {0, state.told, left.epoch, right.epoch}
    for message in messages:
        epochs.add(message.number)
    if frame is not None:
        acts |= {frame.act, frame.reported}
        epochs |= {frame.epoch, frame.output}
    if max(acts) >= len(acts) or max(epochs) >= len(epochs):
        state = _renumbered(state, acts, epochs)
        left, right = state.workers
    elif len(messages) > 1:
        state = state._replace(messages=tuple(sorted(messages)))
    return state if left <= right else _swapped(state)


def _renumbered(state: State, acts: set[int], epochs: set[int]) -> State:
    act = {number: rank for rank, number in enumerate(sorted(acts))}
    epoch = {number: rank for rank, number in enumerate(sorted(epochs))}
    frame = state.frame
    if frame is not None:
        frame = frame._replace(
            epoch=epoch[frame.epoch],
            act=act[frame.act],
            reported=act[frame.reported],
            output=epoch[frame.output],
        )
    left, right = state.workers
    return state._replace(
        told=epoch[state.told],
        last_act=act[state.last_act],
        frame=frame,
        workers=(
            Worker(left.doing, act[left.act], epoch[left.epoch]),
            Worker(right.doing, act[right.act], epoch[right.epoch]),
        ),
        messages=tuple(sorted(Message(one.kind, epoch[one.number], one.sender) for one in state.messages)),
    )


def _swapped(state: State) -> State:
    other = {0: 1, 1: 0, -1: -1}
    frame = state.frame
    if frame is not None:
        frame = frame._replace(owner=other[frame.owner])
    messages = tuple(sorted(one._replace(sender=other[one.sender]) for one in state.messages))
    return state._replace(frame=frame, workers=(state.workers[1], state.workers[0]), messages=messages)
