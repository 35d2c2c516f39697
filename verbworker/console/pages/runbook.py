"""The runbook in the browser: the list of entries, and one entry with its details."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from starlette.responses import Response

from verbworker.app.entry_view import EntryView
from verbworker.console.live_updates import RUNBOOK
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.console.settings import pick
from verbworker.errors import PayloadIntegrityError, StoreError, StoreUnavailable
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.runbook.event import Entry, Event, Kind, Status, describe
from verbworker.stores.cases import payloads
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Carrier, Instances
from verbworker.stores.cases.overview import NEWEST, Filter, Key, Listed
from verbworker.stores.cases.runbook import Runbook
from verbworker.work.gates.decide import Gates
from verbworker.work.starts.cancel import Cancellation

_ON_A_PAGE = 50  # a screen or two
_MOST_EVENTS = 500  # a long case; the CLI shows all
_SILENCE = timedelta(minutes=10)  # a case without news for so long is listed as silent


async def listing(tools: PageTools, visit: PageVisit) -> Response:
    """List the entries that match the filters, newest first."""
    tenant = visit.session.tenant
    status, verb, text = visit.query_value("status"), visit.query_value("verb"), visit.query_value("q")
    is_stuck = visit.query_value("stuck") == "1"
    wanted = _filter(status, verb, text)
    if is_stuck:
        entries = await _stuck(tools, tenant)
    else:
        entries = await tools.overview.page(
            tenant, wanted, before=_key(visit.query_value("before")), limit=_ON_A_PAGE + 1
        )
    older = entries[_ON_A_PAGE - 1].key if len(entries) > _ON_A_PAGE else None
    return visit.page(
        tools,
        "runbook",
        here="/",
        live=RUNBOOK,
        entries=entries[:_ON_A_PAGE],
        counts=await tools.overview.counts(tenant),
        newest=NEWEST,
        verbs=await tools.overview.verbs(tenant),
        chosen={"status": status, "verb": verb, "q": text, "stuck": "1" if is_stuck else ""},
        older=None if older is None else _format_key(older),
        is_first=not visit.query_value("before"),
    )


async def entry(tools: PageTools, visit: PageVisit) -> Response:
    """Show one entry: what was asked, its progress, what it waits for, and its events."""
    entry_id: UUID = visit.request.path_params["entry_id"]
    found = await EntryView(tools.database).find(entry_id, visit.session.tenant)
    gates = await Gates(tools.database).list(visit.session.tenant, entry_id=entry_id, closed=True)
    carrier = await Instances(tools.database).of_entry(entry_id)
    done = [event for event in found.events if event.kind in (Kind.STEP_COMPLETED, Kind.COMPENSATED)]
    return visit.page(
        tools,
        "entry",
        here="/",
        live=str(entry_id),
        found=found,
        entry=found.entry,
        timeline=[_line(event) for event in found.events[-_MOST_EVENTS:]],
        earlier=max(0, len(found.events) - _MOST_EVENTS),
        done_verbs=done,
        open_gates=[gate for gate in gates if gate.closed_at is None],
        decided=[gate for gate in gates if gate.verdict is not None],
        messages=await tools.overview.messages(entry_id),
        carrier=carrier,
        payload=None if carrier is None else await _payload(tools, found.entry, carrier),
        may_cancel=carrier is not None and not found.entry.status.is_final,
    )


async def cancel(tools: PageTools, visit: PageVisit) -> Response:
    """Request the cancellation of an entry."""
    entry_id: UUID = visit.request.path_params["entry_id"]
    reason = visit.require("reason", "the reason")
    dispatches = Dispatches(tools.database, engine_id=tools.engine_id or "", owner=uuid4())
    await Cancellation(tools.database, dispatches).cancel(
        entry_id, tenant_id=visit.session.tenant, by=visit.session.name, reason=reason
    )
    return see_other(f"/entries/{entry_id}?done=cancelled")


async def _payload(tools: PageTools, entry: Entry, carrier: Carrier) -> dict[str, Any]:
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


def _line(event: Event) -> tuple[Event, str, str]:
    """Return an event, its sentence, and its reason unless the sentence contains it."""
    words, why = describe(event), str(event.detail.get("reason") or "")
    return event, words, "" if why in words else why


async def _stuck(tools: PageTools, tenant: str) -> list[Listed]:
    reading = EntryView(tools.database)
    silent = await Runbook(tools.database).stuck(tenant, longer_than=_SILENCE, limit=_ON_A_PAGE)
    return [
        Listed(
            one.entry_id,
            one.verb,
            one.sentence,
            one.status,
            one.asked_by,
            one.created_at,
            one.updated_at,
            one.ended_at,
            await reading.progress(one),
        )
        for one in silent
    ]


def _filter(status: str, verb: str, text: str) -> Filter:
    entry_id = _uuid(text)
    return Filter(
        status=Status(status) if status in set(Status) else None,
        verb=verb or None,
        text=text if text and entry_id is None else None,
        entry_id=entry_id,
    )


def _format_key(key: Key) -> str:
    return f"{key.created_at.isoformat()}~{key.entry_id}"


def _key(text: str) -> Key | None:
    """Parse where a page starts; None, the newest entries, if the address is invalid."""
    at, _, rest = text.partition("~")
    entry_id = _uuid(rest)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return None if entry_id is None or moment.tzinfo is None else Key(moment, entry_id)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
