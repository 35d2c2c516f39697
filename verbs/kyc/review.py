"""Review: who looks at the case, what they decided, and who is told when they take too long."""

from verbs.kyc import kyc_open_case_gen as gen
from verbs.kyc.case import CaseType, KycCase, Review
from verbworker import Call, PermanentContract, Registry, Result

HEAD = "head-of-kyc"

verbs = Registry()

_DESKS: dict[CaseType, str] = {
    "onboarding": "onboarding-desk",
    "periodic-review": "review-desk",
    "event-driven": "incident-desk",
}
_WITHIN: dict[CaseType, str] = {"onboarding": "P3D", "periodic-review": "P5D", "event-driven": "P1D"}


@verbs.verb("kyc.assign-reviewer", mode="transactional", writes=("reviewer",), policy="standard")
async def assign_reviewer(case: KycCase, call: Call) -> Result[KycCase]:
    """Give the case to the desk for its type, and say until when an answer is due."""
    desk = _DESKS[case.case_type]
    await call.db.execute("UPDATE kyc_case SET reviewer = $2 WHERE case_id = $1", case.number, desk)
    due = case.review_within or _WITHIN[case.case_type]
    return Result(case.model_copy(update={"reviewer": desk}), flags=gen.Flags(orch_review_deadline=due))


@verbs.verb("kyc.escalate", mode="transactional", writes=("escalated_to",), policy="standard")
async def escalate(case: KycCase, call: Call) -> Result[KycCase]:
    """Tell the head of the department that a case waits for too long. The reviewer may still decide."""
    await call.db.execute(
        "UPDATE kyc_case SET escalated_to = $2, escalated_at = clock_timestamp()"
        " WHERE case_id = $1 AND decision IS NULL",
        case.number,
        HEAD,
    )
    return Result(case.model_copy(update={"escalated_to": HEAD}), flags=gen.Flags(orch_escalated=True))


@verbs.verb("kyc.record-review-decision", mode="transactional", writes=("review",), policy="standard")
async def record_review_decision(case: KycCase, call: Call) -> Result[KycCase]:
    """Write down what the reviewer decided, and by whom and why."""
    decided = gen.review_decision(call)
    if decided is None:
        raise PermanentContract("nobody has decided yet", code="DecisionMissing")
    review = Review(
        decision="approved" if decided.decision == "approve" else "rejected",
        reason=decided.reason,
        by=decided.by,
        at=decided.at,
    )
    await call.db.execute(
        "UPDATE kyc_case SET decision = $2, decided_by = $3, decided_at = $4 WHERE case_id = $1",
        case.number,
        review.decision,
        review.by,
        review.at,
    )
    return Result(case.model_copy(update={"review": review}), flags=gen.Flags(orch_review_outcome=review.decision))
