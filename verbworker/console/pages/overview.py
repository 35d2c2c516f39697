"""Read-only pages: the verbs that exist, and the current load."""

from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from verbworker.console.live_updates import GATES, LETTERS, RUNBOOK, Stream
from verbworker.console.pages.page_tools import PageTools, PageVisit
from verbworker.errors import NotFound

_TOPICS = (RUNBOOK, GATES, LETTERS)


async def verbs(tools: PageTools, visit: PageVisit) -> Response:
    """List every verb with its sentence, arguments and schema."""
    return visit.page(tools, "verbs", here="/verbs", cards=tools.catalogue())


async def load(tools: PageTools, visit: PageVisit) -> Response:
    """Show the figures of the last hour."""
    figures = await tools.overview.load(
        visit.session.tenant, without_entry=tools.sees_jobs_without_entry(visit.session)
    )
    busiest = max(figures.arrivals.values(), default=0)
    return visit.page(tools, "load", here="/load", load=figures, busiest=busiest)


async def events(tools: PageTools, visit: PageVisit) -> Response:
    """Stream an event to one page whenever what it shows has changed."""
    topic, login = visit.query_value("topic"), f"{visit.session.tenant}/{visit.session.name}"
    if tools.updates.is_full(login):
        raise HTTPException(503, "too many pages are open for live updates; reload this one to update it")
    if topic in _TOPICS:
        return Stream(tools.updates, topic, login, visit.session.key)
    try:
        entry_id = UUID(topic)
    except ValueError:
        raise HTTPException(404, "there is no such topic") from None
    try:
        await visit.client(tools).entry(entry_id)
    except NotFound:
        raise HTTPException(404, "there is no such topic") from None
    return Stream(tools.updates, entry_id, login, visit.session.key)
