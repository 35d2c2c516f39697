"""Tokens of the kernel against a slow model of the execution model's text, and each rule that the text gives them."""

import ast
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypeGuard

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.drawing import Drawing
from tests.support.kernel import INSTANCE, Game
from tests.support.token_model import LIFE, Kind, Step, TokenTable, shapes
from verbworker.engine.embedded import kernel
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel import token_life as lives
from verbworker.engine.embedded.kernel.commands import TargetMissing
from verbworker.engine.embedded.kernel.state import Token
from verbworker.engine.embedded.kernel.token_life import IllegalTransition, TokenMode, TokenStatus

ENDS = ("completed", "failed", "terminated")
KINDS: tuple[Kind, ...] = ("task", "person")


# ---- plans, and the same plan as a drawing -------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> tuple[Step, ...]:
    numbers = count()

    def steps(depth: int) -> tuple[Step, ...]:
        return tuple(step(depth) for _ in range(draw(st.integers(1, 3 if depth else 2))))

    def step(depth: int) -> Step:
        name = f"n{next(numbers)}"
        if depth == 0 or draw(st.booleans()):
            return Step(name, draw(st.sampled_from(KINDS)))
        return Step(name, branches=tuple(steps(depth - 1) for _ in range(draw(st.integers(2, 3)))))

    return steps(2)


def draw_plan(plan: tuple[Step, ...]) -> Drawing:
    drawing = Drawing().start().end()

    def line(steps: tuple[Step, ...], before: str, after: str) -> None:
        for step in steps:
            drawing.flow(before, step.name)
            before = step.name
            if step.branches:
                before = f"{step.name}_join"
                drawing.gateway("parallel", step.name, before)
                for branch in step.branches:
                    line(branch, step.name, before)
            elif step.kind == "person":
                drawing.user_task(step.name)
            else:
                drawing.task(step.name)
        drawing.flow(before, after)

    line(plan, "begin", "end")
    return drawing


class Pair:
    """The kernel and the model, told the same."""

    def __init__(self, plan: tuple[Step, ...]) -> None:
        self.game, self.table = Game(draw_plan(plan)), TokenTable()
        self.done: list[int] = []
        self.game.begin()
        self.table.begin(plan)
        self.compare()

    def compare(self) -> None:
        state = self.game.state
        known = [
            (token.node, token.life.status.value, token.life.groups, token.life.version)
            for token in state.tokens.values()
            if token.key != INSTANCE
        ]
        known += [
            (node, ENDS[code % 3], tuple(groups), version)
            for _, node, code, version, _, _, *groups in state.ended
            if node not in ("begin", "end")
        ]
        rows = [(row.node, row.status, row.group, row.version) for row in self.table.rows]
        assert shapes(known) == shapes(rows)

    def do(self, dice: random.Random) -> None:
        job = dice.choice(sorted(self.game.jobs))
        node = self.game.jobs[job].node
        held = {incident.job: incident.key for incident in self.game.state.incidents.values()}
        if job in held:
            self.game.tell(told.Resolve(held[job]))
            self.table.repair(node)
        elif (roll := dice.random()) < 0.6 or self._is_person(node):
            self.game.complete_key(job)
            self.table.complete(node)
            self.done.append(job)
        elif roll < 0.8:
            backoff = dice.random() < 0.5
            self.game.tell(told.FailJob(job, 2, 5000 if backoff else 0))
            self.table.fail(node, backoff=backoff)
        else:
            self.game.tell(told.ExhaustJob(job, "no"))
            self.table.give_up(node)
        self.compare()

    def _is_person(self, node: str) -> bool:
        return self.game.definition.nodes[node].job_type == "io.camunda.zeebe:userTask"


def moved(plan: tuple[Step, ...], seed: int, most: int = 200) -> Pair:
    pair, dice = Pair(plan), random.Random(seed)
    while pair.game.ended is None and most:
        pair.do(dice)
        most -= 1
    return pair


sound = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32)


@pytest.mark.req("TOK-01", "TOK-03", "TOK-10", "TOK-11", "TOK-12", "TOK-13", "TOK-16")
@sound
@given(plans(), seeds)
def test_every_token_is_where_the_model_of_the_text_has_it(plan: tuple[Step, ...], seed: int) -> None:
    pair = moved(plan, seed)

    assert pair.game.ended == "completed"
    assert pair.table.live() == []
    assert pair.table.joined == set(pair.table.expected)


@pytest.mark.req("TOK-04", "TOK-17")
@sound
@given(plans(), seeds, st.integers(0, 20))
def test_what_is_told_twice_or_too_late_moves_no_token(plan: tuple[Step, ...], seed: int, moves: int) -> None:
    pair = moved(plan, seed, moves)
    if pair.game.ended is None:
        pair.game.cancel()
        pair.table.cancel()
        pair.compare()
    for job in [*pair.done, *pair.game.state.jobs]:
        with pytest.raises(TargetMissing):
            pair.game.complete_key(job)

    pair.compare()
    assert pair.game.state.tokens == {}


# ---- one token's life ----------------------------------------------------------------------------------------------


@pytest.mark.req("TOK-03", "X-21")
def test_the_transitions_are_those_of_the_text_and_each_has_a_name() -> None:
    known = {status.value: set[str]() for status in TokenStatus}
    for transition in lives.TRANSITIONS:
        for source in transition.sources:
            known[source.value].add(transition.target.value)

    assert known == LIFE
    names = [transition.event for transition in lives.TRANSITIONS]
    assert len(set(names)) == len(names)
    assert {"TokenScheduled", "TokenClaimed", "TokenBlocked", "TokenCompleted", "TokenFailed", "TokenTerminated"} <= {
        *names
    }


@pytest.mark.req("TOK-03", "TOK-04")
@pytest.mark.parametrize("transition", lives.TRANSITIONS, ids=lambda one: one.event)
def test_a_transition_from_any_other_status_is_refused(transition: lives.Transition) -> None:
    fresh = lives.make_life(TokenMode.FORWARD, (7,), 1000)
    for status in TokenStatus:
        life = fresh._replace(status=status)
        if status in transition.sources:
            assert transition.apply(life, 2000) == (transition.target, TokenMode.FORWARD, (7,), 2, 2000)
        else:
            with pytest.raises(IllegalTransition, match=transition.event):
                transition.apply(life, 2000)


def walks() -> dict[str, Callable[[], Game]]:
    boundary = Drawing().start().task("a").boundary("late", "a", timer="PT1H").end().task("b")
    boundary.flow("begin", "a", "end").flow("late", "b", "end")
    return {
        "fork": lambda: Game(draw_plan(NESTED)).begin(),
        "timer": lambda: Game(Drawing().start().catch("c", timer="PT1H").end().flow("begin", "c", "end")).begin(),
        "boundary": lambda: Game(boundary).begin().fire("late"),
        "stuck": lambda: Game(
            Drawing()
            .start()
            .gateway("exclusive", "g")
            .task("l")
            .end()
            .flow("begin", "g")
            .flow("g", "l", when="=orch_x")
            .flow("l", "end")
        ).begin(orch_x=False),
    }


NESTED = (
    Step(
        "outer", branches=((Step("a"), Step("inner", branches=((Step("b"),), (Step("c"),))), Step("d")), (Step("e"),))
    ),
)


@pytest.mark.req("TOK-04", "TOK-19")
@pytest.mark.parametrize("walk", walks(), ids=str)
def test_no_token_is_stored_as_executing(walk: str) -> None:
    game = walks()[walk]()

    statuses = {token.life.status for token in game.state.tokens.values()}
    assert statuses <= {TokenStatus.READY, TokenStatus.WAITING, TokenStatus.FAILED}


def token_at(game: Game, node: str) -> Token:
    (token,) = [token for token in game.state.tokens.values() if token.node == node]
    return token


def names(game: Game, key: int) -> list[str]:
    return [event for event, token, _ in game.events if token == key]


@pytest.mark.req("TOK-14")
@pytest.mark.parametrize(
    ("drawing", "node"),
    [
        (Drawing().start().catch("w", timer="PT1H").end().flow("begin", "w", "end"), "w"),
        (Drawing().start().catch("w", message="m").end().flow("begin", "w", "end"), "w"),
        (Drawing().start().user_task("w").end().flow("begin", "w", "end"), "w"),
    ],
    ids=["timer", "external signal", "user task"],
)
def test_a_token_waits_until_its_event_and_only_then_goes_on(drawing: Drawing, node: str) -> None:
    game = Game(drawing).begin(corr_key="k")
    token = token_at(game, node)
    assert token.life.status is TokenStatus.WAITING
    game.events.clear()

    if token.job:
        game.complete_key(token.job)
    else:
        game.fire(node)

    assert names(game, token.key) == ["TokenResumed", "TokenClaimed", "TokenCompleted"]


@pytest.mark.req("TOK-15", "TOK-16", "TOK-14")
def test_a_failure_is_an_event_and_the_same_token_is_tried_again_by_a_timer() -> None:
    game = Game(Drawing().start().task("a").end().flow("begin", "a", "end")).begin()
    before, job = token_at(game, "a"), game.job("a")
    game.events.clear()

    game.tell(told.FailJob(job, 2, 30_000))
    waiting = token_at(game, "a")
    rested = game.effects

    assert names(game, before.key) == ["TokenClaimed", "TokenFailed", "TokenRested"]
    assert (waiting.key, waiting.job, waiting.life.status) == (before.key, before.job, TokenStatus.WAITING)
    assert rested == [told.JobRested(job, "a", 2, 30_000)]
    assert game.complete("a").ended == "completed"


@pytest.mark.req("TOK-15")
def test_an_error_that_is_caught_ends_its_token_as_failed_and_raises_nothing() -> None:
    drawing = Drawing().start().task("a").boundary("no", "a", error="NO").task("b").end()
    game = Game(drawing.flow("begin", "a", "end").flow("no", "b", "end")).begin()
    key = token_at(game, "a").key

    game.throw("a", "NO")

    assert names(game, key)[-1] == "TokenFailed"
    assert [row[1:3] for row in game.state.ended if row[1] == "a"] == [("a", ENDS.index("failed"))]
    assert game.open_jobs() == ["b"]


@pytest.mark.req("TOK-02", "TOK-10", "TOK-11")
def test_children_of_a_fork_share_the_group_of_their_parent_which_is_completed() -> None:
    game = Game(draw_plan(NESTED)).begin()
    a, e = token_at(game, "a"), token_at(game, "e")
    (outer,) = a.life.groups

    game.complete("a")
    b, c = token_at(game, "b"), token_at(game, "c")

    assert e.life.groups == (outer,)
    assert b.life.groups == c.life.groups
    assert b.life.groups[:-1] == (outer,)
    assert {INSTANCE + row[0]: row[1:3] for row in game.state.ended}[outer] == ("outer", ENDS.index("completed"))
    assert game.state.forks == {outer: "outer", b.life.groups[-1]: "inner"}


@pytest.mark.req("TOK-11", "TOK-12", "X-19")
def test_tokens_of_two_passes_through_one_fork_do_not_join_each_other() -> None:
    drawing = Drawing().start().task("host").boundary("tick", "host", timer="R2/PT1M", interrupting=False)
    drawing.gateway("parallel", "split", "join").task("l").task("r").task("after").end("end", "done")
    drawing.flow("begin", "host", "done").flow("tick", "split", "l", "join", "after", "end").flow("split", "r", "join")
    game = Game(drawing).begin().fire("tick").fire("tick")
    jobs = {
        (job.type, groups_of(game, job.element_instance)): key for key, job in game.jobs.items() if job.type in "lr"
    }
    first, second = sorted({groups for _, groups in jobs})

    game.complete_key(jobs["l", first]).complete_key(jobs["r", second])
    assert "after" not in game.open_jobs()

    game.complete_key(jobs["r", first])
    assert game.open_jobs().count("after") == 1
    game.complete_key(jobs["l", second])
    assert game.open_jobs().count("after") == 2


def groups_of(game: Game, key: int) -> tuple[int, ...]:
    return game.state.tokens[key].life.groups


@pytest.mark.req("TOK-17")
def test_the_last_of_a_branch_ends_while_another_lives_and_the_instance_lives_on() -> None:
    drawing = Drawing().start().gateway("parallel", "split").task("a").task("b").end("x", "y")
    game = Game(drawing.flow("begin", "split", "a", "x").flow("split", "b", "y")).begin()

    game.complete("a")
    assert (game.ended, [token.node for token in game.state.tokens.values()]) == (None, ["", "b"])

    assert game.complete("b").ended == "completed"


@pytest.mark.req("TOK-04")
def test_a_token_that_was_terminated_before_its_turn_is_never_scheduled() -> None:
    drawing = Drawing().start().gateway("parallel", "split").terminate_end("over").task("b").end()
    game = Game(drawing.flow("begin", "split", "over").flow("split", "b", "end")).begin()

    assert (game.ended, game.open_jobs()) == ("completed", [])
    assert [row[2] for row in game.state.ended if row[1] == "b"] == [ENDS.index("terminated")]


# ---- what a step may not do ------------------------------------------------------------------------------------------

KERNEL = Path(kernel.__file__).parent
PURE = {
    *("ast", "collections", "copy", "dataclasses", "datetime", "enum", "itertools", "json", "re", "types", "typing"),
    *("verblint", "functools", "operator", "math", "decimal", "orjson", "isodate"),
}
OURS = (
    "verbworker.engine.embedded.kernel",
    "verbworker.engine.protocol",
    "verbworker.model",
    "verbworker.errors",
    "verbworker.job",
)


def trees() -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text()) for path in KERNEL.glob("*.py")}


@pytest.mark.req("TOK-09", "X-22")
def test_a_step_waits_for_nothing_and_calls_nothing_outside() -> None:
    found: list[tuple[str, str | int]] = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncWith | ast.AsyncFor):
                found.append((name, node.lineno))
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            found += [(name, one) for one in imported if one.split(".")[0] not in PURE and not one.startswith(OURS)]

    assert found == []


@pytest.mark.req("TOK-09")
def test_a_command_is_handled_by_one_handler_that_calls_no_other() -> None:
    (run,) = [node for node in trees()["step.py"].body if isinstance(node, ast.ClassDef)]
    methods = {node.name: node for node in run.body if isinstance(node, ast.FunctionDef)}
    handlers = calls_in(methods["apply"]) & methods.keys() - {"_drain", "_token_of_job"}
    reached, rest = set[str](), [name for handler in handlers for name in calls_in(methods[handler])]
    while rest:
        name = rest.pop()
        if name in methods and name not in reached:
            reached.add(name)
            rest += calls_in(methods[name])

    assert handlers >= {"_begin", "_complete", "_retry", "_thrown", "_fire", "_resolve", "_cancel"}
    assert reached & handlers == set()


def calls_in(method: ast.FunctionDef) -> set[str]:
    return {node.func.attr for node in ast.walk(method) if isinstance(node, ast.Call) and is_own(node.func)}


def is_own(function: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "self"


@pytest.mark.req("TOK-03")
def test_one_function_alone_changes_what_a_token_lives() -> None:
    changed = [
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "life" and isinstance(node.ctx, ast.Store)
    ]

    # The upgrade of an older document gives its tokens their first life.
    assert sorted(changed) == ["state_document.py", "token_moves.py"]


# ---- compensation --------------------------------------------------------------------------------------------------


def undoing() -> Drawing:
    drawing = Drawing().start().gateway("parallel", "split", "join").task("a").task("b").task("c").task("later").end()
    for name in "abc":
        drawing.compensated(name, f"back_{name}")
    drawing.compensate("undo").flow("begin", "split", "a", "join").flow("split", "b", "join")
    return drawing.flow("join", "c", "undo", "later", "end")


@pytest.mark.req("TOK-18")
def test_compensation_walks_in_its_own_mode_youngest_first_and_only_over_what_was_done() -> None:
    game = Game(undoing()).begin().complete("b").complete("a").complete("c")
    seen = []
    while game.open_jobs()[0].startswith("back"):
        (kind,) = game.open_jobs()
        seen.append((kind, token_at(game, kind).life.mode))
        assert token_at(game, "undo").life == replace_status(token_at(game, "undo"), TokenStatus.WAITING)
        game.complete(kind)

    assert seen == [(f"back_{name}", TokenMode.COMPENSATION) for name in "cab"]
    assert token_at(game, "later").life.mode is TokenMode.FORWARD


def replace_status(token: Token, status: TokenStatus) -> lives.Life:
    return token.life._replace(status=status, mode=TokenMode.FORWARD)


@pytest.mark.req("TOK-18")
def test_a_compensation_that_fails_starts_no_further_one() -> None:
    game = Game(undoing()).begin().complete("b").complete("a").complete("c").complete("back_c")

    game.exhaust("back_a")

    assert game.open_jobs() == ["back_a"]
    assert token_at(game, "back_a").life.status is TokenStatus.FAILED


@pytest.mark.req("TOK-18")
def test_what_failed_leaves_nothing_to_compensate() -> None:
    drawing = Drawing().start().task("a").boundary("no", "a", error="NO").end().compensate("undo", end=True)
    drawing.compensated("a", "back_a")
    game = Game(drawing.flow("begin", "a", "end").flow("no", "undo")).begin()

    assert game.throw("a", "NO").ended == "completed"
