"""The routes for cases: start, read, list, follow, claim, decide and cancel."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from verbworker.api.admission import Admission, admitting_route
from verbworker.api.event_stream import EventStreams
from verbworker.api.guard import Sender
from verbworker.api.message_routes import acting_client
from verbworker.api.problem import API, problem_responses
from verbworker.api.seen_people import SeenPeople
from verbworker.api.settings import ApiScope
from verbworker.client.client import Client
from verbworker.client.gate_actions import CLAIM_WAIT_S
from verbworker.client.incident_actions import MOST_RETRIES
from verbworker.client.incident_records import IncidentDetail, IncidentPage, IncidentResolution
from verbworker.client.records import (
    DecisionRecord,
    EntryDetail,
    EntryPage,
    EntryRecord,
    EventRecord,
    GatePage,
    GateRecord,
    MessageReceipt,
)
from verbworker.contract.message import Base64, Word
from verbworker.contract.text import LONGEST_REASON
from verbworker.errors import InvocationInvalid, MessageInvalid, RequestConflict
from verbworker.http.answers import RETRY_SOON
from verbworker.runbook.decision_form import read_inputs
from verbworker.runbook.event import Status

_LONGEST_DECISION = 200  # characters; a decision is a word of the model's
_MOST = 200  # rows of one answer; for more there are pages
_LAST_EVENT = 2**63 - 1  # what the database can count to
_STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)
_MOST_FLAGS = 100  # of a resolution; no contract has as many
_LONGEST_CLAIM_WAIT = 30.0  # seconds, a connection is kept for; a worker sends the claim all the same
_LONGEST_TTL = 3_650 * 86_400.0  # seconds, ten years: more is a mistake


def _require_few(flags: object) -> object:
    if isinstance(flags, dict) and len(flags) > _MOST_FLAGS:
        raise ValueError(f"must not have more than {_MOST_FLAGS} flags")
    return flags


class StartRequest(BaseModel):
    """A verb to start, and its arguments."""

    model_config = _STRICT

    verb: Word
    args: dict[str, Any] = Field(default={}, description="the arguments, by name")


class GateDecision(BaseModel):
    """A decision at a gate."""

    model_config = _STRICT

    decision: Annotated[str, Field(min_length=1, max_length=_LONGEST_DECISION)]
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""
    gate: Annotated[Word | None, Field(description="the name of the gate, if the entry waits at several")] = None
    inputs: dict[str, Any] = Field(default={}, description="what the gate asks for with the decision, by name")


class ClaimRequest(BaseModel):
    """A claim or a release of a gate."""

    model_config = _STRICT

    gate: Annotated[Word | None, Field(description="the name of the gate, if the entry waits at several")] = None
    wait: Annotated[
        float,
        Field(ge=0, le=_LONGEST_CLAIM_WAIT, description="seconds to wait for the answer of the engine's task list"),
    ] = CLAIM_WAIT_S


class CancelRequest(BaseModel):
    """A request to end an entry early."""

    model_config = _STRICT

    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]


class ResolveRequest(BaseModel):
    """A request to resolve an incident."""

    model_config = _STRICT

    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    retries: Annotated[int, Field(ge=1, le=MOST_RETRIES, description="the number of tries from now on")] = 3
    as_new: bool = Field(default=False, description="a held verb gets a new idempotency key: its effect may come twice")
    flags: Annotated[dict[Word, bool | int | str], BeforeValidator(_require_few)] = Field(
        default={}, description="set before, for a gateway that found no way"
    )


class MessageRequest(BaseModel):
    """A message for the case that waits for it. It belongs to the tenant of the credential."""

    model_config = _STRICT

    message_name: Word
    correlation_key: Word
    payload: dict[str, Any] | None = None
    payload_bytes: Annotated[Base64 | None, Field(description="bytes for the verb, instead of payload")] = None
    message_id: Annotated[Word | None, Field(description="your own id; if missing, the Idempotency-Key")] = None
    entry_id: Annotated[UUID | None, Field(description="only for this entry")] = None
    workflow_id: Annotated[Word | None, Field(description="only for the case with this business key or entry")] = None
    correlation_id: Annotated[Word | None, Field(description="what it belongs to, for the record")] = None
    causation_id: Annotated[Word | None, Field(description="what caused it, for the record")] = None
    ttl: Annotated[float | None, Field(ge=1, le=_LONGEST_TTL, description="seconds that it waits for its case")] = None


async def _client(request: Request) -> Client:
    """Return the client that acts for the sender."""
    client: Client = request.app.state.client
    people: SeenPeople = request.app.state.people
    await people.note(request.state.sender)
    return acting_client(client, request.state.sender)


Acting = Annotated[Client, Depends(_client)]
Limit = Annotated[int, Query(ge=1, le=_MOST, description="the most rows to return")]
Cursor = Annotated[Word | None, Query(description="`next` of the page before")]
After = Annotated[int, Query(ge=0, le=_LAST_EVENT, description="only events behind this number")]


def _router(scope: ApiScope, tag: str) -> APIRouter:
    refusals = problem_responses(has_body=scope is not ApiScope.READ)
    return APIRouter(prefix=API, route_class=admitting_route(scope), tags=[tag], responses=refusals)


starts = _router(ApiScope.START, "entries")
reads = _router(ApiScope.READ, "entries")
cancels = _router(ApiScope.CANCEL, "entries")
decisions = _router(ApiScope.DECIDE, "gates")
resolutions = _router(ApiScope.RESOLVE, "incidents")
messages = _router(ApiScope.MESSAGES, "messages")


@starts.post("/entries", status_code=201, operation_id="start_entry")
async def start_entry(
    wanted: StartRequest,
    client: Acting,
    response: Response,
    idempotency_key: Annotated[
        Word | None,
        Header(description="your own key: a repeated request with it starts nothing; 409 if its body differs"),
    ] = None,
) -> EntryRecord:
    """Start a verb.

    A workflow verb is in progress on return; a direct one has ended. A repeated request with the same Idempotency-Key
    returns the entry of the first. A W3C `traceparent` header is carried on.
    """
    entry = await client.start(wanted.verb, wanted.args, request_key=idempotency_key)
    response.headers["Location"] = f"{API}/entries/{entry.entry_id}"
    return await entry.wait(timeout=0)


@reads.get("/entries", operation_id="list_entries")
async def list_entries(
    client: Acting,
    status: Status | None = None,
    verb: Word | None = None,
    text: Annotated[Word | None, Query(description="found in the sentence, the verb or the name of who asked")] = None,
    stuck_for: Annotated[
        float | None, Query(ge=0, le=315_360_000, description="only entries without progress for so many seconds")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EntryPage:
    """List the entries, newest first. The next page starts at the cursor `next`, which is null on the last one."""
    return await client.entries(
        status=status,
        verb=verb,
        text=text,
        stuck_for=None if stuck_for is None else timedelta(seconds=stuck_for),
        limit=limit,
        cursor=cursor,
    )


@reads.get("/entries/{entry_id}", operation_id="read_entry")
async def read_entry(entry_id: UUID, client: Acting) -> EntryDetail:
    """Read one entry: its status, its outcome, its progress and what it waits for."""
    return await (await client.entry(entry_id)).read()


@reads.get("/entries/{entry_id}/events", operation_id="list_events")
async def list_events(entry_id: UUID, client: Acting, after: After = 0, limit: Limit = _MOST) -> list[EventRecord]:
    """List what happened to an entry, in order."""
    return await (await client.entry(entry_id)).history(after=after, limit=limit)


@reads.get(
    "/entries/{entry_id}/events/stream",
    operation_id="follow_events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        204: {"description": "The entry has ended, and its last event was sent before"},
    },
)
async def follow_events(
    entry_id: UUID,
    client: Acting,
    request: Request,
    after: After = 0,
    last_event_id: Annotated[str | None, Header(description="the id of the last event that arrived")] = None,
) -> Response:
    """Follow what happens to an entry until it has ended, as server-sent events.

    Each event has its number as `id`, its kind as `event`, and the same JSON as in the list as `data`. A stream may end
    earlier: connect again with `Last-Event-ID`, as browsers do, and it resumes there. 204 means that nothing follows.
    """
    streams: EventStreams = request.app.state.streams
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 10:
        after = max(after, int(last_event_id))
    entry = await client.entry(entry_id)
    if (await entry.wait(timeout=0)).is_final and not await entry.history(after=after, limit=1):
        return Response(status_code=204)
    sender: Sender = request.state.sender
    admission: Admission = request.app.state.admission
    if streams.is_full(sender.name):
        raise HTTPException(503, "this server takes no more streams now; try again later", RETRY_SOON)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = streams.lines(entry, after, sender.name, may_go_on=lambda: admission.guard.admits(sender))
    return StreamingResponse(lines, media_type="text/event-stream", headers=headers)


@cancels.post(
    "/entries/{entry_id}/cancel",
    operation_id="cancel_entry",
    responses={
        200: {"description": "The entry is cancelled"},
        202: {"model": EntryRecord, "description": "The request is stored, and a worker carries it out"},
    },
)
async def cancel_entry(entry_id: UUID, wanted: CancelRequest, client: Acting, response: Response) -> EntryRecord:
    """Request the end of an entry; completed steps are not undone.

    202 means that the request is stored and a worker carries it out. Repeating a request has no effect.
    """
    entry = await client.cancel(entry_id, wanted.reason)
    response.status_code = 200 if entry.is_final else 202
    return entry


@reads.get("/gates", operation_id="list_gates", tags=["gates"])
async def list_gates(
    client: Acting,
    gate: Annotated[Word | None, Query(description="only gates of this name")] = None,
    entry_id: Annotated[UUID | None, Query(description="only gates of this entry")] = None,
    closed: Annotated[bool, Query(description="include closed gates and their decisions")] = False,
    limit: Limit = _MOST,
    cursor: Cursor = None,
) -> GatePage:
    """List the gates that wait for a person, the longest wait first. `next` is the cursor of the next page."""
    return await client.gates(gate=gate, entry_id=entry_id, closed=closed, limit=limit, cursor=cursor)


@decisions.post("/gates/{where}/decision", operation_id="decide_gate")
async def decide_gate(where: UUID, wanted: GateDecision, client: Acting) -> GateRecord:
    """Decide at the gate that a gate id or an entry id names. Each gate is decided once.

    The same decision with the same reason and inputs, sent again by the same sender, gets the answer of the first.
    """
    try:
        return await client.decide(where, wanted.decision, reason=wanted.reason, gate=wanted.gate, inputs=wanted.inputs)
    except RequestConflict:
        found = await client.gate(where, gate=wanted.gate)
        if found.verdict is None or not _repeats(wanted, client.by, found.detail, found.verdict):
            raise
        return found


def _repeats(wanted: GateDecision, by: str, detail: Mapping[str, Any], made: DecisionRecord) -> bool:
    """Return whether a decision is the one that was made; inputs are compared as they are stored."""
    if (made.decision, made.reason, made.by) != (wanted.decision, wanted.reason, by):
        return False
    try:
        return read_inputs(detail, wanted.decision, wanted.inputs) == made.inputs
    except InvocationInvalid:
        return False


@decisions.post("/gates/{where}/claim", operation_id="claim_gate")
async def claim_gate(where: UUID, wanted: ClaimRequest, client: Acting) -> GateRecord:
    """Claim a gate, so that no other person can decide it; 409 if another person has it, here or in the engine.

    `claim_words` says whether the engine's task list has the claim; while the engine is away, it is sent later.
    """
    return await client.claim(where, gate=wanted.gate, wait=wanted.wait)


@decisions.post("/gates/{where}/release", operation_id="release_gate")
async def release_gate(where: UUID, wanted: ClaimRequest, client: Acting) -> GateRecord:
    """Release a gate. What another person claimed is released by a supervisor, or by a key without roles."""
    return await client.release(where, gate=wanted.gate, wait=wanted.wait)


@messages.post(
    "/messages",
    status_code=202,
    operation_id="post_message",
    responses={202: {"description": "The message is stored, by this request or an earlier one"}},
)
async def post_message(
    wanted: MessageRequest,
    client: Acting,
    idempotency_key: Annotated[Word | None, Header(description="the id of the message, if it has none")] = None,
) -> MessageReceipt:
    """Send a message to the case that waits for it under a correlation key.

    A message that is sent again with the same id is stored once; 409 if its content differs. One that no process takes
    is stored too, and becomes a dead letter.
    """
    if wanted.payload is not None and wanted.payload_bytes is not None:
        raise MessageInvalid("the message has both payload and payload_bytes: send one of them")
    return await client.send(
        wanted.message_name,
        wanted.correlation_key,
        wanted.payload if wanted.payload_bytes is None else wanted.payload_bytes,
        message_id=idempotency_key if wanted.message_id is None else wanted.message_id,
        entry_id=wanted.entry_id,
        ttl=None if wanted.ttl is None else timedelta(seconds=wanted.ttl),
        workflow_id=wanted.workflow_id,
        correlation_id=wanted.correlation_id,
        causation_id=wanted.causation_id,
    )


@reads.get("/incidents", operation_id="list_incidents", tags=["incidents"])
async def list_incidents(client: Acting, limit: Limit = 100, cursor: Cursor = None) -> IncidentPage:
    """List what waits for an operator, the longest wait first: held jobs, and incidents that the engine raised.

    `next` is the cursor of the next page, and null on the last one.
    """
    return await client.incidents(limit=limit, cursor=cursor)


@reads.get("/incidents/{where}", operation_id="read_incident", tags=["incidents"])
async def read_incident(where: UUID, client: Acting) -> IncidentDetail:
    """Read the incident that its id, or the id of its entry, names, with the story of its job."""
    return await client.incident(where)


@resolutions.post("/incidents/{where}/resolution", operation_id="resolve_incident")
async def resolve_incident(where: UUID, wanted: ResolveRequest, client: Acting) -> IncidentResolution:
    """Resolve an incident: its job gets retries, and the engine tries again."""
    return await client.resolve(where, wanted.reason, retries=wanted.retries, as_new=wanted.as_new, flags=wanted.flags)
