"""A bug in a verb: its type, file, line and function are told everywhere, its message nowhere but in a traceback."""

import logging
from typing import Any

import pytest

from tests.support.ledger import TABLE, Account
from tests.support.worker_boot import VERB, LooplessWorker, one_verb, opened, quick
from verbworker.app.explain import explain
from verbworker.contract.verb import Call
from verbworker.stores.jobs.histories import Histories
from verbworker.testing.kit import Kit
from verbworker.testing.memory import JobState

SECRET = "iban DE89 3704"
FILE = "tests/stores/test_own_errors.py"


async def forget(account: Account) -> Account:
    return {SECRET: account}[f"{SECRET}!"]


async def insert_twice(account: Account, call: Call) -> Account:
    for _ in range(2):
        await call.db.execute("INSERT INTO one VALUES (1)")
    return account


def line_of(function: Any, below: int) -> int:
    first: int = function.__code__.co_firstlineno
    return first + below


async def frame_of(worker: LooplessWorker) -> dict[str, Any]:
    await worker.start()
    job = await worker.work()
    names = ("state", "retries_left", "fail_class", "fail_code", "fail_text")
    return {name: await worker.column(job, name) for name in names} | {"job": job}


async def told_everywhere(worker: LooplessWorker, frame: dict[str, Any]) -> str:
    """What the frame, its history, `frames explain` and the engine hold."""
    key = frame["job"].key
    history = await Histories(worker.database, engine_id=worker.engine.engine_id).read(key)
    assert history is not None
    return "\n".join([str(history), *(line.text for line in explain(history)), *worker.known(frame["job"]).messages])


@pytest.mark.req("FAIL-04", "FAIL-12")
async def test_a_bug_is_told_with_its_line_and_never_with_its_message(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(dsn, one_verb(forget, policy=quick())) as worker:
        frame = await frame_of(worker)
        everything = await told_everywhere(worker, frame)

    place = f"at {FILE}:{line_of(forget, 1)} in forget"
    assert (frame["state"], frame["fail_class"], frame["fail_code"]) == ("failed", "UnexpectedError", "KeyError")
    assert frame["fail_text"] == f"the verb raised KeyError {place}"
    assert everything.count(place) >= 3
    (record,) = [record for record in caplog.records if record.message == "run failed"]
    fields = vars(record)
    assert (record.levelname, record.exc_info, fields["error"]) == ("WARNING", None, "KeyError")
    assert (fields["file"], fields["line"], fields["function"]) == (FILE, line_of(forget, 1), "forget")
    assert SECRET not in everything + caplog.text


async def test_a_refused_statement_is_told_with_its_state_and_the_verbs_line(dsn: str) -> None:
    async with opened(dsn, one_verb(insert_twice, mode="transactional", policy=quick())) as worker:
        await worker.database.execute(f"{TABLE}; CREATE TABLE one (id integer PRIMARY KEY)")
        frame = await frame_of(worker)

    place = f"at {FILE}:{line_of(insert_twice, 2)} in insert_twice"
    assert (frame["fail_class"], frame["fail_code"]) == ("UnexpectedError", "UniqueViolationError")
    assert frame["fail_text"] == f"the verb raised UniqueViolationError (SQLSTATE 23505) {place}"


async def test_a_frame_that_says_that_no_retry_is_left_has_none(dsn: str) -> None:
    async with opened(dsn, one_verb(forget, policy=quick())) as worker:
        frame = await frame_of(worker)
        while frame["state"] == "failed":
            await worker.change(frame["job"], "next_retry_at = clock_timestamp()")
            worker.engine.advance(60)
            job = await worker.work()
            frame |= {name: await worker.column(job, name) for name in ("state", "retries_left", "fail_text")}

    assert frame["fail_text"].endswith("; no retry is left")
    assert (frame["state"], frame["retries_left"]) == ("incident", 0)


async def test_a_test_of_a_verb_shows_the_whole_traceback(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Kit.open(dsn, one_verb(forget, policy=quick())) as kit:
        ran = await kit.run(VERB, Account())

    assert ran.state is JobState.INCIDENT
    assert f"at {FILE}:{line_of(forget, 1)} in forget" in ran.messages[0]
    assert f"KeyError: '{SECRET}!'" in caplog.text
    assert f'test_own_errors.py", line {line_of(forget, 1)}, in forget' in caplog.text
