"""Incidents in the browser: undeliverable messages, and what waits for an operator."""

from uuid import UUID

from starlette.responses import Response

from verbworker.app.output import COUNTED, count_more
from verbworker.client.incident_actions import MOST_RETRIES, read_flags
from verbworker.console.live_updates import LETTERS, RUNBOOK
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.errors import InvocationInvalid, NotFound
from verbworker.stores.messages.dead_letters import DeadLetters

_ON_A_PAGE = 100  # the oldest come first


async def letters(tools: PageTools, visit: PageVisit) -> Response:
    """List the messages that could not be delivered; on request also resolved ones, each with its outcome."""
    every = visit.query_value("all") == "1"
    found = await DeadLetters(tools.database).list(visit.session.tenant, resolved=every, limit=_ON_A_PAGE + COUNTED)
    shown = {"letters": found[:_ON_A_PAGE], "more": count_more(len(found), _ON_A_PAGE)}
    return visit.page(tools, "letters", here="/dead-letters", live=LETTERS, every=every, **shown)


async def redeliver(tools: PageTools, visit: PageVisit) -> Response:
    """Redeliver a message."""
    letter_id: UUID = visit.request.path_params["letter_id"]
    session, reason = visit.session, visit.require("reason", "the reason")
    await DeadLetters(tools.database).redeliver(
        letter_id, session.tenant, by=session.name, reason=reason, key=visit.form_field("key") or None
    )
    return see_other("/dead-letters?done=redelivered")


async def discard(tools: PageTools, visit: PageVisit) -> Response:
    """Discard a message for good."""
    letter_id: UUID = visit.request.path_params["letter_id"]
    session, reason = visit.session, visit.require("reason", "the reason")
    await DeadLetters(tools.database).discard(letter_id, session.tenant, by=session.name, reason=reason)
    return see_other("/dead-letters?done=discarded")


async def incidents(tools: PageTools, visit: PageVisit) -> Response:
    """List what waits for an operator, the longest wait first."""
    without_entry = tools.sees_jobs_without_entry(visit.session)
    page = await visit.client(tools).incidents(without_entry=without_entry, limit=_ON_A_PAGE + COUNTED)
    shown = {"incidents": page.incidents[:_ON_A_PAGE], "more": count_more(len(page.incidents), _ON_A_PAGE)}
    return visit.page(tools, "incidents", here="/incidents", live=RUNBOOK, **shown)


async def incident(tools: PageTools, visit: PageVisit) -> Response:
    """Show one incident: the engine's reason, the story of the job, and the form that resolves it."""
    without_entry = tools.sees_jobs_without_entry(visit.session)
    found = await visit.client(tools).incident(_where(visit.query_value("id")), without_entry=without_entry)
    return visit.page(tools, "incident", here="/incidents", incident=found)


async def resolve(tools: PageTools, visit: PageVisit) -> Response:
    """Resolve an incident."""
    where = _where(visit.form_field("id"))
    answer = await visit.client(tools).resolve(
        where,
        visit.require("reason", "the reason"),
        retries=_number(visit.form_field("retries") or "3", "the number of retries", MOST_RETRIES),
        as_new=visit.form_field("as_new") == "1",
        flags=read_flags(line for line in visit.form_field("flags").splitlines() if line.strip()),
        without_entry=tools.sees_jobs_without_entry(visit.session),
    )
    return visit.page(tools, "said", here="/incidents", sentence=answer.sentence, back="/incidents")


def _where(text: str) -> UUID | int:
    """Return the id of an incident, or the key of a job that belongs to no entry."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("there is no such incident") from None


def _number(text: str, name: str, largest: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= largest:
        raise InvocationInvalid(f"{name} must be a whole number from 1 to {largest}")
    return int(text)
