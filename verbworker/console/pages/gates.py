"""Tasks in the browser: the open gates, and the forms to claim, release or decide one."""

from uuid import UUID

from starlette.responses import Response

from verbworker.app.output import COUNTED, count_more
from verbworker.client.records import GateRecord
from verbworker.console.live_updates import GATES
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other

_ON_A_PAGE = 100  # the oldest come first


async def inbox(tools: PageTools, visit: PageVisit) -> Response:
    """List the open gates, the longest wait first."""
    gates = (await visit.client(tools).gates(limit=_ON_A_PAGE + COUNTED)).gates
    more = count_more(len(gates), _ON_A_PAGE)
    shown = gates[:_ON_A_PAGE]
    access = await visit.access(tools, shown)
    return visit.page(tools, "gates", here="/gates", live=GATES, gates=shown, access=access, more=more)


async def claim(tools: PageTools, visit: PageVisit) -> Response:
    """Claim a gate; a refusal of the engine's task list is shown with its reason."""
    claimed = await visit.client(tools).claim(_token(visit))
    tools.updates.tell(GATES)
    return see_other(f"/gates?done=claimed{_later(claimed)}")


async def release(tools: PageTools, visit: PageVisit) -> Response:
    """Release a gate; what another person claimed needs a role."""
    released = await visit.client(tools).release(_token(visit))
    tools.updates.tell(GATES)
    return see_other(f"/gates?done=released{_later(released)}")


async def decide(tools: PageTools, visit: PageVisit) -> Response:
    """Decide, once, in the name of the logged-in user."""
    decision = visit.require("decision", "the decision")
    decided = await visit.client(tools).decide(_token(visit), decision, reason=visit.form_field("reason"))
    return see_other(f"/entries/{decided.entry_id}?done=decided")


def _token(visit: PageVisit) -> UUID:
    token: UUID = visit.request.path_params["where"]
    return token


def _later(gate: GateRecord) -> str:
    return "" if gate.is_mirrored else "-later"
