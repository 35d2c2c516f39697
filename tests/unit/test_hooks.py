"""Hooks around verbs: typed, in order, and one that raises fails the run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.boundary_jobs import CLAIM, Case, entered, make_registry
from tests.support.frames import make_job
from verbworker import Call, PermanentBusiness, PermanentContract, Registry, Result
from verbworker.contract.verb import Verb
from verbworker.errors import ContractInvalid
from verbworker.profile.task_profile import HEADER
from verbworker.work.feeds.leases import RunningJob
from verbworker.work.jobs.perform import VerbRun


class Other(BaseModel):
    """A case of another verb."""


@pytest.fixture
async def threads() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


async def perform(threads: ThreadPoolExecutor, function: Callable[..., Any], **options: Any) -> object:
    job = entered(make_registry(function, options={"mode": "external", **options}))
    life = RunningJob(CLAIM, make_job(), asyncio.get_running_loop().time() + 60)
    return await VerbRun(threads).perform(job, CLAIM, life, timedelta(minutes=1), None)


async def test_hooks_see_the_case_and_the_result_in_order(threads: ThreadPoolExecutor) -> None:
    seen: list[str] = []

    def check(case: Case, call: Call) -> None:
        seen.append(f"before {call.verb}")

    async def look(case: BaseModel) -> None:
        seen.append("before, of any verb")

    async def audit(result: Result[Case], call: Call) -> None:
        seen.append(f"after: {result.outcome}")

    async def act(case: Case) -> Case:
        seen.append("verb")
        return case

    answer = await perform(threads, act, before=(check, look), after=(audit, audit))

    assert isinstance(answer, Case)
    assert seen[1:] == ["before, of any verb", "verb", "after: ok", "after: ok"]


async def test_a_hook_that_raises_fails_the_run(threads: ThreadPoolExecutor) -> None:
    ran: list[str] = []

    async def act(case: Case) -> Result[Case]:
        ran.append("verb")
        return Result(case)

    def refuse(case: Case) -> None:
        raise PermanentBusiness("not at night", code="night")

    def object_to(result: Result[Any]) -> None:
        raise PermanentBusiness("too much", code="limit")

    with pytest.raises(PermanentBusiness, match="not at night"):
        await perform(threads, act, before=(refuse,))
    assert ran == []
    with pytest.raises(PermanentBusiness, match="too much"):
        await perform(threads, act, after=(object_to,))
    assert ran == ["verb"]


async def test_a_hook_returns_nothing(threads: ThreadPoolExecutor) -> None:
    async def act(case: Case) -> Case:
        return case

    async def answer(case: Case) -> Case:
        return case

    with pytest.raises(PermanentContract, match="returned Case; a hook returns nothing"):
        await perform(threads, act, before=(answer,))


def _verb(registry: Registry, **options: Any) -> Verb:
    async def act(case: Case) -> Case:
        return case

    registry.verb("shop.act", mode="external", **options)(act)
    (verb,) = registry
    return verb


def test_the_hooks_of_a_registry_are_the_outer_ones() -> None:
    def outer(case: BaseModel) -> None: ...
    def inner(case: Case) -> None: ...
    def last(result: Result[Any]) -> None: ...
    async def first(result: Result) -> None: ...  # type: ignore[type-arg]  # without a model it is a Result too

    verb = _verb(Registry(before=[outer], after=[last]), before=[inner], after=[first])

    assert [hook.function for hook in verb.before] == [outer, inner]
    assert [hook.function for hook in verb.after] == [first, last]
    assert verb.needs_threads, "a sync hook would block the loop"


def _of_another(case: Other) -> None: ...
def _of_nothing(call: Call) -> None: ...
def _of_a_case(case: Case) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"before": [_of_another]}, "the hook _of_another takes Other, but shop.act takes Case"),
        ({"before": [_of_nothing]}, r"shop.act \(its hook _of_nothing\) takes no pydantic model"),
        ({"after": [_of_nothing]}, "the hook _of_nothing of shop.act takes no Result"),
        ({"after": [_of_a_case]}, "the hook _of_a_case of shop.act takes 'case'; it takes a Result"),
        ({"timeout": timedelta()}, "the timeout is at least a millisecond"),
    ],
)
def test_a_hook_that_cannot_be_called_is_refused_when_it_is_registered(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ContractInvalid, match=words):
        _verb(Registry(), **options)


async def test_a_verb_sees_the_static_headers_of_its_task_and_nothing_that_was_woven_in(
    threads: ThreadPoolExecutor,
) -> None:
    seen: list[dict[str, str]] = []

    async def act(case: Case, call: Call) -> Case:
        seen.append(dict(call.headers))
        return case

    job = entered(make_registry(act, options={"mode": "external"}))
    life = RunningJob(CLAIM, make_job(), asyncio.get_running_loop().time() + 60)
    for headers in ({"carrier": "dhl"}, {"carrier": "dhl", HEADER: "sha256:x"}):
        woven = replace(job, job=replace(job.job, headers=headers))
        await VerbRun(threads).perform(woven, CLAIM, life, timedelta(minutes=1), None)

    assert seen == [{"carrier": "dhl"}, {"carrier": "dhl"}]
