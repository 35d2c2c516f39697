"""Random models that are sound because of how they are built: each block has one way in and one way out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import strategies as st

from tests.support.drawing import Drawing, listeners


@dataclass(frozen=True)
class Step:
    """A task, perhaps with listeners, perhaps with an event at its boundary: error, timer or timer beside."""

    boundary: str = ""
    is_listened: bool = False


@dataclass(frozen=True)
class Wait:
    """A catch event: for a time or for a message."""

    kind: str


@dataclass(frozen=True)
class Row:
    """One block after the other."""

    blocks: tuple["Block", ...]


@dataclass(frozen=True)
class Choice:
    """One of several blocks."""

    ways: tuple["Block", ...]


@dataclass(frozen=True)
class Fork:
    """Several blocks side by side."""

    branches: tuple["Block", ...]


@dataclass(frozen=True)
class Loop:
    """A task and a block, again and again while a flag says so."""

    body: "Block"


@dataclass(frozen=True)
class Box:
    """A subprocess, perhaps with an event at its boundary."""

    body: "Block"
    boundary: str = ""


Block = Step | Wait | Row | Choice | Fork | Loop | Box

_BOUNDARIES = ("", "", "error", "timer", "beside")


def _wider(inner: st.SearchStrategy[Block]) -> st.SearchStrategy[Block]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(Row),
        several.map(Choice),
        several.map(Fork),
        inner.map(Loop),
        st.builds(Box, inner, st.sampled_from(_BOUNDARIES)),
    )


def blocks() -> st.SearchStrategy[Block]:
    """Blocks of every kind, nested a few deep."""
    leaves: st.SearchStrategy[Block] = st.one_of(
        st.builds(Step, st.sampled_from(_BOUNDARIES), st.booleans()), st.builds(Wait, st.sampled_from(("time", "mail")))
    )
    return st.recursive(leaves, _wider, max_leaves=10)


@dataclass
class Sound:
    """A model that was drawn from a block, its flags, and how much of the whole each node stands for.

    A fork of three gives each branch a third. Whatever happens, the shares of the tokens that live add up to one: a
    token that is lost, doubled or let through a join too early is seen at once. What runs beside has no share.
    """

    drawing: Drawing
    shares: dict[str, Fraction] = field(default_factory=dict)
    choices: dict[str, int] = field(default_factory=dict)  # a flag and how many values it may have
    loops: list[str] = field(default_factory=list)
    _names: int = 0

    def name(self, kind: str, share: Fraction) -> str:
        """A name nobody has."""
        self._names += 1
        name = f"{kind}{self._names}"
        self.shares[name] = share
        return name


def drawn(block: Block) -> Sound:
    """The model of one block."""
    sound = Sound(Drawing())
    whole = Fraction(1)
    sound.shares |= {"begin": whole, "end": whole}
    sound.drawing.start()
    _draw(sound, sound.drawing, block, "begin", "end", whole)
    sound.drawing.end()
    return sound


def _draw(sound: Sound, on: Drawing, block: Block, source: str, target: str, share: Fraction) -> None:
    """Draw a block between two nodes."""
    match block:
        case Step(boundary, is_listened):
            name = sound.name("task", share)
            around = listeners(("start", f"before_{name}"), ("end", f"after_{name}")) if is_listened else ""
            on.task(name, listeners=around).flow(source, name, target)
            _attach(sound, on, boundary, name, target, share)
        case Wait(kind):
            name = sound.name("wait", share)
            on.catch(name, timer="PT1M" if kind == "time" else "", message="mail" if kind == "mail" else "")
            on.flow(source, name, target)
        case Row(inner):
            _draw_row(sound, on, inner, source, target, share)
        case Choice(ways):
            _draw_choice(sound, on, ways, source, target, share)
        case Fork(branches):
            _draw_fork(sound, on, branches, source, target, share)
        case Loop(body):
            _draw_loop(sound, on, body, source, target, share)
        case Box(body, boundary):
            inside, name = Drawing(), sound.name("box", share)
            first, last = sound.name("in", share), sound.name("out", share)
            inside.start(first).end(last)
            _draw(sound, inside, body, first, last, share)
            on.subprocess(name, inside).flow(source, name, target)
            _attach(sound, on, boundary, name, target, share)


def _attach(sound: Sound, on: Drawing, boundary: str, host: str, target: str, share: Fraction) -> None:
    if not boundary:
        return
    is_beside = boundary == "beside"
    own = Fraction(0) if is_beside else share
    event, rescue = sound.name("event", own), sound.name("task", own)
    if boundary == "error":
        on.boundary(event, host, error="NO")
    else:
        on.boundary(event, host, timer="R2/PT1M" if is_beside else "PT1M", interrupting=not is_beside)
    if is_beside:
        target = sound.name("end", own)
        on.end(target)
    on.task(rescue).flow(event, rescue, target)


def _draw_row(sound: Sound, on: Drawing, blocks: Sequence[Block], source: str, target: str, share: Fraction) -> None:
    for block in blocks[:-1]:
        between = sound.name("then", share)
        on.plain(between)
        _draw(sound, on, block, source, between, share)
        source = between
    _draw(sound, on, blocks[-1], source, target, share)


def _draw_choice(sound: Sound, on: Drawing, ways: Sequence[Block], source: str, target: str, share: Fraction) -> None:
    split, merge = sound.name("split", share), sound.name("merge", share)
    flag = f"orch_{split}"
    sound.choices[flag] = len(ways)
    starts = [sound.name("way", share) for _ in ways]
    on.gateway("exclusive", split, default=f"{split}_{starts[-1]}").gateway("exclusive", merge)
    on.flow(source, split).flow(merge, target)
    for number, (way, start) in enumerate(zip(ways, starts, strict=True)):
        is_default = number == len(ways) - 1
        on.plain(start).flow(split, start, when="" if is_default else f"={flag} = {number}")
        _draw(sound, on, way, start, merge, share)


def _draw_fork(sound: Sound, on: Drawing, branches: Sequence[Block], source: str, target: str, share: Fraction) -> None:
    fork, join = sound.name("fork", share), sound.name("join", share)
    on.gateway("parallel", fork, join).flow(source, fork).flow(join, target)
    each = share / len(branches)
    for branch in branches:
        # A branch comes to the join by one arrow, though a boundary event may give it two ways out.
        start, end = sound.name("branch", each), sound.name("branch", each)
        on.plain(start).plain(end).flow(fork, start).flow(end, join)
        _draw(sound, on, branch, start, end, each)


def _draw_loop(sound: Sound, on: Drawing, body: Block, source: str, target: str, share: Fraction) -> None:
    top, turn = sound.name("top", share), sound.name("turn", share)
    work = sound.name("task", share)
    flag = f"orch_{turn}"
    sound.loops.append(flag)
    on.gateway("exclusive", top).task(work).gateway("exclusive", turn, default=f"{turn}_{target}")
    on.flow(source, top, work).flow(turn, top, when=f"={flag} = true").flow(turn, target)
    _draw(sound, on, body, work, turn, share)
