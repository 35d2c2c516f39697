"""Stories of subprocesses and of ends that end more than their token."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario


def box(**boundary: object) -> Drawing:
    inside = Drawing().start("in").task("deep").task("deeper").end("out").flow("in", "deep", "deeper", "out")
    drawing = Drawing().start().subprocess("box", inside).task("after").end().flow("begin", "box", "after", "end")
    if boundary:
        drawing.boundary("event", "box", **boundary).task("other").end("e2").flow("event", "other", "e2")  # type: ignore[arg-type]
    return drawing


@scenario(box())
async def a_subprocess_runs_as_a_whole(play: Play) -> None:
    await play.start(orch_x=1)
    await play.sees("deep")
    await play.complete("deep", orch_x=2)
    await play.sees("deeper")
    await play.complete("deeper", orch_y=3)
    await play.sees("after")
    assert play.carries("after") == {"orch_x": 2, "orch_y": 3}
    await play.complete("after")
    await play.ends()


@scenario(box(timer="PT1M"))
async def a_timer_around_a_subprocess_ends_everything_in_it(play: Play) -> None:
    await play.start()
    await play.sees("deep")
    await play.advance(61)
    await play.lives("other")
    await play.complete("other")
    await play.ends()


@scenario(box(timer="PT1M", interrupting=False))
async def a_timer_around_a_subprocess_may_leave_it(play: Play) -> None:
    await play.start()
    await play.sees("deep")
    await play.advance(61)
    await play.lives("deep", "other")
    await play.complete("deep")
    await play.complete("other")
    await play.lives("deeper")
    await play.complete("deeper")
    await play.lives("after")


@scenario(box(message="docs"))
async def a_message_around_a_subprocess_ends_everything_in_it(play: Play) -> None:
    await play.start(corr_key="k")
    await play.sees("deep")
    await play.publish("docs", orch_x=1)
    await play.lives("other")
    assert play.carries("other") == {"corr_key": "k", "orch_x": 1}


@scenario(box(timer="PT1M"))
async def a_subprocess_that_is_left_takes_its_timer_along(play: Play) -> None:
    await play.start()
    await play.sees("deep")
    await play.complete("deep")
    await play.sees("deeper")
    await play.complete("deeper")
    await play.sees("after")
    await play.advance(61)
    await play.lives("after")


def doubled() -> Drawing:
    core = Drawing().start("in2").task("core").end("out2").flow("in2", "core", "out2")
    inside = (
        Drawing().start("in").subprocess("inner", core).task("shell").end("out").flow("in", "inner", "shell", "out")
    )
    drawing = Drawing().start().subprocess("outer", inside).task("after").end().flow("begin", "outer", "after", "end")
    return drawing.boundary("late", "outer", timer="PT1M").task("other").end("e2").flow("late", "other", "e2")


@scenario(doubled())
async def subprocesses_may_stand_in_subprocesses(play: Play) -> None:
    await play.start()
    await play.sees("core")
    await play.complete("core")
    await play.sees("shell")
    await play.complete("shell")
    await play.lives("after")


@scenario(doubled())
async def what_is_around_everything_ends_everything(play: Play) -> None:
    await play.start()
    await play.sees("core")
    await play.advance(61)
    await play.lives("other")


def forked_box() -> Drawing:
    inside = Drawing().start("in").gateway("parallel", "fork").task("l").task("r").end("out1", "out2")
    inside.flow("in", "fork", "l", "out1").flow("fork", "r", "out2")
    return Drawing().start().subprocess("box", inside).task("after").end().flow("begin", "box", "after", "end")


@scenario(forked_box())
async def a_subprocess_is_left_with_its_last_token(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    await play.complete("l")
    await play.lives("r")
    await play.complete("r")
    await play.lives("after")


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .task("l")
    .task("r")
    .end()
    .terminate_end("stop")
    .flow("begin", "fork", "l", "end")
    .flow("fork", "r", "stop")
)
async def a_terminate_end_ends_everything(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    await play.complete("r")
    await play.ends()


def stopped_box() -> Drawing:
    inside = Drawing().start("in").gateway("parallel", "fork").task("l").task("r").end("out").terminate_end("stop")
    inside.flow("in", "fork", "l", "out").flow("fork", "r", "stop")
    drawing = Drawing().start().gateway("parallel", "both").subprocess("box", inside).task("after").task("beside")
    return drawing.end("e1", "e2").flow("begin", "both", "box", "after", "e1").flow("both", "beside", "e2")


@scenario(stopped_box())
async def a_terminate_end_in_a_subprocess_ends_that_alone(play: Play) -> None:
    await play.start()
    await play.sees("beside", "l", "r")
    await play.complete("r")
    await play.lives("after", "beside")


def join_in_box() -> Drawing:
    inside = Drawing().start("in").gateway("parallel", "fork", "join").task("l").task("r").end("out")
    inside.flow("in", "fork", "l", "join", "out").flow("fork", "r", "join")
    drawing = Drawing().start().gateway("exclusive", "top").subprocess("box", inside)
    drawing.gateway("exclusive", "turn", default="turn_end").end().flow("begin", "top", "box", "turn")
    return drawing.flow("turn", "top", when="=orch_again = true").flow("turn", "end")


@scenario(join_in_box())
async def a_join_counts_for_each_time_its_subprocess_runs(play: Play) -> None:
    await play.start()
    for again in (True, False):
        await play.sees("l", "r")
        await play.complete("l")
        await play.lives("r")
        await play.complete("r", orch_again=again)
    await play.ends()


def interrupted_join() -> Drawing:
    inside = Drawing().start("in").gateway("parallel", "fork", "join").task("l").task("r").end("out")
    inside.flow("in", "fork", "l", "join", "out").flow("fork", "r", "join")
    drawing = Drawing().start().gateway("exclusive", "top").subprocess("box", inside).end().flow("begin", "top", "box")
    return drawing.flow("box", "end").boundary("late", "box", timer="PT1M").flow("late", "top")


@scenario(interrupted_join())
async def who_waited_at_a_join_is_forgotten_with_its_subprocess(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    await play.complete("l")
    await play.lives("r")
    await play.advance(61)
    await play.sees("l", "r")
    await play.complete("r")
    await play.lives("l")
    await play.complete("l")
    await play.ends()
