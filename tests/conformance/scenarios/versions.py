"""Stories of versions: what began on one goes on with it, what begins later takes the latest."""

import pytest

from tests.support.drawing import Drawing
from tests.support.scenario import Play, scenario
from verbworker.engine.protocol import Start
from verbworker.errors import CommandInvalid


def to(task: str) -> Drawing:
    return Drawing().start().task("a").task(task).end().flow("begin", "a", task, "end")


@scenario(to("old"))
async def the_same_bytes_keep_their_version(play: Play) -> None:
    (again,) = await play.deploy(to("old"))
    (other,) = await play.deploy(to("new"))
    (back,) = await play.deploy(to("old"))
    assert (again.version, other.version, back.version) == (1, 2, 3)


@scenario(to("old"), proves=("VER-03",))
async def each_instance_follows_the_model_it_began_with(play: Play) -> None:
    await play.start(orch_x="early")
    await play.sees("a")
    await play.deploy(to("new"))
    await play.start(orch_x="late")
    await play.sees("a", "a")
    assert [job.process_version for job in sorted(play.jobs(), key=lambda job: job.key)] == [1, 2]
    await play.complete("a")
    await play.complete("a")
    await play.sees("new", "old")
    assert (play.carries("old")["orch_x"], play.carries("new")["orch_x"]) == ("early", "late")


@scenario(to("old"))
async def an_older_version_can_be_started(play: Play) -> None:
    await play.deploy(to("new"))
    await play.start(version=1)
    await play.sees("a")
    await play.complete("a")
    await play.lives("old")


@scenario(to("old"))
async def a_definition_can_be_started_by_its_key(play: Play) -> None:
    (new,) = await play.deploy(to("new"))
    (newer,) = await play.deploy(to("newer"))
    started = await play.stage.engine.start(Start(new.process_id, {}, definition_key=new.definition_key))
    assert (started.version, started.process_id) == (2, new.process_id)
    assert newer.version == 3


@scenario(to("old"))
async def what_is_not_there_cannot_be_started(play: Play) -> None:
    with pytest.raises(CommandInvalid):
        await play.start("nowhere")
    with pytest.raises(CommandInvalid):
        await play.start(version=7)


@scenario(Drawing().message_start("begin", "mail").task("a").end().flow("begin", "a", "end"))
async def a_process_that_only_a_message_starts_cannot_be_started_otherwise(play: Play) -> None:
    with pytest.raises(CommandInvalid):
        await play.start()


def opened(task: str) -> Drawing:
    return Drawing().message_start("begin", "mail").task(task).end().flow("begin", task, "end")


@scenario(opened("old"))
async def a_message_starts_the_latest_version(play: Play) -> None:
    await play.deploy(opened("new"))
    await play.publish("mail")
    await play.sees("new")


@scenario(opened("old"))
async def a_version_without_the_message_start_is_not_started_by_it(play: Play) -> None:
    await play.deploy(Drawing().start().task("new").end().flow("begin", "new", "end"))
    await play.publish("mail")
    await play.start()
    await play.lives("new")


def waiting(task: str) -> Drawing:
    return Drawing().start().catch("wait", message="docs").task(task).end().flow("begin", "wait", task, "end")


@scenario(waiting("old"), proves=("MSG-06",))
async def a_message_reaches_one_instance_whatever_its_version(play: Play) -> None:
    await play.start(corr_key="k")
    await play.lives()
    await play.publish("docs")
    await play.sees("old")
    await play.deploy(waiting("new"))
    await play.start(corr_key="k")
    await play.lives("old")
