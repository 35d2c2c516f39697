"""The runbook in the browser: the list of entries, and one entry with its details."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.responses import Response

from verbworker.client.client import Client
from verbworker.client.records import EntryPage, EntryRecord, EventRecord
from verbworker.console.live_updates import RUNBOOK
from verbworker.console.pages.case_picture import case_picture
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.console.settings import pick
from verbworker.errors import InvocationInvalid, PayloadIntegrityError, StoreError, StoreUnavailable
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.runbook.event import Kind, Status
from verbworker.stores.cases import payloads
from verbworker.stores.cases.instances import Carrier, Instances
from verbworker.stores.cases.overview import NEWEST

_ON_A_PAGE = 50  # a screen or two
_MOST_EVENTS = 500  # a long case; the CLI shows all
_SILENCE = timedelta(minutes=10)  # a case without news for so long is listed as silent


async def listing(tools: PageTools, visit: PageVisit) -> Response:
    """List the entries that match the filters, newest first."""
    tenant = visit.session.tenant
    status, verb, text = visit.query_value("status"), visit.query_value("verb"), visit.query_value("q")
    is_stuck = visit.query_value("stuck") == "1"
    client = visit.client(tools)
    if is_stuck:
        page = await client.entries(stuck_for=_SILENCE, limit=_ON_A_PAGE)
    else:
        page = await _page(client, _filters(status, verb, text), visit.query_value("before"))
    return visit.page(
        tools,
        "runbook",
        here="/",
        live=RUNBOOK,
        entries=page.entries,
        counts=await tools.overview.counts(tenant),
        newest=NEWEST,
        verbs=await tools.overview.verbs(tenant),
        chosen={"status": status, "verb": verb, "q": text, "stuck": "1" if is_stuck else ""},
        older=page.next,
        is_first=not visit.query_value("before"),
    )


async def entry(tools: PageTools, visit: PageVisit) -> Response:
    """Show one entry: what was asked, its progress, what it waits for, and its events."""
    entry_id: UUID = visit.request.path_params["entry_id"]
    client = visit.client(tools)
    handle = await client.entry(entry_id)
    found, events = await handle.read(), await handle.history()
    gates = (await client.gates(entry_id=entry_id, closed=True)).gates
    carrier = await Instances(tools.database).of_entry(entry_id)
    open_gates = [gate for gate in gates if gate.closed_at is None]
    done = [event for event in events if event.kind in (Kind.STEP_COMPLETED, Kind.COMPENSATED)]
    return visit.page(
        tools,
        "entry",
        here="/",
        live=str(entry_id),
        entry=found,
        timeline=[line(event) for event in events[-_MOST_EVENTS:]],
        earlier=max(0, len(events) - _MOST_EVENTS),
        done_verbs=done,
        open_gates=open_gates,
        access=await visit.access(tools, open_gates),
        decided=[gate for gate in gates if gate.verdict is not None],
        messages=await tools.overview.messages(entry_id),
        picture=await case_picture(tools, found, carrier, events),
        carrier=carrier,
        payload=None if carrier is None else await _payload(tools, found, carrier),
        may_cancel=carrier is not None and not found.is_final,
    )


async def cancel(tools: PageTools, visit: PageVisit) -> Response:
    """Request the cancellation of an entry."""
    entry_id: UUID = visit.request.path_params["entry_id"]
    reason = visit.require("reason", "the reason")
    await visit.client(tools).cancel(entry_id, reason)
    return see_other(f"/entries/{entry_id}?done=cancelled")


async def _payload(tools: PageTools, entry: EntryRecord, carrier: Carrier) -> dict[str, Any]:
    """Return the payload's hash and only the fields that the settings allow."""
    try:
        head = await payloads.head(tools.database, carrier.instance_uid)
    except PayloadIntegrityError as error:
        return {"trouble": str(error)}
    except StoreUnavailable:
        raise
    except StoreError:
        return {"trouble": "There is no payload."}
    envelope = parse(head.content, limit=HARD_LIMIT)
    paths = tools.settings.visible_fields(entry.verb, envelope.get("schema"))
    fields = pick(envelope.get("data", {}), paths) | pick({"outcome": entry.outcome or {}}, paths)
    return {
        "hash": f"sha256:{head.hash.hex()}",
        "version": head.version,
        "size": len(head.content),
        "schema": envelope.get("schema", ""),
        "fields": fields,
    }


def line(event: EventRecord) -> tuple[EventRecord, str, str]:
    """Return an event, its sentence, and its reason unless the sentence contains it."""
    words, why = event.sentence, str(event.detail.get("reason") or "")
    return event, words, "" if why in words else why


async def _page(client: Client, filters: dict[str, Any], cursor: str) -> EntryPage:
    """Return the page that an address names, or the newest entries if the address is invalid."""
    try:
        return await client.entries(**filters, cursor=cursor or None, limit=_ON_A_PAGE)
    except InvocationInvalid:
        return await client.entries(**filters, limit=_ON_A_PAGE)


def _filters(status: str, verb: str, text: str) -> dict[str, Any]:
    entry_id = _uuid(text)
    return {
        "status": status if status in set(Status) else None,
        "verb": verb or None,
        "text": text if text and entry_id is None else None,
        "entry_id": entry_id,
    }


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
