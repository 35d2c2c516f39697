"""Stories of errors: who catches them, and what is left when nobody does."""

import pytest

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario
from verbworker.errors import JobGone, JobNotActive
from verbworker.job.outcome import NO_RESULT


def caught(*codes: str) -> Drawing:
    """A task whose errors are caught, each code by an event of its own; the empty one catches all."""
    drawing = Drawing().start().task("work").end().flow("begin", "work", "end")
    for code in codes:
        name = f"on_{code or 'any'}"
        drawing.boundary(f"b_{name}", "work", error=code).task(name).end(f"e_{name}").flow(
            f"b_{name}", name, f"e_{name}"
        )
    return drawing


@scenario(caught("NO"))
async def an_error_goes_to_the_event_that_names_it(play: Play) -> None:
    await play.start(orch_x=1)
    await play.sees("work")
    job = await play.throw("work", "NO")
    await play.lives("on_NO")
    assert play.carries("on_NO") == {"orch_x": 1}
    with pytest.raises(JobGone):
        await play.stage.engine.complete(job.key, NO_RESULT)
    await play.complete("on_NO")
    await play.ends()


@scenario(caught("", "NO"))
async def a_name_goes_before_an_event_that_catches_all(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.throw("work", "NO")
    await play.lives("on_NO")


@scenario(caught("NO", ""))
async def an_event_that_catches_all_takes_the_rest(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.throw("work", "OTHER")
    await play.lives("on_any")


@scenario(caught("NO", "OTHER"))
async def each_error_has_its_event(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.throw("work", "OTHER")
    await play.lives("on_OTHER")


@scenario(caught("NO"))
async def an_error_that_nobody_catches_holds_its_job(play: Play) -> None:
    await play.start()
    await play.sees("work")
    job = await play.throw("work", "OTHER")
    await play.stands("UNHANDLED_ERROR_EVENT")
    with pytest.raises(JobNotActive):
        await play.stage.engine.complete(job.key, NO_RESULT)
    await play.release(job)
    await play.lives("work")
    assert play.job("work").key == job.key
    await play.throw("work", "NO")
    await play.lives("on_NO")


@scenario(caught())
async def an_error_without_any_event_holds_its_job(play: Play) -> None:
    await play.start()
    await play.sees("work")
    job = await play.throw("work", "NO")
    await play.stands("UNHANDLED_ERROR_EVENT")
    await play.release(job)
    await play.lives("work")
    await play.complete("work")
    await play.ends()


def boxed(inner: str | None, outer: str | None) -> Drawing:
    """A task in a subprocess; each may have an event that catches a code."""
    inside = Drawing().start("in").gateway("parallel", "both").task("deep").task("beside").end("out", "out2")
    inside.flow("in", "both", "deep", "out").flow("both", "beside", "out2")
    if inner is not None:
        inside.boundary("near", "deep", error=inner).task("helped").end("out3").flow("near", "helped", "out3")
    drawing = Drawing().start().subprocess("box", inside).task("after").end().flow("begin", "box", "after", "end")
    if outer is not None:
        drawing.boundary("far", "box", error=outer).task("saved").end("e2").flow("far", "saved", "e2")
    return drawing


@scenario(boxed(None, "NO"))
async def an_error_inside_a_subprocess_ends_all_of_it(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.throw("deep", "NO")
    await play.lives("saved")
    await play.complete("saved")
    await play.ends()


@scenario(boxed("", "NO"))
async def the_nearest_event_goes_before_a_better_one_outside(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.throw("deep", "NO")
    await play.lives("beside", "helped")


@scenario(boxed("OTHER", "NO"))
async def an_error_that_the_nearest_does_not_name_goes_on(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.throw("deep", "NO")
    await play.lives("saved")


@scenario(boxed(None, "NO"))
async def a_subprocess_without_an_error_goes_on(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.complete("deep")
    await play.lives("beside")
    await play.complete("beside")
    await play.lives("after")


def failing_end(outer: str | None) -> Drawing:
    inside = Drawing().start("in").gateway("parallel", "both").task("deep").task("beside").end("out")
    inside.error_end("no", "NO").flow("in", "both", "deep", "no").flow("both", "beside", "out")
    drawing = Drawing().start().subprocess("box", inside).task("after").end().flow("begin", "box", "after", "end")
    if outer is not None:
        drawing.boundary("far", "box", error=outer).task("saved").end("e2").flow("far", "saved", "e2")
    return drawing


@scenario(failing_end("NO"))
async def an_error_end_leaves_its_subprocess(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.complete("deep")
    await play.lives("saved")


@scenario(failing_end("OTHER"))
async def an_error_end_that_nobody_catches_waits_for_a_person(play: Play) -> None:
    await play.start()
    await play.sees("beside", "deep")
    await play.complete("deep")
    await play.lives("beside")
    await play.complete("beside")
    await play.stands("UNHANDLED_ERROR_EVENT")
    await play.cancel()
    await play.ends()


@scenario(Drawing().start().task("a").error_end("no", "NO").flow("begin", "a", "no"))
async def an_error_end_of_the_process_waits_for_a_person(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.stands("UNHANDLED_ERROR_EVENT")
