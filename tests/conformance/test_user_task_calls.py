"""The user-task calls against what a real 8.9.17 answered, and the denial as it is on the wire."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.rest_replay import Answer, RestServer, problem, recorded, replayed, rest_server
from verbworker.engine.protocol import UserTasks
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.engine.zeebe.wire import denial
from verbworker.errors import EngineUnavailable, JobGone, JobNotActive, TaskTaken

KEY = 2251799813685327

Call = Callable[[UserTasks], Awaitable[None]]


@asynccontextmanager
async def engine_at(url: str) -> AsyncIterator[ZeebeEngine]:
    address = GatewayAddress("127.0.0.1:1", rest_url=url, call_timeout_s=1.0)
    async with ZeebeEngine(address, engine_id="x") as engine:
        yield engine


async def send(call: Call, answer: Answer) -> RestServer:
    with rest_server(lambda seen: answer) as server:
        async with engine_at(server.url) as engine:
            try:
                await call(engine)
            finally:
                assert len(server.seen) == 1
    return server


CALLS: dict[str, Call] = {
    "complete user task (waits for its listener)": lambda engine: engine.complete_user_task(KEY),
    "assign": lambda engine: engine.assign_user_task(KEY, "ada"),
    "unassign": lambda engine: engine.unassign_user_task(KEY),
    "complete user task again": lambda engine: engine.complete_user_task(KEY),
    "complete unknown user task": lambda engine: engine.complete_user_task(2251799813699999),
    "assign again without override": lambda engine: engine.assign_user_task(KEY, "bob"),
}
MEANINGS = {404: JobGone, 409: TaskTaken}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_is_the_recorded_one_and_its_answer_is_understood(name: str) -> None:
    exchange = next(one for one in recorded() if one.name == name)
    seen: list[str] = []

    with rest_server(lambda one: replayed(exchange)) as server:
        async with engine_at(server.url) as engine:
            if exchange.status == 204:
                await CALLS[name](engine)
            else:
                with pytest.raises(MEANINGS[exchange.status]):
                    await CALLS[name](engine)
        seen = server.paths()

    assert seen == [f"{exchange.method} {exchange.path}"]


async def test_our_own_commands_carry_our_action_and_no_variable() -> None:
    done = Answer(204)

    (completion,) = (await send(lambda engine: engine.complete_user_task(KEY), done)).seen
    (assignment,) = (await send(lambda engine: engine.assign_user_task(KEY, "ada", override=True), done)).seen

    assert json.loads(completion.body) == {"action": "verbworker"}
    assert json.loads(assignment.body) == {"assignee": "ada", "allowOverride": True, "action": "verbworker"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(409, "INVALID_STATE", "it is in state 'CREATING'"), JobNotActive),
        (problem(504, "DEADLINE_EXCEEDED"), EngineUnavailable),
        (Answer(204, delay_s=5.0), EngineUnavailable),
        (Answer(raw=b""), EngineUnavailable),
        (Answer(404, b"<html>", "text/html"), EngineUnavailable),
    ],
)
async def test_a_completion_that_may_have_been_lost_is_sent_once_and_can_be_sent_again(
    answer: Answer, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await send(lambda engine: engine.complete_user_task(KEY), answer)


def test_a_denial_is_the_result_of_the_job_by_field_number() -> None:
    written = denial(7, "é" * 200).SerializeToString()

    reason = ("é" * 200).encode()
    result = b"\x08\x01\x1a" + bytes([0x90, 0x03]) + reason
    assert written.startswith(b"\x08\x07\x12\x02{}")
    assert written.endswith(b"\x1a" + bytes([0x95, 0x03]) + result)
