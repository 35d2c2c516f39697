"""Stories of execution listeners: jobs that stand before and after a node."""

import pytest

from tests.support.drawing import Drawing, listeners
from tests.support.scenario import Play, scenario
from verbworker.errors import JobNotActive


def around(*pairs: tuple[str, str]) -> Drawing:
    drawing = Drawing().start().task("a", listeners=listeners(*pairs)).task("b").end()
    return drawing.flow("begin", "a", "b", "end")


async def one_by_one(play: Play, *kinds: str) -> None:
    """Each job is the only one, and is completed."""
    for kind in kinds:
        await play.lives(kind)
        await play.complete(kind)


@scenario(around(("start", "s1"), ("start", "s2"), ("end", "e1"), ("end", "e2")))
async def listeners_stand_around_a_task_in_their_order(play: Play) -> None:
    await play.start()
    await one_by_one(play, "s1", "s2", "a", "e1", "e2", "b")
    await play.ends()


def whole() -> Drawing:
    drawing = Drawing().start().task("a").end().flow("begin", "a", "end")
    drawing.process_listeners = listeners(("start", "opened"), ("end", "closed"))
    return drawing


@scenario(whole())
async def a_process_has_listeners_of_its_own(play: Play) -> None:
    await play.start(orch_x=1)
    await play.lives("opened")
    assert play.carries("opened") == {"orch_x": 1}
    await one_by_one(play, "opened", "a", "closed")
    await play.ends()


@scenario(whole())
async def nobody_is_told_of_the_end_of_a_cancelled_instance(play: Play) -> None:
    await play.start()
    await play.sees("opened")
    await play.complete("opened")
    await play.sees("a")
    await play.cancel()
    await play.ends()


@scenario(around(("start", "s"), ("end", "e")))
async def what_is_said_after_a_node_is_carried_on(play: Play) -> None:
    await play.start()
    await play.sees("s")
    await play.complete("s", orch_x="before")
    await play.sees("a")
    await play.complete("a", orch_a="work")
    await play.sees("e")
    assert play.carries("e")["orch_a"] == "work"
    await play.complete("e", orch_y="after")
    await play.sees("b")
    assert play.carries("b") == {"orch_a": "work", "orch_y": "after"}


@scenario(around(("start", "s")))
async def a_listener_without_retries_waits_for_a_person(play: Play) -> None:
    await play.start()
    await play.sees("s")
    job = await play.fail("s", retries=0)
    await play.stands("EXECUTION_LISTENER_NO_RETRIES")
    await play.release(job)
    await play.sees("s")
    await play.complete("s")
    await play.lives("a")


@scenario(around(("end", "e")))
async def a_listener_throws_no_error(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.sees("e")
    with pytest.raises(JobNotActive):
        await play.stage.engine.throw(play.job("e").key, code="NO", message="no")
    await play.complete("e")
    await play.lives("b")


@scenario(
    Drawing()
    .start()
    .catch("wait", timer="PT1M", listeners=listeners(("start", "parked"), ("end", "left")))
    .task("a")
    .end()
    .flow("begin", "wait", "a", "end")
)
async def a_wait_is_told_before_it_begins_and_after_it_ends(play: Play) -> None:
    await play.start()
    await play.sees("parked")
    await play.advance(61)
    await play.lives("parked")
    await play.complete("parked")
    await play.lives()
    await play.advance(61)
    await play.lives("left")
    await play.complete("left")
    await play.lives("a")


@scenario(
    Drawing()
    .start()
    .gateway("exclusive", "g", default="g_b", listeners=listeners(("start", "asked")))
    .task("a")
    .task("b")
    .end("e1", "e2")
    .flow("begin", "g")
    .flow("g", "a", when="=orch_x = 1")
    .flow("g", "b")
    .flow("a", "e1")
    .flow("b", "e2")
)
async def a_gateway_is_told_before_it_chooses(play: Play) -> None:
    await play.start()
    await play.sees("asked")
    await play.complete("asked")
    await play.lives("b")


@scenario(
    Drawing()
    .start()
    .task("work", listeners=listeners(("end", "done")))
    .boundary("late", "work", timer="PT1M", listeners=listeners(("end", "fired")))
    .task("hurry")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("late", "hurry", "e2")
)
async def a_boundary_event_is_told_and_the_host_it_ended_is_not(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.lives("fired")
    await play.complete("fired")
    await play.lives("hurry")


@scenario(
    Drawing()
    .start()
    .task("work", listeners=listeners(("start", "s"), ("end", "e")))
    .boundary("late", "work", timer="PT1M")
    .task("hurry")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("late", "hurry", "e2")
)
async def a_boundary_event_waits_while_its_host_works_and_not_while_it_is_told(play: Play) -> None:
    await play.start()
    await play.sees("s")
    await play.advance(61)
    await play.lives("s")
    await play.complete("s")
    await play.sees("work")
    await play.complete("work")
    await play.sees("e")
    await play.advance(61)
    await play.lives("e")
    await play.complete("e")
    await play.ends()
