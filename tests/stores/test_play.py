"""A play of the example: a whole process in one test, as users write them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from tests.support.models import one_task
from verbs import registry
from verbworker.dev.demo import screening
from verbworker.errors import CannotRun
from verbworker.runbook.event import Status
from verbworker.testing.play import Play

CASE = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
FIVE_DAYS = 5 * 24 * 60 * 60


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with screening() as url:
        monkeypatch.setenv("KYC_SCREENING_URL", url)
        yield


@pytest.fixture
async def play(dsn: str, provider: None) -> AsyncIterator[Play]:
    async with Play.open(dsn, registry, ["processes/kyc-open-case"], schema=TABLES.read_text()) as opened:
        yield opened


@pytest.mark.req("TST-15")
async def test_a_case_goes_from_the_question_to_the_decision(play: Play) -> None:
    entry_id = await play.ask(CASE)

    await play.send("kyc.documents-received", str(entry_id), {"documents": [PASSPORT, EXTRACT]})
    await play.decide(entry_id, "approve", reason="all is in order")
    entry = await play.ended(entry_id)

    assert entry.status is Status.COMPLETED
    assert entry.outcome is not None
    assert entry.outcome["decision"] == "approved"
    assert (await play.steps(entry_id))[-1] == "kyc.record-review-decision"
    assert "tests decided approve at review" in "\n".join(await play.story(entry_id))


async def test_time_is_the_tests(play: Play) -> None:
    entry_id = await play.ask(CASE)
    await play.send("kyc.documents-received", str(entry_id), {"documents": [PASSPORT, EXTRACT]})
    await play.waiting(entry_id, lambda wait: wait.gate == "review")

    play.advance(FIVE_DAYS)
    await play.performed(entry_id, "kyc.escalate")

    assert (await play.waiting(entry_id, lambda wait: wait.gate == "review")).gate == "review"


async def test_a_model_that_cannot_be_deployed_says_why(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "other.bpmn").write_bytes(one_task("other", "other.verb"))

    with pytest.raises(CannotRun, match=r"the models cannot be deployed:\n.*other"):
        async with Play.open(dsn, registry, [str(tmp_path)]):
            pytest.fail("it was deployed")
