"""Papers: asked for, received, and asked back when the case is given up."""

from collections.abc import Iterator, Mapping

from verbs.kyc import kyc_open_case_gen as gen
from verbs.kyc.case import CaseType, KycCase, Paper
from verbworker import Call, PermanentBusiness, Registry, Result

verbs = Registry()

_WANTED: dict[CaseType, tuple[str, ...]] = {
    "onboarding": ("register-extract", "passport", "ownership-chart"),
    "periodic-review": ("register-extract", "passport"),
    "event-driven": ("statement",),
}


@verbs.verb(
    "kyc.request-documents", mode="transactional", writes=("documents.requested",), errors=(), policy="standard"
)
async def request_documents(case: KycCase, call: Call) -> Result[KycCase]:
    """Ask the customer for the papers that the type of case needs. The answer is to name the case's number."""
    wanted = _WANTED[case.case_type]
    # The row is held: a case that is being closed next to us gets no request afterwards.
    is_open = await call.db.fetchval("SELECT closed_at IS NULL FROM kyc_case WHERE case_id = $1 FOR SHARE", case.number)
    if not is_open:
        raise PermanentBusiness("the case is closed, so nobody is asked for papers")
    await call.db.executemany(
        "INSERT INTO kyc_document_request (case_id, kind) VALUES ($1, $2) ON CONFLICT (case_id, kind) DO NOTHING",
        [(case.number, kind) for kind in wanted],
    )
    documents = case.documents.model_copy(update={"requested": wanted})
    return Result(case.model_copy(update={"documents": documents}), flags=gen.Flags(orch_docs_received=False))


@verbs.verb(
    "kyc.receive-documents",
    mode="transactional",
    writes=("documents.received", "documents.missing"),
    errors=(),
    policy="standard",
)
async def receive_documents(case: KycCase, call: Call) -> Result[KycCase]:
    """Note which papers came. What is still missing is for the reviewer to judge."""
    message = gen.latest_documents_received(call)
    papers = tuple(_papers(message.payload if message is not None else None))
    await call.db.executemany(
        "UPDATE kyc_document_request SET reference = $3, received_at = clock_timestamp()"
        " WHERE case_id = $1 AND kind = $2 AND received_at IS NULL",
        [(case.number, paper.kind, paper.reference) for paper in papers],
    )
    came = {paper.kind for paper in papers}
    missing = tuple(kind for kind in case.documents.requested if kind not in came)
    documents = case.documents.model_copy(update={"received": papers, "missing": missing})
    return Result(case.model_copy(update={"documents": documents}), flags=gen.Flags(orch_docs_received=not missing))


@verbs.verb("kyc.withdraw-requests", mode="transactional", writes=("documents.withdrawn",), policy="standard")
async def withdraw_requests(case: KycCase, call: Call) -> Result[KycCase]:
    """Tell the customer that nothing is wanted any more."""
    await call.db.execute(
        "UPDATE kyc_document_request SET withdrawn_at = clock_timestamp() WHERE case_id = $1 AND withdrawn_at IS NULL",
        case.number,
    )
    documents = case.documents.model_copy(update={"withdrawn": True})
    return Result(case.model_copy(update={"documents": documents}))


def _papers(sent: object) -> Iterator[Paper]:
    """The papers of a message that came from outside: what cannot be read as one is left out."""
    listed = sent.get("documents") if isinstance(sent, Mapping) else None
    for one in listed if isinstance(listed, list) else []:
        match one:
            case {"kind": str(kind), "reference": str(reference)}:
                yield Paper(kind=kind, reference=reference)
