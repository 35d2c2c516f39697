"""Documents: ask a client for what is missing, and note that we asked."""

from pydantic import BaseModel

from verbworker import Call, PermanentBusiness, Registry, Result

verbs = Registry()


class Collection(BaseModel):
    """A document that a client owes us."""

    client: str
    document: str
    request_id: int | None = None
    reminded: bool = False


@verbs.verb("document.solicit", mode="transactional", writes=("request_id",), policy="standard")
async def solicit(collection: Collection, call: Call) -> Result[Collection]:
    """Note what is wanted from a client.

    However often this job is delivered, there is one note.
    """
    if not collection.document.strip():
        raise PermanentBusiness("there is nothing to ask for")
    number = await call.db.fetchval(
        "INSERT INTO document_request (client, document) VALUES ($1, $2) RETURNING id",
        collection.client,
        collection.document,
    )
    return Result(collection.model_copy(update={"request_id": number}), flags={"orch_solicited": True})


@verbs.verb("document.remind", mode="transactional", writes=("reminded",), policy="standard")
async def remind(collection: Collection, call: Call) -> Result[Collection]:
    """Mark the request as reminded."""
    await call.db.execute("UPDATE document_request SET reminders = reminders + 1 WHERE id = $1", collection.request_id)
    return Result(collection.model_copy(update={"reminded": True}))
