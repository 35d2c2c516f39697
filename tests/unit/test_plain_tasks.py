"""Plain tasks as values: what a signature means, what is refused, and what pyzeebe's wrapper makes of a job."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyzeebe import Job as PyzeebeJob
from pyzeebe import JobController, ZeebeTaskRouter
from pyzeebe.errors import BusinessError

from tests.support.frames import make_job
from verbworker import Registry, TaskCall, task_call
from verbworker.contract.task import (
    PlainTask,
    TaskDone,
    TaskEnd,
    TaskFailed,
    TaskThrown,
    running_task,
    variables_bytes,
    variables_in,
)
from verbworker.errors import ContractInvalid, PermanentContract

CALL = TaskCall("t", "vw1-key", 1, datetime(2030, 1, 1, tzinfo=UTC), logging.getLogger("t"), {"a": "b"})


async def invoke(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    answer = function(**arguments)
    return await answer if inspect.isawaitable(answer) else answer


def run(task: PlainTask, **variables: object) -> TaskEnd:
    async def inside() -> TaskEnd:
        with running_task(CALL):
            return await task.run(make_job(variables=variables), CALL, invoke)

    return asyncio.run(inside())


def task_of(function: Callable[..., Any], **options: Any) -> PlainTask:
    registry = Registry()
    registry.task("t", **options)(function)
    (task,) = registry.tasks.values()
    return task


def pyzeebe_task(function: Callable[..., Any], **options: Any) -> PlainTask:
    router = ZeebeTaskRouter()
    register: Any = router.task("t", **options)
    register(function)
    (task,) = Registry().include_pyzeebe(router).tasks.values()
    return task


# ---- our own --------------------------------------------------------------------------------------------------------


def test_parameters_are_the_variables_that_are_fetched() -> None:
    def work(a: int, b: int = 2, *, call: TaskCall) -> dict[str, object]:
        return {"sum": a + b, "key": call.idempotency_key}

    task = task_of(work)

    assert (task.variables, task.variable_names, task.needs_threads) == (("a", "b"), ("a", "b"), True)
    assert run(task, a=1, other=3) == TaskDone({"sum": 3, "key": "vw1-key"})


def test_a_task_without_parameters_fetches_nothing_and_one_with_all_everything() -> None:
    async def nothing() -> None: ...
    async def all_of_them(**given: object) -> dict[str, object]:
        return {"got": sorted(given)}

    assert (task_of(nothing).variables, task_of(nothing).variable_names) == (("vw_none",), ())
    assert task_of(all_of_them).variables == ()
    assert run(task_of(nothing), a=1) == TaskDone({})
    assert run(task_of(all_of_them), a=1, b=2) == TaskDone({"got": ["a", "b"]})
    assert run(task_of(all_of_them, variables=("a",)), a=1, b=2) == TaskDone({"got": ["a"]})


def test_a_single_value_has_a_name() -> None:
    assert run(task_of(lambda a: a * 2, returns="double"), a=2) == TaskDone({"double": 4})


def test_positional_arguments_are_taken_for_none() -> None:
    def work(*rest: object) -> dict[str, object]:
        return {"rest": len(rest)}

    assert run(task_of(work), a=1) == TaskDone({"rest": 0})


def _only_by_place(a: int, /) -> None: ...
def _unknown_hint(a: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (_only_by_place, {}, "takes 'a' without its name"),
        (_unknown_hint, {}, "type hints of the task t cannot be read"),
        (lambda: None, {"concurrency": 0}, "at least 1"),
        (lambda: None, {"batch": 0}, "at least 1"),
        (lambda: None, {"max_runs": 0}, "at least 1"),
        (lambda: None, {"timeout": timedelta()}, "at least a millisecond"),
        (lambda: None, {"on_unknown": "probe"}, "has no probe"),
        (lambda: None, {"variables": "abc"}, "a plain string is read as single letters"),
    ],
)
def test_what_no_task_can_be_is_refused(function: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ContractInvalid, match=words):
        task_of(function, **options)


@pytest.mark.parametrize("name", ["", "verbworker.mine", "a\nb", "x" * 256])
def test_what_no_job_type_can_be_is_refused(name: str) -> None:
    with pytest.raises(ContractInvalid, match=r"job type|reserved"):
        Registry().task(name)(lambda: None)


def test_the_policy_of_a_task_must_exist() -> None:
    registry = Registry()
    registry.task("t", policy="nowhere")(lambda: None)

    with pytest.raises(ContractInvalid, match="nowhere"):
        registry.check()


def test_a_task_knows_its_call_only_while_it_runs() -> None:
    with pytest.raises(PermanentContract, match="only while a plain task runs"):
        task_call()
    with running_task(CALL):
        assert task_call() is CALL


def test_only_dicts_with_names_are_answers() -> None:
    assert (variables_in("t", None), variables_in("t", {"a": 1})) == ({}, {"a": 1})
    for answer in (1, [("a", 1)], {1: 2}):
        with pytest.raises(PermanentContract, match="a plain task returns a dict of variables or None"):
            variables_in("t", answer)


def test_variables_are_stored_as_json_or_refused() -> None:
    deep: list[object] = []
    deep.append(deep)

    assert variables_bytes("t", {"a": (1, None)}) == b'{"a":[1,null]}'
    for answer in ({"a": object()}, {"a": float("inf")}, {"a": deep}):
        with pytest.raises(PermanentContract, match="not JSON"):
            variables_bytes("t", answer)
    with pytest.raises(PermanentContract, match="belongs to the runtime"):
        variables_bytes("t", {"vw_tenant_id": 1})
    with pytest.raises(PermanentContract, match="bytes of variables"):
        variables_bytes("t", {"a": "x" * 2**22})


# ---- pyzeebe's ------------------------------------------------------------------------------------------------------


def test_a_pyzeebe_task_keeps_its_settings() -> None:
    async def work(a: int) -> dict[str, object]:
        """Do it."""
        return {}

    task = pyzeebe_task(work, timeout_ms=1234, max_jobs_to_activate=5, max_running_jobs=6)

    assert (task.variables, task.timeout, task.batch, task.concurrency) == (("a",), timedelta(seconds=1.234), 5, 6)
    assert (task.sentence, task.origin, task.needs_threads) == ("Do it.", "pyzeebe", False)


def test_only_a_router_is_included_and_its_variables_may_come_from_an_iterator() -> None:
    async def work(**given: object) -> dict[str, object]:
        return {"got": sorted(given)}

    task = pyzeebe_task(work, variables_to_fetch=iter(("a", "b")))

    assert (task.variables, run(task, a=1, b=2, c=3)) == (("a", "b"), TaskDone({"got": ["a", "b"]}))
    with pytest.raises(ContractInvalid, match="takes a ZeebeTaskRouter, not a list"):
        Registry().include_pyzeebe([])  # type: ignore[arg-type]


def test_decorators_run_in_order_and_their_failures_are_ignored() -> None:
    seen: list[str] = []

    def note(name: str) -> Callable[[PyzeebeJob], PyzeebeJob]:
        def decorate(job: PyzeebeJob) -> PyzeebeJob:
            seen.append(name)
            if name == "broken":
                raise RuntimeError
            return job

        return decorate

    router = ZeebeTaskRouter(before=[note("router before")], after=[note("router after")])

    # pyzeebe types its decorator so that mypy accepts no async function.
    @router.task("t", before=[note("before"), note("broken")], after=[note("after")])  # type: ignore[arg-type]
    async def work(a: int, job: PyzeebeJob) -> dict[str, object]:
        seen.append("task")
        return {"a": a, "header": job.custom_headers, "tenant": job.tenant_id, "type": job.type}

    (task,) = Registry().include_pyzeebe(router).tasks.values()

    answered = {"a": 1, "header": {}, "tenant": make_job().tenant_id, "type": make_job().type}
    assert run(task, a=1) == TaskDone(answered)
    assert seen == ["router before", "before", "broken", "task", "after", "router after"]


async def _throw(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
    await controller.set_error_status("no", error_code="refused")
    await controller.set_failure_status("too late: the first answer counts")


async def _fail(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
    await controller.set_failure_status("later", retry_back_off_ms=1500)


async def _settle(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
    await controller.set_success_status({"settled": True})


async def _ignore(error: Exception, job: PyzeebeJob, controller: JobController) -> None: ...


async def _break(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
    raise LookupError


async def _fail_with_variables(error: Exception, job: PyzeebeJob, controller: JobController) -> None:
    await controller.set_failure_status("no", variables={"a": 1})


async def _stumble() -> None:
    raise KeyError("a secret")


async def _refuse() -> None:
    raise BusinessError("too-old")


@pytest.mark.parametrize(
    ("handler", "end"),
    [
        (_throw, TaskThrown("refused", "no")),
        (_fail, TaskFailed("later", 1.5)),
        (_settle, TaskDone({"settled": True})),
    ],
)
def test_a_handler_decides_how_a_job_ends(handler: Any, end: TaskEnd) -> None:
    assert run(pyzeebe_task(_stumble, exception_handler=handler)) == end


@pytest.mark.parametrize(
    ("handler", "error"),
    [(None, KeyError), (_ignore, KeyError), (_break, LookupError), (_fail_with_variables, PermanentContract)],
)
def test_a_handler_that_decides_nothing_leaves_the_exception_to_the_runtime(
    handler: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(pyzeebe_task(_stumble, exception_handler=handler))


def test_a_business_error_without_a_handler_is_thrown() -> None:
    end = run(pyzeebe_task(_refuse))

    assert isinstance(end, TaskThrown)
    assert end.code == "too-old"


def test_a_variable_that_is_missing_is_named() -> None:
    with pytest.raises(PermanentContract, match="the process has no variable a, which the task t takes"):
        run(task_of(lambda a: None), b=1)


def test_registries_with_tasks_are_merged_and_a_type_is_registered_once() -> None:
    one = Registry()
    one.task("t")(lambda: None)

    assert list(Registry.of(one).tasks) == ["t"]
    with pytest.raises(ContractInvalid, match="the job type t is registered twice"):
        Registry.of(one, one)


def test_a_task_is_no_sub_verb_and_no_verb() -> None:
    registry = Registry.of(Registry().include_pyzeebe(ZeebeTaskRouter()))
    registry.task("shop.pay")(lambda: None)

    assert (registry.find("shop.pay"), "shop.pay" in registry) == (None, False)
    assert registry.find_task("shop.pay") is not None
