"""Stories of tokens that go along arrows: sequences, loops, implicit forks and merges, what jobs carry."""

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario


def line() -> Drawing:
    return Drawing().start().task("a").task("b").end().flow("begin", "a", "b", "end")


@scenario(line())
async def a_token_goes_from_task_to_task(play: Play) -> None:
    await play.start()
    await play.lives("a")
    await play.complete("a")
    await play.lives("b")
    await play.complete("b")
    await play.ends()


@scenario(line())
async def what_a_job_says_is_carried_on(play: Play) -> None:
    await play.start(orch_x=1, orch_y="kept")
    await play.sees("a")
    assert play.carries("a") == {"orch_x": 1, "orch_y": "kept"}
    await play.complete("a", orch_x=2, orch_a=[1, {"deep": None}], unasked=True)
    await play.sees("b")
    assert play.carries("b") == {"orch_x": 2, "orch_y": "kept", "orch_a": [1, {"deep": None}]}


@scenario(line())
async def two_instances_do_not_mix(play: Play) -> None:
    first = await play.start(orch_x="first")
    second = await play.start(orch_x="second")
    await play.sees("a", "a")
    await play.complete("a", orch_y=1)
    await play.sees("a", "b")
    one, other = play.job("b"), play.job("a")
    assert {one.process_instance_key, other.process_instance_key} == {first, second}
    assert other.variables == {"orch_x": "second" if one.variables["orch_x"] == "first" else "first"}


@scenario(
    Drawing()
    .start()
    .gateway("exclusive", "merge")
    .task("try")
    .gateway("exclusive", "again", default="again_end")
    .end()
    .flow("begin", "merge", "try", "again")
    .flow("again", "merge", when="=orch_again = true")
    .flow("again", "end")
)
async def a_loop_goes_round_until_its_flag_says_so(play: Play) -> None:
    await play.start()
    for _ in range(3):
        await play.sees("try")
        await play.complete("try", orch_again=True)
    await play.sees("try")
    await play.complete("try", orch_again=False)
    await play.ends()


@scenario(Drawing().start().plain("nothing").task("a").end().flow("begin", "nothing", "a", "end"))
async def a_task_without_work_is_passed(play: Play) -> None:
    await play.start()
    await play.lives("a")


@scenario(Drawing().start().end().flow("begin", "end"))
async def an_instance_without_work_ends_at_once(play: Play) -> None:
    await play.start()
    await play.ends()


@scenario(
    Drawing()
    .start()
    .task("a")
    .task("l")
    .task("r")
    .end("e1", "e2")
    .flow("begin", "a")
    .flow("a", "l", "e1")
    .flow("a", "r", "e2")
)
async def two_arrows_out_of_a_task_are_both_taken(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.lives("l", "r")
    await play.complete("l")
    await play.lives("r")
    await play.complete("r")
    await play.ends()


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .task("l")
    .task("r")
    .task("both")
    .end()
    .flow("begin", "fork", "l", "both", "end")
    .flow("fork", "r", "both")
)
async def a_task_with_two_arrows_in_runs_for_each_token(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    await play.complete("l")
    await play.sees("both", "r")
    await play.complete("r")
    await play.sees("both", "both")
    await play.complete("both")
    await play.lives("both")
    await play.complete("both")
    await play.ends()


@scenario(
    Drawing().start().task("first", "check").task("second", "check").end().flow("begin", "first", "second", "end"),
    proves=("CPL-15", "JOB-08"),
)
async def tasks_of_one_type_are_one_kind_of_job_and_name_their_element(play: Play) -> None:
    await play.start()
    for element in ("first", "second"):
        await play.lives("check")
        assert play.job("check").element_id == element
        await play.complete("check")
    await play.ends()


@scenario(Drawing().start().task("a").flow("begin", "a"))
async def a_token_that_leads_nowhere_ends(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.complete("a")
    await play.ends()


@scenario(line())
async def a_cancelled_instance_is_gone_with_its_jobs(play: Play) -> None:
    await play.start()
    await play.lives("a")
    await play.cancel()
    await play.ends()
