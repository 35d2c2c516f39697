"""Stories of jobs: retries, backoff, incidents, late and doubled answers, time."""

import pytest

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario
from verbworker.errors import CommandInvalid, JobGone, JobNotActive
from verbworker.job.outcome import NO_RESULT, JobResult


def line() -> Drawing:
    return Drawing().start().task("a", retries=5).task("b").end().flow("begin", "a", "b", "end")


@scenario(line(), proves=("M-03",))
async def a_job_has_the_retries_of_its_model(play: Play) -> None:
    await play.start()
    await play.sees("a")
    assert (play.job("a").retries, play.job("a").element_id) == (5, "a")
    assert play.job("a").process_instance_key == play.instance


@scenario(
    Drawing().start().task("a").task("b").task("c").end().flow("begin", "a", "b", "c", "end"),
    proves=("ADP-06", "ADP-08", "PAY-18"),
)
async def a_result_is_payload_and_hash_flags_and_keys_and_none_changes_nothing(play: Play) -> None:
    await play.start(orch_a=1)
    await play.sees("a")
    result = JobResult('{"name":"Zoë"}'.encode(), "sha256:1", {"orch_x": True}, {"corr_key": "k"})
    await play.stage.engine.complete(play.job("a").key, result)
    carried = {
        "domain_payload": '{"name":"Zoë"}',
        "domain_payload_hash": "sha256:1",
        "orch_a": 1,
        "orch_x": True,
        "corr_key": "k",
    }
    await play.lives("b")
    assert play.carries("b") == carried
    await play.stage.engine.complete(play.job("b").key, NO_RESULT)
    await play.sees("c")
    assert play.carries("c") == carried


@scenario(line(), proves=("FAIL-02", "TST-24"))
async def a_failed_job_comes_again_with_the_retries_it_was_given(play: Play) -> None:
    await play.start()
    await play.sees("a")
    job = await play.fail("a", retries=2)
    await play.lives("a")
    assert (play.job("a").key, play.job("a").retries) == (job.key, 2)
    await play.complete("a")
    await play.lives("b")


@scenario(line(), proves=("TST-24",))
async def a_failed_job_rests_for_its_backoff(play: Play) -> None:
    await play.start()
    await play.sees("a")
    job = await play.fail("a", retries=2, backoff_s=600)
    await play.lives()
    with pytest.raises(JobNotActive):
        await play.stage.engine.complete(job.key, NO_RESULT)
    with pytest.raises(JobNotActive):
        await play.stage.engine.fail(job.key, retries=1, message="again")
    with pytest.raises(JobNotActive):
        await play.stage.engine.throw(job.key, code="NO", message="no")
    await play.advance(601)
    await play.lives("a")


@scenario(line(), proves=("FAIL-05",))
async def a_job_without_retries_is_an_incident(play: Play) -> None:
    await play.start()
    await play.sees("a")
    job = await play.fail("a", retries=0)
    await play.stands("JOB_NO_RETRIES")
    with pytest.raises(JobNotActive):
        await play.stage.engine.complete(job.key, NO_RESULT)
    await play.advance(600)
    await play.lives()
    await play.release(job, retries=4)
    await play.sees("a")
    assert (play.job("a").key, play.job("a").retries) == (job.key, 4)
    await play.complete("a")
    await play.lives("b")


@scenario(line())
async def a_job_below_no_retries_is_an_incident_too(play: Play) -> None:
    await play.start()
    await play.sees("a")
    await play.fail("a", retries=-1)
    await play.stands("JOB_NO_RETRIES")


@scenario(line())
async def a_job_in_an_incident_goes_with_its_instance(play: Play) -> None:
    await play.start()
    await play.sees("a")
    job = await play.fail("a", retries=0)
    await play.cancel()
    await play.ends()
    with pytest.raises(JobGone):
        await play.stage.engine.release(job.key, retries=1)


@scenario(line())
async def retries_may_be_changed_while_a_job_is_worked_on(play: Play) -> None:
    await play.start()
    await play.sees("a")
    key = play.job("a").key
    await play.stage.engine.release(key, retries=9)
    with pytest.raises(CommandInvalid):
        await play.stage.engine.release(key, retries=0)
    await play.complete("a")
    await play.lives("b")


@scenario(line(), proves=("FAIL-07",))
async def a_completed_job_is_gone_for_every_command(play: Play) -> None:
    await play.start()
    await play.sees("a")
    key = play.job("a").key
    await play.complete("a")
    engine = play.stage.engine
    for command in (
        engine.complete(key, NO_RESULT),
        engine.fail(key, retries=1, message="late"),
        engine.throw(key, code="NO", message="late"),
        engine.extend(key, 1000),
        engine.release(key, retries=1),
    ):
        with pytest.raises(JobGone):
            await command
    await play.lives("b")


@scenario(line(), proves=("FAIL-11", "JOB-01"))
async def a_job_whose_time_is_over_comes_again(play: Play) -> None:
    await play.start()
    first = await play.take("a", 60)
    await play.sees()
    await play.advance(61)
    await play.sees("a")
    again = play.job("a")
    assert (again.key, again.retries) == (first.key, first.retries)
    assert again.activated_ms > first.activated_ms


@scenario(line())
async def a_job_may_be_completed_after_its_time(play: Play) -> None:
    await play.start()
    job = await play.take("a", 60)
    await play.advance(61)
    await play.stage.engine.complete(job.key, JobResult(flags={"orch_x": "late"}))
    await play.lives("b")
    assert play.carries("b") == {"orch_x": "late"}


@scenario(line())
async def the_first_of_two_workers_completes_a_job(play: Play) -> None:
    await play.start()
    late = await play.take("a", 60)
    await play.advance(61)
    await play.sees("a")
    await play.stage.engine.complete(late.key, JobResult(flags={"orch_x": "late"}))
    with pytest.raises(JobGone):
        await play.stage.engine.complete(play.job("a").key, JobResult(flags={"orch_x": "again"}))
    await play.lives("b")
    assert play.carries("b") == {"orch_x": "late"}


@scenario(line())
async def an_activation_may_be_made_longer(play: Play) -> None:
    await play.start()
    job = await play.take("a", 60)
    await play.stage.engine.extend(job.key, 600_000)
    await play.advance(120)
    await play.sees()
    await play.advance(500)
    await play.sees("a")


@scenario(line())
async def a_failed_job_may_be_failed_by_who_had_it_before(play: Play) -> None:
    await play.start()
    job = await play.take("a", 60)
    await play.advance(61)
    await play.stage.engine.fail(job.key, retries=1, message="late")
    await play.lives("a")
    assert play.job("a").retries == 1


@scenario(line())
async def an_instance_is_cancelled_once(play: Play) -> None:
    await play.start()
    await play.sees("a")
    job = play.job("a")
    await play.cancel()
    with pytest.raises(JobGone):
        await play.cancel()
    with pytest.raises(JobGone):
        await play.stage.engine.complete(job.key, NO_RESULT)
    await play.ends()


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("late", "work", timer="PT1M")
    .task("hurry")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("late", "hurry", "e2")
)
async def the_job_of_an_interrupted_host_is_gone(play: Play) -> None:
    await play.start()
    await play.sees("work")
    job = play.job("work")
    await play.advance(61)
    await play.sees("hurry")
    with pytest.raises(JobGone):
        await play.stage.engine.complete(job.key, NO_RESULT)
    await play.lives("hurry")


@scenario(
    Drawing()
    .start()
    .task("work")
    .boundary("late", "work", timer="PT1M")
    .task("hurry")
    .end("e1", "e2")
    .flow("begin", "work", "e1")
    .flow("late", "hurry", "e2")
)
async def a_boundary_event_ends_a_host_in_an_incident(play: Play) -> None:
    await play.start()
    await play.sees("work")
    await play.fail("work", retries=0)
    await play.stands("JOB_NO_RETRIES")
    await play.advance(61)
    await play.lives("hurry")
    await play.complete("hurry")
    await play.ends()


@scenario(Drawing().start().user_task("ask").task("a").end().flow("begin", "ask", "a", "end"), proves=("M-10",))
async def a_user_task_is_a_job_for_people(play: Play) -> None:
    await play.start(orch_x=1)
    await play.lives("user")
    assert (play.job("user").element_id, play.carries("user")) == ("ask", {"orch_x": 1})
    await play.complete("user", orch_y="yes")
    await play.sees("a")
    assert play.carries("a") == {"orch_x": 1, "orch_y": "yes"}


@scenario(
    Drawing()
    .start()
    .send("tell")
    .send("say", "intermediateThrowEvent")
    .send("last", "endEvent")
    .flow("begin", "tell", "say", "last")
)
async def whoever_sends_a_message_is_a_job(play: Play) -> None:
    await play.start()
    for kind in ("tell", "say", "last"):
        await play.lives(kind)
        await play.complete(kind)
    await play.ends()


@scenario(
    Drawing()
    .start()
    .gateway("parallel", "fork")
    .task("l")
    .task("r")
    .end("e1", "e2")
    .flow("begin", "fork", "l", "e1")
    .flow("fork", "r", "e2")
)
async def one_incident_does_not_stop_the_other_branch(play: Play) -> None:
    await play.start()
    await play.sees("l", "r")
    job = await play.fail("l", retries=0)
    await play.lives("r")
    await play.complete("r")
    await play.stands("JOB_NO_RETRIES")
    await play.release(job)
    await play.sees("l")
    await play.complete("l")
    await play.ends()
