"""The case record: opened first, closed last."""

from verbs.kyc.case import KycCase
from verbworker import Call, PermanentBusiness, Registry, Result

verbs = Registry()


@verbs.verb("kyc.create-case-record", mode="transactional", writes=("case_id",), policy="standard")
async def create_case_record(case: KycCase, call: Call) -> Result[KycCase]:
    """Open the record of a case; its number is the entry's, so everybody who asked for it knows it."""
    if not case.entity.strip():
        raise PermanentBusiness("a case is about somebody, and no entity is named")
    await call.db.execute(
        "INSERT INTO kyc_case (case_id, tenant_id, entity, case_type) VALUES ($1, $2, $3, $4)",
        call.entry_id,
        call.tenant_id,
        case.entity,
        case.case_type,
    )
    return Result(case.model_copy(update={"case_id": call.entry_id}))


@verbs.verb("kyc.close-case-record", mode="transactional", writes=("closed",), policy="standard")
async def close_case_record(case: KycCase, call: Call) -> Result[KycCase]:
    """Close the record of a case that is given up. What was decided stays readable; closing twice closes once."""
    await call.db.execute(
        "UPDATE kyc_case SET closed_at = clock_timestamp() WHERE case_id = $1 AND closed_at IS NULL", case.number
    )
    return Result(case.model_copy(update={"closed": True}))
