"""Stories of compensation. The embedded kernel undoes one after the other, in reverse; Zeebe undoes all at once."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario

ALL_AT_ONCE = ("zeebe", "zeebe-8.8", "zeebe-8.9")


def trip(activity: str = "") -> Drawing:
    drawing = Drawing().start().task("a").task("b").compensated("a", "not_a").compensated("b", "not_b")
    return (
        drawing.compensate("undo", activity=activity)
        .task("after")
        .end()
        .flow("begin", "a", "b", "undo", "after", "end")
    )


async def travelled(play: Play) -> None:
    await play.start()
    for kind in ("a", "b"):
        await play.sees(kind)
        await play.complete(kind)


@scenario(trip("a"))
async def one_activity_can_be_undone_by_its_name(play: Play) -> None:
    await travelled(play)
    await play.lives("not_a")
    await play.complete("not_a", orch_x="undone")
    await play.lives("after")
    assert play.carries("after") == {"orch_x": "undone"}
    await play.complete("after")
    await play.ends()


@scenario(trip())
async def everything_that_was_done_is_undone(play: Play) -> None:
    await travelled(play)
    if play.engine_name in ALL_AT_ONCE:
        await play.lives("not_a", "not_b")
        await play.complete("not_b")
        await play.lives("not_a")
    else:
        await play.lives("not_b")
        await play.complete("not_b")
        await play.lives("not_a")
    await play.complete("not_a")
    await play.lives("after")


def half() -> Drawing:
    drawing = Drawing().start().task("a").compensated("a", "not_a").gateway("parallel", "fork").task("b")
    drawing.compensated("b", "not_b").compensate("undo", end=True).end()
    return drawing.flow("begin", "a", "fork", "b", "end").flow("fork", "undo")


@scenario(half())
async def only_what_was_completed_is_undone(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.lives("b", "not_a")
    await play.complete("not_a")
    await play.lives("b")
    await play.complete("b")
    await play.ends()


@scenario(
    Drawing().start().compensate("back").task("a").compensated("a", "not_a").end().flow("begin", "back", "a", "end")
)
async def without_anything_done_there_is_nothing_to_undo(play: Play) -> None:
    await play.start()
    await play.lives("a")
    await play.complete("a")
    await play.ends()


@scenario(trip("a"))
async def cancelling_undoes_nothing(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.sees("b")
    await play.cancel()
    await play.ends()


def boxed() -> Drawing:
    inside = Drawing().start("in").task("a").compensated("a", "not_a").end("out").flow("in", "a", "out")
    drawing = Drawing().start().subprocess("box", inside).compensate("undo").task("after").end()
    return drawing.flow("begin", "box", "undo", "after", "end")


@scenario(boxed())
async def what_a_subprocess_did_is_undone_from_outside(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.lives("not_a")
    await play.complete("not_a")
    await play.lives("after")


@scenario(trip("a"))
async def an_undo_without_retries_waits_for_a_person(play: Play) -> None:
    await travelled(play)
    await play.sees("not_a")
    job = await play.fail("not_a", retries=0)
    await play.stands("JOB_NO_RETRIES")
    await play.release(job)
    await play.sees("not_a")
    await play.complete("not_a")
    await play.lives("after")


def rounds() -> Drawing:
    drawing = Drawing().start().gateway("exclusive", "top").task("a").compensated("a", "not_a")
    drawing.gateway("exclusive", "turn", default="turn_undo").compensate("undo").task("after").end()
    drawing.flow("begin", "top", "a", "turn").flow("turn", "top", when="=orch_again = true")
    return drawing.flow("turn", "undo").flow("undo", "after", "end")


@scenario(rounds())
async def what_was_done_twice_is_undone_twice(play: Play) -> None:
    await play.start()
    for again in (True, False):
        await play.sees("a")
        await play.complete("a", orch_again=again)
    at_once = play.engine_name in ALL_AT_ONCE
    await play.lives(*["not_a"] * (2 if at_once else 1))
    await play.complete("not_a")
    await play.lives("not_a")
    await play.complete("not_a")
    await play.lives("after")
