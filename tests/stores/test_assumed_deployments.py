"""A definition whose key nobody recorded is taken for the model it must be, or left unknown."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.case_models import BEGIN, END, flows, task
from tests.support.weaving import BY_MESSAGE, woven
from verbworker.engine.protocol import Deployed
from verbworker.model.weave import Woven
from verbworker.stores.database import Database
from verbworker.stores.deployments import Definition, Deployments

LOST = Definition(key=20, process_id="case", version=2)


@pytest.fixture
async def deployments(dsn: str) -> AsyncIterator[Deployments]:
    async with Database(dsn, size=2) as database:
        yield Deployments(database, engine_id="here")


def model(name: str = "a step", *, extra: str = "") -> Woven:
    """A model that waits for a message; `name` is read by people only, `extra` is another step."""
    steps = ["begin", "hear", "work", *([extra] if extra else []), "end"]
    more = [task(extra, "kyc.check")] if extra else []
    named = task("work", "kyc.check").replace('id="work"', f'id="work" name="{name}"', 1)
    return woven(
        BEGIN,
        END,
        f'<intermediateCatchEvent id="hear">{BY_MESSAGE}</intermediateCatchEvent>',
        named,
        *more,
        flows(*steps),
    )


async def ask(deployments: Deployments, made: Woven) -> None:
    await deployments.request(made, resource="case.bpmn", authored_sha256=b"1" * 32, by="ann")


async def answer(deployments: Deployments, made: Woven, *, version: int, key: int) -> None:
    deployed = Deployed("case", version, key, "case.bpmn")
    await deployments.record(deployed, made, resource="case.bpmn", authored_sha256=b"1" * 32, by="ann")


async def test_an_answer_that_was_lost_for_good_leaves_no_job_without_its_model(deployments: Deployments) -> None:
    """Fault run zeebe 72: the same bytes were deployed again behind another model, and got another key."""
    first, second, third = model("one"), model("two"), model("three")
    await ask(deployments, first)
    await answer(deployments, first, version=1, key=10)
    await ask(deployments, second)  # becomes version 2, and its answer is lost
    await ask(deployments, third)
    await answer(deployments, third, version=3, key=30)
    await ask(deployments, second)
    await answer(deployments, second, version=4, key=40)

    waits = await deployments.waits(LOST)

    assert waits is not None
    assert waits["hear"].message == second.waits["hear"].message
    assert await deployments.model(LOST) in (second.content, third.content)
    assert await deployments.catches(LOST.key) is not None


async def test_models_that_differ_in_their_steps_are_not_taken_for_one_another(deployments: Deployments) -> None:
    await ask(deployments, model())
    await ask(deployments, model(extra="check"))

    assert await deployments.waits(LOST) is None
    assert await deployments.model(LOST) is None


async def test_the_bytes_of_the_last_version_never_become_the_next(deployments: Deployments) -> None:
    await ask(deployments, model())
    await answer(deployments, model(), version=1, key=10)
    await ask(deployments, model(extra="check"))

    assert await deployments.model(LOST) == model(extra="check").content


async def test_what_was_asked_for_long_ago_is_not_assumed(deployments: Deployments) -> None:
    await ask(deployments, model())

    assert not await deployments.assume(LOST, within=timedelta(0))
    assert await deployments.assume(LOST)


async def test_a_process_that_was_never_asked_for_stays_unknown(deployments: Deployments) -> None:
    await ask(deployments, model())

    assert await deployments.waits(Definition(key=20, process_id="other", version=2)) is None


async def test_the_answer_replaces_what_was_assumed(deployments: Deployments) -> None:
    assumed, real = model("one"), model("two")
    await ask(deployments, real)
    await ask(deployments, assumed)
    assert await deployments.model(LOST) == assumed.content

    await answer(deployments, real, version=2, key=LOST.key)
    await answer(deployments, assumed, version=2, key=LOST.key)

    assert await deployments.content(LOST.key) == real.content
