"""The verbs of the KYC example, called as the plain functions they are, on real tables."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.kyc import EXTRACT, PASSPORT, decided, make_call, make_case, opened, sent
from verbs.kyc.case import KycCase
from verbs.kyc.documents import receive_documents, request_documents, withdraw_requests
from verbs.kyc.record import close_case_record, create_case_record
from verbs.kyc.review import HEAD, assign_reviewer, escalate, record_review_decision
from verbworker import PermanentBusiness, PermanentContract

pytestmark = pytest.mark.req("REG-12", "REG-18")


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Any]:
    async with opened(dsn) as connection:
        yield connection


async def created(db: Any, **changes: Any) -> KycCase:
    return (await create_case_record(make_case(**changes), make_call(db))).case


async def requested(db: Any) -> KycCase:
    case = await created(db)
    return (await request_documents(case, make_call(db))).case


async def row(db: Any, case: KycCase) -> dict[str, Any]:
    return dict(await db.fetchrow("SELECT * FROM kyc_case WHERE case_id = $1", case.case_id))


async def test_a_case_is_recorded_under_the_number_of_its_entry(db: Any) -> None:
    result = await create_case_record(make_case(), make_call(db, entry_id=UUID(int=7)))

    assert result.case.case_id == UUID(int=7)
    assert (await row(db, result.case))["entity"] == "Allianz GmbH"


async def test_a_case_about_nobody_is_refused(db: Any) -> None:
    with pytest.raises(PermanentBusiness) as caught:
        await create_case_record(make_case(entity="  "), make_call(db))

    assert caught.value.thrown is None  # nothing in the model could go on without one: a person looks


async def test_a_step_without_a_record_says_so(db: Any) -> None:
    with pytest.raises(PermanentContract) as caught:
        await assign_reviewer(make_case(), make_call(db))

    assert caught.value.code == "CaseWithoutRecord"


async def test_the_papers_for_the_type_of_case_are_asked_for(db: Any) -> None:
    case = await requested(db)

    kinds = await db.fetch("SELECT kind FROM kyc_document_request WHERE case_id = $1 ORDER BY kind", case.case_id)
    assert [kind["kind"] for kind in kinds] == ["passport", "register-extract"]
    assert set(case.documents.requested) == {"passport", "register-extract"}


async def test_a_closed_case_asks_nobody_for_papers(db: Any) -> None:
    case = await created(db)
    await close_case_record(case, make_call(db))

    with pytest.raises(PermanentBusiness) as caught:
        await request_documents(case, make_call(db))

    assert caught.value.thrown is None


async def test_papers_that_came_are_noted_by_reference(db: Any) -> None:
    case = await requested(db)

    result = await receive_documents(case, make_call(db, messages=(sent(PASSPORT, EXTRACT),)))

    assert result.flags == {"orch_docs_received": True}
    assert result.case.documents.missing == ()
    references = await db.fetch("SELECT reference FROM kyc_document_request ORDER BY reference")
    assert [one["reference"] for one in references] == [PASSPORT["reference"], EXTRACT["reference"]]


@pytest.mark.req("PAY-13")
async def test_the_content_of_a_paper_stays_where_its_reference_leads(db: Any) -> None:
    scan = "JVBERi0xLjcK" * 1000
    papers = [{**PASSPORT, "content": scan}, {**EXTRACT, "graph": {"nodes": list(range(200))}}]

    result = await receive_documents(await requested(db), make_call(db, messages=(sent(*papers),)))

    assert result.case.model_dump()["documents"]["received"] == (
        {"kind": PASSPORT["kind"], "reference": PASSPORT["reference"]},
        {"kind": EXTRACT["kind"], "reference": EXTRACT["reference"]},
    )
    assert len(result.case.model_dump_json()) < 1000
    assert not any(name.startswith("orch_") for name in result.case.model_dump())


async def test_papers_that_are_missing_are_named(db: Any) -> None:
    result = await receive_documents(await requested(db), make_call(db, messages=(sent(PASSPORT),)))

    assert result.case.documents.missing == ("register-extract",)
    assert result.flags == {"orch_docs_received": False}


@pytest.mark.parametrize("paper", [1, {}, {"kind": "passport"}, {"kind": 1, "reference": "x"}, None])
async def test_what_is_no_paper_is_left_out(db: Any, paper: object) -> None:
    result = await receive_documents(await requested(db), make_call(db, messages=(sent(paper),)))

    assert result.case.documents.received == ()


async def test_withdrawing_twice_withdraws_once(db: Any) -> None:
    case = (await withdraw_requests(await requested(db), make_call(db))).case
    first = await db.fetch("SELECT withdrawn_at FROM kyc_document_request")
    again = (await withdraw_requests(case, make_call(db))).case

    assert await db.fetch("SELECT withdrawn_at FROM kyc_document_request") == first
    assert again.documents.withdrawn


async def test_closing_twice_closes_once(db: Any) -> None:
    case = (await close_case_record(await created(db), make_call(db))).case
    first = await row(db, case)
    await close_case_record(case, make_call(db))

    assert first["closed_at"] is not None
    assert await row(db, case) == first


async def test_the_desk_and_the_deadline_follow_from_the_type_of_case(db: Any) -> None:
    result = await assign_reviewer(await created(db, case_type="event-driven"), make_call(db))

    assert result.case.reviewer == "incident-desk"
    assert result.flags == {"orch_review_deadline": "P1D"}


async def test_a_caller_may_ask_for_another_deadline(db: Any) -> None:
    result = await assign_reviewer(await created(db, review_within="PT2S"), make_call(db))

    assert result.flags == {"orch_review_deadline": "PT2S"}


@pytest.mark.parametrize("text", ["", "P", "PT", "2 days", "P1DT", "PT2X", "-P1D"])
def test_a_deadline_that_is_no_duration_makes_no_case(text: str) -> None:
    with pytest.raises(ValueError, match="review_within"):
        make_case(review_within=text)


async def test_a_late_case_is_brought_to_the_head(db: Any) -> None:
    result = await escalate(await created(db), make_call(db))

    assert result.flags == {"orch_escalated": True}
    assert (await row(db, result.case))["escalated_to"] == HEAD


async def test_a_decided_case_is_not_escalated_any_more(db: Any) -> None:
    case = await created(db)
    await record_review_decision(case, make_call(db, decisions=(decided("approve"),)))
    await escalate(case, make_call(db))

    assert (await row(db, case))["escalated_to"] is None


@pytest.mark.req("ORC-05")
@pytest.mark.parametrize(("said", "outcome"), [("approve", "approved"), ("reject", "rejected")])
async def test_the_reviewers_word_becomes_the_outcome(db: Any, said: str, outcome: str) -> None:
    result = await record_review_decision(await created(db), make_call(db, decisions=(decided(said),)))

    assert result.flags == {"orch_review_outcome": outcome}
    assert result.case.review is not None
    assert (result.case.review.by, result.case.review.reason) == ("ada", "seen the papers")
    assert (await row(db, result.case))["decision"] == outcome


async def test_without_a_decision_nothing_is_recorded(db: Any) -> None:
    with pytest.raises(PermanentContract) as caught:
        await record_review_decision(await created(db), make_call(db))

    assert caught.value.code == "DecisionMissing"
