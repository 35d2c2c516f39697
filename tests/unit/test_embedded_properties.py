"""Whatever a sound model looks like and whatever is told to it, the kernel loses no token and makes none."""

import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.kernel import INSTANCE, Game
from tests.support.sound_models import Block, Sound, blocks, drawn
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import TargetMissing
from verbworker.engine.embedded.kernel.state import State, Token
from verbworker.engine.embedded.kernel.step import step

MOST_MOVES = 400
ROUNDS = 2  # of every loop, so that a walk ends

seeds = st.integers(0, 2**32)
sound = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Walk:
    """A walk through a model by a die: jobs are completed, failed or thrown, timers fire, messages come."""

    sound: Sound
    dice: random.Random
    said: list[told.Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.game = Game(self.sound.drawing)
        self._left = dict.fromkeys(self.sound.loops, ROUNDS)
        self.say(told.Begin({"corr_key": "k", **self._flags()}))

    def say(self, command: told.Command) -> None:
        self.said.append(command)
        self.game.tell(command)

    def move(self) -> None:
        """Say one thing that may be said now."""
        state = self.game.state
        moves: list[told.Command] = [told.CompleteJob(job, self._flags()) for job in state.jobs]
        moves += [told.Fire(key) for key, wait in state.waits.items() if wait.due is not None]
        moves += [told.Deliver(key, {"orch_mail": key}) for key, wait in state.waits.items() if wait.due is None]
        held = {incident.job for incident in state.incidents.values()}
        if self.dice.random() < 0.2:
            moves += [told.ExhaustJob(job, "no") for job in state.jobs if job not in held]
            works = [job for job in state.jobs if not self.game.jobs[job].type.startswith(("before", "after"))]
            moves += [told.ThrowError(job, "NO") for job in works if job not in held]
        command = self.dice.choice(sorted(moves, key=repr))
        if isinstance(command, told.CompleteJob) and command.job in held:
            command = told.Resolve(next(key for key, known in state.incidents.items() if known.job == command.job))
        self.say(command)

    def _flags(self) -> dict[str, Any]:
        flags: dict[str, Any] = {flag: self.dice.randrange(ways) for flag, ways in self.sound.choices.items()}
        for flag, left in self._left.items():
            flags[flag] = left > 0 and self.dice.random() < 0.5
            self._left[flag] = left - flags[flag]
        return flags


def share_of_all(sound: Sound, state: State) -> Fraction:
    """What the tokens that live stand for together, those at a join included."""
    model = "".join(sound.drawing.parts)
    total = Fraction(0)
    for token in leaves(state):
        flows = model.count(f'targetRef="{token.node}"') if token.flow else 1
        total += sound.shares[token.node] / flows
    return total


def leaves(state: State) -> list[Token]:
    """The tokens that stand for something: a scope does not, its tokens do, be they at a join."""
    scopes = {token.parent for token in state.tokens.values()}
    return [token for token in state.tokens.values() if token.key not in scopes]


def check(walk: Walk) -> None:
    state = walk.game.state
    if walk.game.ended is not None:
        assert (state.tokens, state.jobs, state.waits, state.incidents, state.forks) == ({}, {}, {}, {}, {})
        return
    assert INSTANCE in state.tokens
    for token in state.tokens.values():
        assert token.parent in state.tokens or token.key == INSTANCE
        assert token.job == 0 or state.jobs[token.job] == token.key
    assert {wait.token for wait in state.waits.values()} <= set(state.tokens)
    assert {incident.token for incident in state.incidents.values()} <= set(state.tokens)
    assert is_alive(state)
    # Something that runs beside may be all that is left of a scope.
    is_beside = any(walk.sound.shares[token.node] == 0 for token in leaves(state))
    share = share_of_all(walk.sound, state)
    assert share <= 1 if is_beside else share == 1


def is_alive(state: State) -> bool:
    """Every token that has no token inside waits for something, so that an instance that lives can go on."""
    waiting = {wait.token for wait in state.waits.values()} | set(state.jobs.values())
    return all(token.key in waiting or token.flow for token in leaves(state))


def walked(block: Block, seed: int, moves: int = MOST_MOVES) -> Walk:
    walk = Walk(drawn(block), random.Random(seed))
    check(walk)
    while walk.game.ended is None and len(walk.said) < moves:
        walk.move()
        check(walk)
    return walk


@sound
@given(blocks(), seeds)
def test_no_token_is_lost_or_doubled_and_the_instance_ends_with_the_last(block: Block, seed: int) -> None:
    walk = walked(block, seed)

    assert walk.game.ended == "completed"


@sound
@given(blocks(), seeds)
def test_the_same_commands_give_the_same_state(block: Block, seed: int) -> None:
    walk = walked(block, seed, moves=25)
    state = State(INSTANCE)

    for command in walk.said:
        state, _ = step(walk.game.definition, state, command, walk.game.now)

    assert state == walk.game.state


@sound
@given(blocks(), seeds)
def test_a_command_that_comes_twice_changes_nothing(block: Block, seed: int) -> None:
    walk = walked(block, seed, moves=12)
    before = walk.game.state.copy()
    ended = [told.CompleteJob(c.job) for c in walk.said if isinstance(c, told.CompleteJob)]

    for command in ended:
        with pytest.raises(TargetMissing):
            walk.game.tell(command)

    assert walk.game.state == before


@sound
@given(blocks(), seeds, st.integers(1, 12))
def test_a_cancelled_instance_leaves_nothing(block: Block, seed: int, moves: int) -> None:
    walk = walked(block, seed, moves)
    if walk.game.ended is None:
        walk.say(told.Cancel())

    check(walk)
    assert walk.game.ended is not None
