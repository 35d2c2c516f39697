"""Stories from the corners: where two rules meet, and where a value is odd."""

import pytest

from tests.conformance.scenarios.errors import caught
from tests.conformance.scenarios.gateways import choice
from tests.conformance.scenarios.messages import opened, waiting
from tests.conformance.scenarios.timers import hosted
from tests.support.drawing import Drawing, listeners
from tests.support.scenario import Play, scenario
from verbworker.errors import JobNotActive


# Inline time passes and never jumps, so nothing is missed there; 8.8 and 8.9 fire one of the missed times at once.
@scenario(hosted("R3/PT1M", interrupting=False), without=("inline", "zeebe-8.8", "zeebe-8.9"))
async def a_cycle_leaves_out_what_was_missed(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(630)
    await play.lives("hurry", "work")
    await play.advance(30)
    await play.lives("hurry", "work")
    await play.advance(40)
    await play.lives("hurry", "hurry", "work")


@scenario(waiting())
async def an_empty_text_is_a_key(play: Play) -> None:
    await play.start(corr_key="")
    await play.lives()
    await play.publish("docs", "")
    await play.lives("read")


@scenario(waiting())
async def a_broken_number_is_a_key_without_its_fraction(play: Play) -> None:
    await play.start(corr_key=4.5)
    await play.lives()
    await play.publish("docs", "4.5")
    await play.lives()
    await play.publish("docs", "4")
    await play.lives("read")


@scenario(waiting())
async def a_list_is_no_key(play: Play) -> None:
    await play.start(corr_key=["k"])
    await play.stands("EXTRACT_VALUE_ERROR")


@scenario(caught(""), without=("zeebe-rest",))  # REST refuses an error without a code
async def an_error_without_a_code_is_caught_by_who_catches_all(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.throw("work", "")
    await play.lives("on_any")


@scenario(choice(right="=orch_b = 1"))
async def a_number_is_what_it_is_worth(play: Play) -> None:
    await play.start(orch_b=1.0)
    await play.lives("r")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .catch("one", message="docs")
    .catch("two", message="docs")
    .task("a")
    .end("e1", "e2")
    .flow("begin", "fork", "one", "a", "e1")
    .flow("fork", "two", "a")
)
async def two_waits_of_one_instance_need_two_messages(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.lives("a")
    await play.publish("docs")
    await play.lives("a", "a")


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("docs", "work", message="docs")
    .task("read")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("docs", "read", "e2")
)
async def a_boundary_message_without_a_key_stops_its_host(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(corr_key="k")
    await play.lives("work")
    await play.publish("docs")
    await play.lives("read")


@scenario(Drawing().start().task("x").end().flow("begin", "x", "end"))
async def a_message_that_came_before_its_model_starts_nothing(play: Play) -> None:
    await play.publish("mail")
    await play.deploy(opened())
    await play.sees()
    await play.publish("mail")
    await play.sees("a")


@scenario(opened())
async def a_cancelled_instance_makes_room_for_the_next_start(play: Play) -> None:
    await play.publish("mail", orch_x=1)
    await play.sees("a")
    await play.publish("mail", orch_x=2)
    await play.sees("a")
    await play.stage.engine.cancel(play.job("a").process_instance_key)
    await play.sees("a")
    assert play.carries("a") == {"orch_x": 2}


def two_doors() -> Drawing:
    drawing = Drawing().start("plain").message_start("begin", "mail").task("a").task("b").end("e1", "e2")
    return drawing.flow("plain", "a", "e1").flow("begin", "b", "e2")


@scenario(two_doors())
async def a_process_may_have_two_starts(play: Play) -> None:
    await play.publish("mail")
    await play.sees("b")
    await play.start()
    await play.lives("a", "b")


@scenario(Drawing().start().task("a").end().flow("begin", "a", "end"))
async def a_job_that_nobody_has_cannot_be_held_longer(play: Play) -> None:
    await play.start()
    job = await play.take("a", 60)
    await play.stage.engine.fail(job.key, retries=2, message="no")
    with pytest.raises(JobNotActive):
        await play.stage.engine.extend(job.key, 60_000)
    await play.lives("a")


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("b", "work", error="NO", listeners=listeners(("end", "noted")))
    .task("help")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("b", "help", "e2")
)
async def a_caught_error_is_told_before_it_is_helped(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.throw("work", "NO")
    await play.lives("noted")
    await play.complete("noted")
    await play.lives("help")


@scenario(caught("NO"))
async def a_timed_out_job_may_throw_an_error(play: Play) -> None:
    await play.start()
    job = await play.take("work", 60)
    await play.advance(61)
    await play.stage.engine.throw(job.key, code="NO", message="late")
    await play.lives("on_NO")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .gateway("exclusive", "left", "right")
    .task("a")
    .task("b")
    .end("e1", "e2")
    .flow("begin", "fork", "left")
    .flow("fork", "right")
    .flow("left", "a", when="=orch_a = 1")
    .flow("right", "b", when="=orch_b = 1")
    .flow("a", "e1")
    .flow("b", "e2")
)
async def two_incidents_are_resolved_one_by_one(play: Play) -> None:
    await play.start(orch_a=0, orch_b=0)
    await play.stands("CONDITION_ERROR", "CONDITION_ERROR")
    await play.stage.set_variables(play.instance, {"orch_a": 1, "orch_b": 1})
    for _ in range(2):
        await play.stage.resolve(play.instance)
    await play.lives("a", "b")


@scenario(
    Drawing()
    .start()
    .task("a", listeners=listeners(("start", "s")))
    .boundary("late", "a", timer="=orch_x")
    .end("e1", "e2")
    .flow("begin", "a", "e1")
    .flow("late", "e2")
)
async def a_listener_is_asked_again_when_its_node_was_stuck_after_it(play: Play) -> None:
    await play.start()
    await play.sees("s")
    await play.complete("s")
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_x="PT1M")
    await play.lives("s")
    await play.complete("s")
    await play.lives("a")


@scenario(
    Drawing()
    .start()
    .gateway("exclusive", "g", listeners=listeners(("start", "s")))
    .task("a")
    .task("b")
    .end("e1", "e2")
    .flow("begin", "g")
    .flow("g", "a", when="=orch_x = 1")
    .flow("g", "b", when="=orch_x = 2")
    .flow("a", "e1")
    .flow("b", "e2")
)
async def a_listener_of_a_gateway_that_was_stuck(play: Play) -> None:
    await play.start(orch_x=3)
    await play.sees("s")
    await play.complete("s")
    await play.stands("CONDITION_ERROR")
    await play.resolve(orch_x=1)
    await play.lives("s")
    await play.complete("s")
    await play.lives("a")


@scenario(
    Drawing()
    .start()
    .catch("wait", message="docs", listeners=listeners(("start", "s")))
    .end()
    .flow("begin", "wait", "end")
)
async def a_listener_of_a_wait_that_was_stuck(play: Play) -> None:
    await play.start()
    await play.sees("s")
    await play.complete("s")
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(corr_key="k")
    await play.lives("s")
    await play.complete("s")
    await play.publish("docs")
    await play.ends()


@scenario(
    Drawing()
    .start()
    .receive("wait", "docs")
    .boundary("nudge", "wait", message="nudge", interrupting=False)
    .task("a")
    .task("n")
    .end("e1", "e2")
    .flow("begin", "wait", "a", "e1")
    .flow("nudge", "n", "e2")
)
async def a_wait_may_have_a_message_at_its_boundary(play: Play) -> None:
    await play.start(corr_key="k")
    await play.publish("nudge")
    await play.lives("n")
    await play.publish("docs")
    await play.lives("a", "n")


@scenario(
    Drawing()
    .start()
    .gateway("inclusive", "g", default="g_d")
    .task("d")
    .end("e1")
    .flow("begin", "g")
    .flow("g", "d")
    .flow("d", "e1")
)
async def a_gateway_with_one_way_takes_it(play: Play) -> None:
    await play.start()
    await play.lives("d")
