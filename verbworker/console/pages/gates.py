"""Tasks in the browser: the open gates, the page of one, and the forms to claim, release or decide it."""

from uuid import UUID

from starlette.responses import Response

from verbworker.app.output import COUNTED, count_more
from verbworker.client.records import GateRecord
from verbworker.console.live_updates import GATES
from verbworker.console.pages import runbook
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.errors import PayloadIntegrityError, StoreError, StoreUnavailable
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.runbook.facts import ShownFact, facts_of, show_facts
from verbworker.stores.cases import payloads

_ON_A_PAGE = 100  # the oldest come first
_MOST_EVENTS = 50  # the newest; the page of the case has them all


async def inbox(tools: PageTools, visit: PageVisit) -> Response:
    """List the open gates, the longest wait first."""
    gates = (await visit.client(tools).gates(limit=_ON_A_PAGE + COUNTED)).gates
    more = count_more(len(gates), _ON_A_PAGE)
    shown = gates[:_ON_A_PAGE]
    access = await visit.access(tools, shown)
    return visit.page(tools, "gates", here="/gates", live=GATES, gates=shown, access=access, more=more)


async def task(tools: PageTools, visit: PageVisit) -> Response:
    """Show one task: the facts that its contract declares, the form to decide, and what happened so far."""
    client = visit.client(tools)
    gate = await client.gate(_token(visit))
    events = await (await client.entry(gate.entry_id)).history()
    facts, trouble = await _facts(tools, gate)
    return visit.page(
        tools,
        "task",
        here="/gates",
        live=str(gate.entry_id),
        gate=gate,
        access=(await visit.access(tools, [gate]))[gate.token_id],
        facts=facts,
        trouble=trouble,
        messages=await tools.overview.messages(gate.entry_id),
        timeline=[runbook.line(event) for event in events[-_MOST_EVENTS:]],
        earlier=max(0, len(events) - _MOST_EVENTS),
    )


async def _facts(tools: PageTools, gate: GateRecord) -> tuple[list[ShownFact], str]:
    """Return the facts of a gate, those fields only that the settings allow, and why the payload cannot be read."""
    facts = facts_of(gate.detail)
    if not facts:
        return [], ""
    try:
        head = await payloads.head(tools.database, gate.instance_uid)
    except PayloadIntegrityError as error:
        return [], str(error)
    except StoreUnavailable:
        raise
    except StoreError:
        return show_facts(facts, {}), "There is no payload."
    envelope = parse(head.content, limit=HARD_LIMIT)
    allowed = tools.settings.visible_fields(gate.verb or "", envelope.get("schema"))
    return show_facts(facts, envelope.get("data", {}), allowed), ""


async def claim(tools: PageTools, visit: PageVisit) -> Response:
    """Claim a gate; a refusal of the engine's task list is shown with its reason."""
    claimed = await visit.client(tools).claim(_token(visit))
    tools.updates.tell(GATES)
    return see_other(f"{_back(visit)}?done=claimed{_later(claimed)}")


async def release(tools: PageTools, visit: PageVisit) -> Response:
    """Release a gate; what another person claimed needs a role."""
    released = await visit.client(tools).release(_token(visit))
    tools.updates.tell(GATES)
    return see_other(f"{_back(visit)}?done=released{_later(released)}")


async def decide(tools: PageTools, visit: PageVisit) -> Response:
    """Decide, once, in the name of the logged-in user."""
    decision = visit.require("decision", "the decision")
    decided = await visit.client(tools).decide(_token(visit), decision, reason=visit.form_field("reason"))
    if visit.form_field("from") == "task":
        return see_other(f"/gates/{decided.token_id}?done=decided")
    return see_other(f"/entries/{decided.entry_id}?done=decided")


def _token(visit: PageVisit) -> UUID:
    token: UUID = visit.request.path_params["where"]
    return token


def _back(visit: PageVisit) -> str:
    """Return the page that a form was on: that of the task, or the list."""
    return f"/gates/{_token(visit)}" if visit.form_field("from") == "task" else "/gates"


def _later(gate: GateRecord) -> str:
    return "" if gate.is_mirrored else "-later"
