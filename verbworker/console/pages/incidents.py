"""Incidents in the browser: undeliverable messages, and jobs that wait for an operator."""

from contextlib import AsyncExitStack
from uuid import UUID, uuid4

from starlette.responses import Response

from verbworker.app.explain import explain, headline
from verbworker.console.live_updates import LETTERS, RUNBOOK
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.errors import EngineError, InvocationInvalid, NotFound, RequestConflict
from verbworker.stores.cases.overview import Trouble
from verbworker.stores.jobs.compensations import UNDO, Compensations
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.histories import Histories
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.work.upkeep.releases import Release, ReleaseAnswer, Releases

_MOST_RETRIES = 1000  # a typing mistake must not grant millions
_LARGEST_KEY = 2**63 - 1  # a bigint


async def letters(tools: PageTools, visit: PageVisit) -> Response:
    """List the messages that could not be delivered; on request also resolved ones, each with its outcome."""
    every = visit.query_value("all") == "1"
    found = await DeadLetters(tools.database).list(visit.session.tenant, resolved=every)
    return visit.page(tools, "letters", here="/dead-letters", live=LETTERS, letters=found, every=every)


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
    """List the jobs that wait for an operator, the longest wait first."""
    without_entry = tools.sees_jobs_without_entry(visit.session)
    found = await visit.client(tools).incidents(without_entry=without_entry)
    return visit.page(tools, "incidents", here="/incidents", live=RUNBOOK, troubles=found)


async def incident(tools: PageTools, visit: PageVisit) -> Response:
    """Show one incident: the history of the job, and the form that releases it."""
    trouble = await _trouble(tools, visit, visit.query_value("engine", 400), visit.query_value("job"))
    history = await Histories(tools.database, engine_id=trouble.engine_id).read(trouble.job_key)
    return visit.page(
        tools,
        "incident",
        here="/incidents",
        trouble=trouble,
        headline="" if history is None else headline(history.frame),
        story=[] if history is None else explain(history),
    )


async def release(tools: PageTools, visit: PageVisit) -> Response:
    """Let a held job run again."""
    trouble = await _trouble(tools, visit, visit.form_field("engine"), visit.form_field("job"))
    wanted = Release(
        trouble.job_key,
        visit.session.name,
        visit.require("reason", "the reason"),
        _number(visit.form_field("retries") or "3", "the number of retries", _MOST_RETRIES),
        visit.form_field("as_new") == "1",
        _number(key, "the incident's key", _LARGEST_KEY) if (key := visit.form_field("incident_key")) else None,
    )
    answer = await _release_job(tools, trouble, wanted)
    if not answer.done:
        raise RequestConflict(answer.sentence)
    is_all = tools.resolves and trouble.engine_id.removesuffix(UNDO) == tools.engine_id
    sentence = "the job runs again with its next delivery" if is_all else answer.sentence
    return visit.page(tools, "said", here="/incidents", sentence=sentence, back="/incidents")


async def _release_job(tools: PageTools, trouble: Trouble, wanted: Release) -> ReleaseAnswer:
    cluster = trouble.engine_id.removesuffix(UNDO)
    async with AsyncExitStack() as stack:
        engine = None
        if cluster == tools.engine_id:
            engine = await stack.enter_async_context(tools.choose_engine())
        if trouble.state is None:
            # This job never got a frame: only the engine has something to release.
            if engine is None:
                return ReleaseAnswer(
                    False, f"the job belongs to the engine {cluster}, and this console uses another one"
                )
            try:
                await engine.release(wanted.job_key, retries=wanted.retries, incident_key=wanted.incident_key)
            except EngineError as error:
                return ReleaseAnswer(False, f"the engine does not accept it: {error}; fix that and try again")
            return ReleaseAnswer(True, f"the job has {wanted.retries} retries and runs with its next delivery")
        records = Compensations(tools.database, engine_id=cluster) if trouble.engine_id.endswith(UNDO) else None
        frames = Frames(tools.database, engine_id=trouble.engine_id, owner=uuid4())
        histories = Histories(tools.database, engine_id=trouble.engine_id)
        return await Releases(frames, histories, engine, records=records).release(wanted)


async def _trouble(tools: PageTools, visit: PageVisit, engine_id: str, job: str) -> Trouble:
    session = visit.session
    job_key = _number(job, "the job's key", _LARGEST_KEY)
    without_entry = tools.sees_jobs_without_entry(session)
    trouble = await tools.overview.trouble(session.tenant, engine_id, job_key, without_entry=without_entry)
    if trouble is None:
        raise NotFound(f"the job {job_key} is not waiting for an operator")
    return trouble


def _number(text: str, name: str, largest: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not 1 <= int(text) <= largest:
        raise InvocationInvalid(f"{name} must be a whole number from 1 to {largest}")
    return int(text)
