"""What a model's profile promises, the worker keeps, on real engines: mapping, policy, keys, and the definition."""

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import pytest

from tests.support.engines import Gateway
from tests.support.job_life import carried
from tests.support.profiled import (
    DATA,
    Question,
    VerbRecorder,
    at_the_wait,
    beyond_the_wait,
    deployed,
    profiled_model,
    profiled_registry,
)
from tests.support.rig import Rig, opened
from tests.support.start import Begun, begin
from verbworker.engine.protocol import Signal
from verbworker.job.frame import FrameState
from verbworker.model.weave import COMPLETE
from verbworker.profile.task_profile import HEADER
from verbworker.stores.task_profiles import TaskProfileStore

ON = ("embedded", "zeebe", "zeebe-rest")


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("profiled")


@pytest.fixture
def recorder() -> VerbRecorder:
    return VerbRecorder()


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str, recorder: VerbRecorder) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, profiled_registry(domain, recorder)) as rig:
        yield rig


async def started(rig: Rig, domain: str, **data: object) -> Begun:
    return await begin(rig.database, rig.engine, rig.registry.workflows[f"{domain}.open"], {**DATA, **data})


@pytest.mark.req("PRX-02", "PRX-06", "PRX-27", "PRX-28", "CPL-14", "TPL-02", "TPL-08", "X-29", "X-30")
async def test_a_process_asks_waits_by_its_template_key_and_ends(rig: Rig, domain: str, recorder: VerbRecorder) -> None:
    await deployed(rig, profiled_model(domain))
    begun = await started(rig, domain, rounds=2)

    keys = []
    for visit in (1, 2):
        asked = await rig.work(f"{domain}.ask")
        keys.append(f"asking/7/ask/{visit}")
        await at_the_wait(rig)
        await rig.engine.publish(Signal(f"{domain}.answered", "ref-1", uuid4().hex, 60_000, {}))
        await beyond_the_wait(rig)
        settled = await rig.work(f"{domain}.settle")
        frame = await rig.frame(asked)
        assert (frame.state, frame.correlation) == (FrameState.COMPLETED, {"corr_answer": "ref-1"})
        assert "note" not in carried(settled)  # its source was not there
        assert carried(settled)["customer"] == DATA["customer"]
    last = await rig.heard(COMPLETE)

    assert last.process_instance_key == begun.instance_key
    assert [question for question, _, _ in recorder.questions] == [Question(who="Ada")] * 2
    assert [key for _, key, _ in recorder.questions] == keys
    assert [settlement.model_dump() for settlement in recorder.settled] == [
        {"asked": {"reference": "ref-1"}, "rounds": 2},
        {"asked": {"reference": "ref-1"}, "rounds": 1},
    ]


async def test_a_job_asks_for_its_profile_once(
    rig: Rig, domain: str, recorder: VerbRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    asked: list[str] = []
    for name in ("of", "visit"):
        monkeypatch.setattr(TaskProfileStore, name, _count(getattr(TaskProfileStore, name), asked))

    await rig.work(f"{domain}.ask")

    assert asked == ["of", "visit"]
    assert len(recorder.questions) == 1


def _count(method: Callable[..., Awaitable[object]], asked: list[str]) -> Callable[..., Awaitable[object]]:
    async def call(*given: object) -> object:
        asked.append(method.__name__)
        return await method(*given)

    return call


@pytest.mark.req("PRX-26")
async def test_a_verb_is_given_the_headers_of_its_task_word_for_word(
    rig: Rig, domain: str, recorder: VerbRecorder
) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)

    await rig.work(f"{domain}.ask")

    assert recorder.headers == [{"channel": "letter", "letter.kind-1": "first"}]


@pytest.mark.req("POL-06", "POL-08")
async def test_the_attempts_are_those_of_the_compiled_policy(rig: Rig, domain: str, recorder: VerbRecorder) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    recorder.error = OSError("no answer")

    job = await rig.work(f"{domain}.ask")

    assert job.retries == 4
    assert (await rig.frame(job)).retries_left == 3
    assert rig.engine.failures[-1][1] == 3
    assert job.headers[HEADER].startswith("sha256:")


@pytest.mark.req("POL-06")
async def test_an_error_that_the_policy_calls_final_is_not_tried_again(
    rig: Rig, domain: str, recorder: VerbRecorder
) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    recorder.error = ZeroDivisionError("never")

    job = await rig.work(f"{domain}.ask")

    assert (await rig.frame(job)).state is FrameState.INCIDENT
    assert rig.engine.failures[-1][1] == 0


@pytest.mark.req("TPL-04", "TPL-05", "X-26")
@pytest.mark.parametrize(
    ("reference", "code"), [(None, "AmeideTemplateMissingPath"), ("", "AmeideTemplateEmpty")], ids=["missing", "empty"]
)
async def test_a_wait_whose_key_cannot_be_made_is_an_incident_of_the_task_before_it(
    rig: Rig, domain: str, recorder: VerbRecorder, reference: str | None, code: str
) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    recorder.reference = reference

    job = await rig.work(f"{domain}.ask")

    frame = await rig.frame(job)
    assert (frame.state, frame.fail_class, frame.fail_code) == (FrameState.INCIDENT, "PermanentContract", code)
    assert rig.engine.failures[-1][1] == 0


@pytest.mark.req("TPL-04", "TPL-09")
async def test_a_job_whose_idempotency_key_cannot_be_made_never_runs(
    rig: Rig, domain: str, recorder: VerbRecorder
) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain, customer={"name": "Ada"})

    job = await rig.work(f"{domain}.ask")

    frame = await rig.frame(job)
    assert (frame.state, frame.fail_code) == (FrameState.INCIDENT, "AmeideTemplateMissingPath")
    assert recorder.questions == []


@pytest.mark.req("PRX-21")
async def test_an_instance_keeps_the_terms_it_began_under(rig: Rig, domain: str, recorder: VerbRecorder) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    await deployed(rig, profiled_model(domain, definition="2", key="later/${process_instance_id}"))
    begun = await started(rig, domain)

    await rig.work(f"{domain}.ask")
    await rig.work(f"{domain}.ask")

    assert sorted(key for _, key, _ in recorder.questions) == ["asking/7/ask/1", f"later/{begun.instance_key}"]


@pytest.mark.req("CPL-13")
async def test_an_instance_that_was_moved_to_another_definition_is_not_gone_on_with(
    rig: Rig, domain: str, recorder: VerbRecorder
) -> None:
    first = await deployed(rig, profiled_model(domain))
    await deployed(rig, profiled_model(domain, definition="2"))
    begun = await started(rig, domain)
    # As it looks when somebody migrates a running instance in the engine.
    await rig.database.execute(
        "UPDATE verbworker.workflow_instance SET definition_key = $2 WHERE instance_uid = $1",
        begun.instance_uid,
        first.deployment.definition_key,
    )

    job = await rig.work(f"{domain}.ask")

    frame = await rig.frame(job)
    assert (frame.state, frame.fail_code) == (FrameState.INCIDENT, "AmeideDefinitionMismatch")
    assert recorder.questions == []


async def test_terms_that_the_database_does_not_know_are_refused(rig: Rig, domain: str, recorder: VerbRecorder) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    await rig.database.execute("UPDATE verbworker.process_deployment SET terms_digest = NULL")
    await rig.database.execute("UPDATE verbworker.deployment_request SET terms_digest = NULL")
    await rig.database.execute("DELETE FROM verbworker.process_terms")

    job = await rig.work(f"{domain}.ask")

    frame = await rig.frame(job)
    assert (frame.state, frame.fail_code) == (FrameState.INCIDENT, "TermsUnknown")
    assert recorder.questions == []


@pytest.mark.req("TPL-08")
async def test_a_retry_is_the_same_visit(rig: Rig, domain: str, recorder: VerbRecorder) -> None:
    await deployed(rig, profiled_model(domain))
    await started(rig, domain)
    recorder.error = OSError("no answer")
    await rig.work(f"{domain}.ask")
    recorder.error = None

    await rig.work(f"{domain}.ask")

    assert [(key, attempt) for _, key, attempt in recorder.questions] == [("asking/7/ask/1", 1), ("asking/7/ask/1", 2)]
