"""Stories of gateways: which way, how many tokens, and what happens when a flag says nothing."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario


def choice(kind: str = "exclusive", *, default: bool = True, left: str = "=orch_a", right: str = "=orch_b") -> Drawing:
    drawing = Drawing().start().gateway(kind, "g", default="g_d" if default else "").task("l").task("r").task("d")
    drawing.end("e1", "e2", "e3").flow("begin", "g").flow("g", "l", when=left).flow("g", "r", when=right)
    drawing.flow("l", "e1").flow("r", "e2").flow("d", "e3")
    return drawing.flow("g", "d") if default else drawing.flow("begin", "d")


@scenario(choice())
async def the_last_condition_that_holds_wins(play: Play) -> None:
    await play.start(orch_a=True, orch_b=True)
    await play.lives("r")


@scenario(choice())
async def an_earlier_condition_may_win(play: Play) -> None:
    await play.start(orch_a=True, orch_b=False)
    await play.lives("l")


@scenario(choice())
async def the_default_is_taken_when_nothing_holds(play: Play) -> None:
    await play.start(orch_a=False, orch_b=False)
    await play.lives("d")


@scenario(choice())
async def a_condition_before_the_one_that_holds_is_not_looked_at(play: Play) -> None:
    await play.start(orch_b=True)
    await play.lives("r")


@scenario(choice())
async def a_bare_flag_that_is_unset_stops_the_token(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_a=True, orch_b=False)
    await play.lives("l")


@scenario(choice())
async def a_bare_flag_that_is_a_text_stops_the_token(play: Play) -> None:
    await play.start(orch_b="true", orch_a=True)
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_b=True)
    await play.lives("r")


@scenario(choice(right="=not(orch_b)"))
async def the_opposite_of_an_unset_flag_stops_the_token(play: Play) -> None:
    await play.start(orch_a=True)
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_b=False)
    await play.lives("r")


@scenario(choice(left='=orch_a = "yes"', right="=orch_b = 1"))
async def an_unset_flag_equals_nothing(play: Play) -> None:
    await play.start()
    await play.lives("d")


@scenario(choice(left="=orch_a != 1", right="=orch_b = 1"))
async def an_unset_flag_differs_from_everything(play: Play) -> None:
    await play.start()
    await play.lives("l")


@scenario(choice(left="=orch_b = 1", right="=orch_a > 5"))
async def an_unset_flag_is_neither_more_nor_less(play: Play) -> None:
    await play.start(orch_b=1)
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_a=6)
    await play.lives("r")


@scenario(choice(left="=orch_b = false", right="=orch_a and orch_b"))
async def one_false_decides_an_and(play: Play) -> None:
    await play.start(orch_b=False)
    await play.lives("l")


@scenario(choice(right="=orch_a or orch_b"))
async def one_true_decides_an_or(play: Play) -> None:
    await play.start(orch_b=True)
    await play.lives("r")


@scenario(choice(left="=orch_a = 1", right='=orch_a = "1"'))
async def a_text_cannot_be_compared_with_a_number(play: Play) -> None:
    await play.start(orch_a=1)
    await play.stands("EXTRACT_VALUE_ERROR")


def narrow(kind: str) -> Drawing:
    drawing = Drawing().start().gateway(kind, "g").task("l").task("r").end("e1", "e2").flow("begin", "g")
    drawing.flow("g", "l", when="=orch_a = 1").flow("g", "r", when="=orch_a = 2")
    return drawing.flow("l", "e1").flow("r", "e2")


@scenario(narrow("exclusive"))
async def without_a_way_out_the_token_waits_for_a_person(play: Play) -> None:
    await play.start(orch_a=3)
    await play.stands("CONDITION_ERROR")
    await play.resolve(orch_a=2)
    await play.lives("r")


@scenario(narrow("exclusive"))
async def an_incident_whose_cause_is_not_gone_comes_back(play: Play) -> None:
    await play.start(orch_a=3)
    await play.stands("CONDITION_ERROR")
    await play.resolve(orch_a=4)
    await play.stands("CONDITION_ERROR")
    await play.resolve(orch_a=1)
    await play.lives("l")


@scenario(narrow("inclusive"))
async def an_inclusive_gateway_without_a_way_out_waits_for_a_person(play: Play) -> None:
    await play.start(orch_a=3)
    await play.stands("CONDITION_ERROR")
    await play.resolve(orch_a=2)
    await play.lives("r")


@scenario(narrow("exclusive"))
async def an_instance_in_an_incident_can_be_cancelled(play: Play) -> None:
    await play.start(orch_a=3)
    await play.stands("CONDITION_ERROR")
    await play.cancel()
    await play.ends()


@scenario(choice("inclusive"))
async def an_inclusive_gateway_takes_every_way_that_holds(play: Play) -> None:
    await play.start(orch_a=True, orch_b=True)
    await play.lives("l", "r")
    await play.complete("l")
    await play.lives("r")
    await play.complete("r")
    await play.ends()


@scenario(choice("inclusive"))
async def an_inclusive_gateway_may_take_one_way(play: Play) -> None:
    await play.start(orch_a=False, orch_b=True)
    await play.lives("r")


@scenario(choice("inclusive"))
async def an_inclusive_gateway_has_a_default(play: Play) -> None:
    await play.start(orch_a=False, orch_b=False)
    await play.lives("d")


@scenario(choice("inclusive"))
async def an_inclusive_gateway_looks_at_every_condition(play: Play) -> None:
    await play.start(orch_a=True)
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_b=True)
    await play.lives("l", "r")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "join")
    .task("l")
    .task("r")
    .task("after")
    .end()
    .flow("begin", "fork", "l", "join", "after", "end")
    .flow("fork", "r", "join")
)
async def a_join_waits_for_every_branch_and_opens_once(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    await play.complete("r", orch_x="r")
    await play.lives("l")
    await play.complete("l", orch_y="l")
    await play.sees("after")
    assert play.carries("after") == {"orch_x": "r", "orch_y": "l"}
    await play.complete("after")
    await play.ends()


def crowded() -> Drawing:
    drawing = Drawing().start().gateway("parallel", "fork", "join").gateway("exclusive", "merge")
    drawing.task("a").task("b").task("slow").task("after").end()
    drawing.flow("begin", "fork", "a", "merge", "join", "after", "end").flow("fork", "b", "merge")
    return drawing.flow("fork", "slow", "join")


@scenario(crowded())
async def two_tokens_on_one_branch_open_no_join(play: Play) -> None:
    await play.start()
    await play.sees("a", "b", "slow")
    await play.complete("a")
    await play.complete("b")
    await play.lives("slow")
    await play.complete("slow")
    await play.lives("after")


@scenario(crowded())
async def a_token_that_is_left_at_a_join_keeps_the_instance(play: Play) -> None:
    await play.start()
    await play.sees("a", "b", "slow")
    await play.complete("a")
    await play.complete("b")
    await play.complete("slow")
    await play.sees("after")
    await play.complete("after")
    await play.lives()
    await play.cancel()
    await play.ends()


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "outer", "inner", "inner_join", "outer_join")
    .task("a")
    .task("b")
    .task("c")
    .task("after")
    .end()
    .flow("begin", "outer", "inner", "a", "inner_join", "outer_join", "after", "end")
    .flow("inner", "b", "inner_join")
    .flow("outer", "c", "outer_join")
)
async def forks_may_stand_in_forks(play: Play) -> None:
    await play.start()
    await play.sees("a", "b", "c")
    await play.complete("a")
    await play.complete("c")
    await play.lives("b")
    await play.complete("b")
    await play.lives("after")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "join")
    .task("a")
    .task("b")
    .task("alone")
    .task("after")
    .end("e1", "e2")
    .flow("begin", "fork", "a", "join", "after", "e1")
    .flow("fork", "b", "join")
    .flow("fork", "alone", "e2")
)
async def a_branch_need_not_come_to_the_join(play: Play) -> None:
    await play.start()
    await play.sees("a", "alone", "b")
    await play.complete("a")
    await play.complete("b")
    await play.sees("after", "alone")
    await play.complete("after")
    await play.lives("alone")
    await play.complete("alone")
    await play.ends()


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "join")
    .task("a")
    .task("after")
    .end()
    .flow("begin", "fork", "a", "join", "after", "end")
    .flow("fork", "join")
)
async def a_branch_may_be_empty(play: Play) -> None:
    await play.start()
    await play.lives("a")
    await play.complete("a")
    await play.lives("after")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "mixed")
    .task("a")
    .task("b")
    .task("c")
    .task("d")
    .end("e1", "e2")
    .flow("begin", "fork", "a", "mixed", "c", "e1")
    .flow("fork", "b", "mixed", "d", "e2")
)
async def a_gateway_may_join_and_fork(play: Play) -> None:
    await play.start()
    await play.sees("a", "b")
    await play.complete("a")
    await play.lives("b")
    await play.complete("b")
    await play.lives("c", "d")


@scenario(
    Drawing()
    .start()
    .gateway("exclusive", "top")
    .gateway("parallel", "fork", "join")
    .task("a")
    .task("b")
    .task("again")
    .gateway("exclusive", "turn", default="turn_end")
    .end()
    .flow("begin", "top", "fork", "a", "join", "again", "turn")
    .flow("fork", "b", "join")
    .flow("turn", "top", when="=orch_again = true")
    .flow("turn", "end")
)
async def a_join_in_a_loop_opens_once_a_round(play: Play) -> None:
    await play.start()
    for again in (True, False):
        await play.sees("a", "b")
        await play.complete("a")
        await play.lives("b")
        await play.complete("b")
        await play.lives("again")
        await play.complete("again", orch_again=again)
    await play.ends()


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork", "join")
    .gateway("exclusive", "choose", default="choose_join")
    .task("a")
    .task("b")
    .end("e1", "e2")
    .flow("begin", "fork", "choose")
    .flow("fork", "a", "join", "e1")
    .flow("choose", "b", when="=orch_x = true")
    .flow("b", "e2")
    .flow("choose", "join")
)
async def a_join_waits_for_a_token_that_went_elsewhere(play: Play) -> None:
    await play.start(orch_x=True)
    await play.sees("a", "b")
    await play.complete("a")
    await play.complete("b")
    await play.lives()
