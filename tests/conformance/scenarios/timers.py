"""Stories of timers: catch events, boundary events, cycles, times from flags."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario


def pause(timer: str) -> Drawing:
    return Drawing().start().catch("wait", timer=timer).task("a").end().flow("begin", "wait", "a", "end")


@scenario(pause("PT10M"))
async def a_timer_fires_at_its_time_and_not_before(play: Play) -> None:
    await play.start()
    await play.lives()
    await play.advance(580)
    await play.lives()
    await play.advance(25)
    await play.lives("a")


@scenario(pause("=orch_x"))
async def a_flag_may_say_how_long(play: Play) -> None:
    await play.start(orch_x="PT5M")
    await play.lives()
    await play.advance(301)
    await play.lives("a")


@scenario(pause("=orch_x"))
async def a_time_that_is_none_is_an_incident(play: Play) -> None:
    await play.start(orch_x="soon")
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_x="PT1M")
    await play.lives()
    await play.advance(61)
    await play.lives("a")


@scenario(pause("=orch_x"))
async def a_time_that_is_unset_is_an_incident(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_x="PT1M")
    await play.advance(61)
    await play.lives("a")


@scenario(pause("PT0S"))
async def no_time_at_all_is_over_at_once(play: Play) -> None:
    await play.start()
    await play.advance(1)
    await play.lives("a")


@scenario(pause("2020-01-01T00:00:00Z"))
async def a_date_that_is_past_fires_at_once(play: Play) -> None:
    await play.start()
    await play.advance(1)
    await play.lives("a")


@scenario(pause("2999-01-01T00:00:00+02:00"))
async def a_date_to_come_is_waited_for(play: Play) -> None:
    await play.start()
    await play.advance(3600)
    await play.lives()


@scenario(pause("=orch_x"))
async def a_duration_below_nothing_fires_at_once(play: Play) -> None:
    await play.start(orch_x="PT-5S")
    await play.advance(1)
    await play.lives("a")


@scenario(pause("=orch_x"))
async def a_duration_may_be_of_days_and_hours(play: Play) -> None:
    await play.start(orch_x="P1DT1H")
    await play.advance(24 * 3600)
    await play.lives()
    await play.advance(3605)
    await play.lives("a")


def hosted(timer: str, *, interrupting: bool = True) -> Drawing:
    drawing = Drawing().start().task("work").boundary("late", "work", timer=timer, interrupting=interrupting)
    return drawing.task("hurry").end("e1", "e2").flow("begin", "work", "e1").flow("late", "hurry", "e2")


@scenario(hosted("PT1M"))
async def an_interrupting_timer_ends_its_host(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.lives("hurry")
    await play.complete("hurry")
    await play.ends()


@scenario(hosted("PT1M"))
async def a_host_that_is_done_takes_its_timer_along(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.complete("work")
    await play.ends()
    await play.advance(61)
    await play.ends()


@scenario(hosted("PT1M", interrupting=False))
async def a_timer_that_does_not_interrupt_fires_once_beside_its_host(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.lives("hurry", "work")
    await play.advance(120)
    await play.lives("hurry", "work")
    await play.complete("work")
    await play.lives("hurry")
    await play.complete("hurry")
    await play.ends()


@scenario(hosted("R2/PT1M", interrupting=False))
async def a_cycle_fires_as_often_as_it_says(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.sees("hurry", "work")
    await play.advance(61)
    await play.sees("hurry", "hurry", "work")
    await play.advance(180)
    await play.lives("hurry", "hurry", "work")


@scenario(hosted("R/PT1M", interrupting=False))
async def an_endless_cycle_ends_with_its_host(play: Play) -> None:
    await play.start()
    await play.sees("work")
    for fired in range(1, 4):
        await play.advance(61)
        await play.sees(*["hurry"] * fired, "work")
    await play.complete("work")
    await play.advance(61)
    await play.lives("hurry", "hurry", "hurry")


@scenario(hosted("R1/PT1M", interrupting=False))
async def a_cycle_of_one_fires_once(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.sees("hurry", "work")
    await play.advance(120)
    await play.lives("hurry", "work")


@scenario(hosted("=orch_x"))
async def a_boundary_timer_without_a_time_stops_its_host(play: Play) -> None:
    await play.start()
    await play.stands("EXTRACT_VALUE_ERROR")
    await play.resolve(orch_x="PT1M")
    await play.lives("work")
    await play.advance(61)
    await play.lives("hurry")


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("soon", "work", timer="PT1M", interrupting=False)
    .boundary("late", "work", timer="PT3M")
    .task("warn")
    .task("stop")
    .end("e1", "e2", "e3")
    .flow("begin", "work", "e1")
    .flow("soon", "warn", "e2")
    .flow("late", "stop", "e3")
)
async def a_host_may_have_two_timers(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.advance(61)
    await play.lives("warn", "work")
    await play.advance(125)
    await play.lives("stop", "warn")


@scenario(
    Drawing()
    .start()
    .catch("first", timer="PT1M")
    .task("a")
    .catch("second", timer="PT1M")
    .task("b")
    .end()
    .flow("begin", "first", "a", "second", "b", "end")
)
async def a_timer_runs_from_when_its_event_is_reached(play: Play) -> None:
    await play.start()
    await play.advance(61)
    await play.sees("a")
    await play.advance(300)
    await play.complete("a")
    await play.lives()
    await play.advance(61)
    await play.lives("b")


@scenario(pause("PT1M"))
async def the_timer_of_a_cancelled_instance_fires_no_more(play: Play) -> None:
    await play.start()
    await play.lives()
    await play.cancel()
    await play.advance(61)
    await play.ends()
