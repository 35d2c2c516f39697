"""Plain jobs: the tasks of a pyzeebe router and tasks of our own, with frames, replay and crashes."""

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pyzeebe import Job as PyzeebeJob
from pyzeebe import ZeebeTaskRouter

from tests.pyzeebe_app.orders import LEDGER, PREFIX
from tests.pyzeebe_app.orders import registry as orders
from verbworker import PermanentBusiness, Registry, TaskCall, TransientExternal
from verbworker.app.logging import set_up
from verbworker.errors import ContractInvalid
from verbworker.job.failpoint import Point
from verbworker.testing.kit import Kit
from verbworker.testing.memory import JobState

SECRET = "s3cr3t-w0rd"
ORDER = {"order_id": "o-1", "amount": 100, "country": "DE", "price": 119.0, "email": "a@b.example"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ledger.jsonl"
    file.touch()
    monkeypatch.setenv(LEDGER, str(file))
    return file


def lines(ledger: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, ledger.read_text().splitlines()) if line["kind"] == kind]


@pytest.mark.parametrize(
    ("task", "answered"),
    [
        ("validate", {"valid": True, "country": "DE"}),
        ("price", {"price": 119.0}),
        ("reserve", {"reservation": "r-o-1", "reserved_with": ["price"]}),
        ("notify", {}),
        ("refund", {"refunded": 100, "reason": "rejected"}),
        ("archive", {}),
    ],
)
async def test_a_pyzeebe_task_answers_what_it_answers_under_pyzeebe(
    dsn: str, ledger: Path, task: str, answered: dict[str, object]
) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.{task}", ORDER)

    assert (ran.state, ran.variables, ran.messages) == (JobState.COMPLETED, answered, ())
    assert lines(ledger, "audit") == [{"kind": "audit", "task": task, "answered": sorted(answered)}]


async def test_a_failing_after_decorator_changes_nothing_and_the_key_is_the_frames(dsn: str, ledger: Path) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.charge", ORDER)
        key = await kit.database.fetchrow("SELECT idempotency_key FROM verbworker.job_frame")

    assert key is not None
    assert ran.variables == {"receipt": {"order": "o-1", "paid": 119.0, "key": key[0]}}
    assert [line["key"] for line in lines(ledger, "effect")] == [key[0]]


async def test_a_handler_throws_what_the_business_rejects(dsn: str, ledger: Path) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.validate", {**ORDER, "amount": -1})

    assert (ran.state, ran.error_code) == (JobState.THROWN, "amount-negative")


async def test_a_handler_fails_a_job_which_costs_a_retry_and_waits_as_it_said(dsn: str, ledger: Path) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.ship", {**ORDER, "order_id": "flaky"})
        frame = await kit.database.fetchrow("SELECT retries_left, fail_code, fail_text FROM verbworker.job_frame")

    assert frame is not None
    # The testing engine's lines have no headers, so the second run meets a bug of its own: a KeyError, which fails too.
    assert (ran.state, frame["retries_left"], frame["fail_code"]) == (JobState.INCIDENT, 0, "TaskFailed")
    assert re.fullmatch(r"unexpected \(KeyError at .*orders\.py:\d+ in ship\); no retry is left", frame["fail_text"])
    assert len({line["key"] for line in lines(ledger, "effect")}) == 1


async def test_a_handler_may_settle_a_failure(dsn: str, ledger: Path) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.notify", {**ORDER, "email": "nobody"})

    assert (ran.state, ran.variables) == (JobState.COMPLETED, {"notified": False})


@pytest.mark.parametrize("point", [point for point in Point if point is not Point.FAILED])
async def test_a_crash_anywhere_leaves_one_key_and_never_repeats_what_completed(
    dsn: str, ledger: Path, point: Point
) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.price", ORDER, crash_at=point)
        frame = await kit.database.fetchrow("SELECT state, runs FROM verbworker.job_frame")

    effects = lines(ledger, "effect")
    runs = 2 if point is Point.PERFORMED else 1
    assert (ran.state, ran.variables) == (JobState.COMPLETED, {"price": 119.0})
    assert (len(effects), len({line["key"] for line in effects})) == (runs, 1)
    assert frame is not None
    assert frame["state"] == "completed"


async def test_a_redelivery_after_the_verdict_replays_the_stored_variables(dsn: str, ledger: Path) -> None:
    async with Kit.open(dsn, orders) as kit:
        ran = await kit.run_task(f"{PREFIX}.price", ORDER, crash_at=Point.POPPED)

    assert (ran.deliveries, ran.variables, len(lines(ledger, "effect"))) == (2, {"price": 119.0}, 1)


# ---- tasks of our own -----------------------------------------------------------------------------------------------


async def test_a_task_takes_variables_and_answers_variables(dsn: str) -> None:
    registry = Registry()

    @registry.task("greet")
    async def greet(name: str, call: TaskCall, greeting: str = "Hello") -> dict[str, object]:
        return {"text": f"{greeting}, {name}", "try": call.attempt, "has_key": call.idempotency_key.startswith("vw1-")}

    async with Kit.open(dsn, registry) as kit:
        ran = await kit.run_task("greet", {"name": "Ada", "other": 1})

    assert ran.variables == {"text": "Hello, Ada", "try": 1, "has_key": True}


async def test_a_task_may_answer_one_variable_and_run_on_a_thread(dsn: str) -> None:
    registry = Registry()

    @registry.task("double", returns="twice")
    def double(number: int) -> int:
        return number * 2

    async with Kit.open(dsn, registry) as kit:
        ran = await kit.run_task("double", {"number": 21})

    assert ran.variables == {"twice": 42}


async def test_the_failure_classes_of_verbs_hold_for_tasks(dsn: str) -> None:
    registry = Registry()

    @registry.task("refuse")
    async def refuse() -> None:
        raise PermanentBusiness("too old", code="too-old")

    @registry.task("falter")
    async def falter(call: TaskCall) -> dict[str, object]:
        if call.attempt == 1:
            raise TransientExternal("away", code="Away")
        return {"tries": call.attempt}

    @registry.task("bug")
    async def bug() -> None:
        raise KeyError("secret")

    async with Kit.open(dsn, registry) as kit:
        refused = await kit.run_task("refuse", {})
        faltered = await kit.run_task("falter", {})
        bugged = await kit.run_task("bug", {})

    assert (refused.state, refused.error_code) == (JobState.THROWN, "too-old")
    assert (faltered.state, faltered.variables) == (JobState.COMPLETED, {"tries": 2})
    assert bugged.state is JobState.INCIDENT
    assert "secret" not in " ".join(bugged.messages)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([1], "AnswerInvalid"),
        ({"when": object()}, "AnswerInvalid"),
        ({"ratio": float("nan")}, "AnswerInvalid"),
        ({"domain_payload": "x"}, "VariableReserved"),
        ({"vw_entry_id": "x"}, "VariableReserved"),
        ({"text": "x" * 2**22}, "AnswerTooLarge"),
    ],
)
async def test_an_answer_that_the_engine_cannot_keep_is_an_incident_with_its_reason(
    dsn: str, answer: object, code: str
) -> None:
    registry = Registry()

    @registry.task("answer")
    async def give() -> Any:
        return answer

    async with Kit.open(dsn, registry) as kit:
        ran = await kit.run_task("answer", {})

    assert (ran.state, ran.messages[0].split()[1]) == (JobState.INCIDENT, f"{code}:")


async def test_a_missing_variable_is_named(dsn: str) -> None:
    registry = Registry()

    @registry.task("greet")
    async def greet(name: str) -> None:
        raise AssertionError("never run")

    async with Kit.open(dsn, registry) as kit:
        ran = await kit.run_task("greet", {})
        frame = await kit.database.fetchrow("SELECT fail_text FROM verbworker.job_frame")

    line = greet.__code__.co_firstlineno
    words = (
        "the process has no variable name, which the task greet takes"
        f" (at tests/stores/test_plain_jobs.py:{line} in test_a_missing_variable_is_named.greet)"
    )
    assert ran.messages[0].startswith(f"PermanentContract VariableMissing: {words} (verb greet,")
    assert frame is not None
    assert frame["fail_text"] == words


@pytest.mark.parametrize("is_single", [True, False])
async def test_a_missing_variable_of_a_pyzeebe_task_is_named_at_once(
    dsn: str, is_single: bool, caplog: pytest.LogCaptureFixture
) -> None:
    router = ZeebeTaskRouter()

    how: dict[str, Any] = {"single_value": True, "variable_name": "price"} if is_single else {}

    @router.task("price", **how)
    def price(amount: int, country: str = "DE") -> dict[str, int]:
        raise AssertionError("never run")

    async with Kit.open(dsn, Registry().include_pyzeebe(router)) as kit:
        ran = await kit.run_task("price", {"country": "AT"})
        frame = await kit.database.fetchrow("SELECT runs, fail_text FROM verbworker.job_frame")

    assert (ran.state, frame and frame["runs"]) == (JobState.INCIDENT, 1)
    assert frame is not None
    assert re.fullmatch(
        r"the process has no variable amount, which the task price takes"
        r" \(at tests/stores/test_plain_jobs.py:\d+ in test_a_missing_variable\S+\.price\)",
        frame["fail_text"],
    )
    (told,) = [record for record in caplog.records if record.getMessage() == "run failed"]
    assert getattr(told, "function", "").endswith(".price")


@pytest.mark.parametrize("has_tracebacks", [True, False])
async def test_the_message_of_a_failing_decorator_is_told_only_with_tracebacks(dsn: str, has_tracebacks: bool) -> None:
    router, said = ZeebeTaskRouter(), io.StringIO()

    def audit(job: PyzeebeJob) -> PyzeebeJob:
        raise ValueError(f"{SECRET} of {job.variables}")

    async def sign(job: PyzeebeJob) -> PyzeebeJob:
        raise KeyError(SECRET)

    @router.task("price", before=[audit], after=[sign])
    def price(amount: int) -> dict[str, int]:
        raise LookupError(SECRET)

    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up(as_json=False, level="info", has_tracebacks=has_tracebacks, stream=said)
        async with Kit.open(dsn, Registry().include_pyzeebe(router)) as kit:
            await kit.run_task("price", {"amount": 1})
    finally:
        root.handlers[:], level = before
        root.setLevel(level)

    told = [line for line in said.getvalue().splitlines() if "decorator failed; the job goes on" in line]
    assert len(told) >= 2
    assert re.search(
        r"decorator=\S*audit error=ValueError file=\S*test_plain_jobs.py line=\d+ function=\S*audit", told[0]
    )
    assert (SECRET in said.getvalue()) is has_tracebacks


def test_a_job_type_is_registered_once() -> None:
    registry = Registry()
    registry.task("greet")(lambda: None)

    with pytest.raises(ContractInvalid, match="the job type greet is registered twice"):
        registry.task("greet")(lambda: None)
    with pytest.raises(ContractInvalid, match="registered twice"):
        Registry.of(orders, orders)
