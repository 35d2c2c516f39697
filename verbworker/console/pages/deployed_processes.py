"""Processes in the browser: what is deployed, and one version as a picture with its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log

from markupsafe import Markup
from starlette.responses import PlainTextResponse, Response

from verblint.draw import STYLESHEET
from verbworker.console.live_updates import RUNBOOK
from verbworker.console.pages.model_pictures import ElementView, PicturedModel
from verbworker.console.pages.page_tools import PageTools, PageVisit
from verbworker.console.pages.rendering import ago, duration
from verbworker.errors import NotFound
from verbworker.stores.elements.element_facts import (
    LOOKED_AT,
    NEWEST_CASES,
    ElementFacts,
    ElementFigures,
    ElementWaits,
    ProcessVersion,
)

_LEVELS = 5
_HEATS = {"time": "Time", "failures": "Failures", "none": "None"}


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One element of a process as a line of the table below the picture."""

    name: str
    figures: ElementFigures | None
    waits: ElementWaits | None


async def index(tools: PageTools, visit: PageVisit) -> Response:
    """List the processes that this tenant has cases of; the operator's own tenant sees all that are deployed."""
    session = visit.session
    found = await ElementFacts(tools.database).processes(session.tenant, unused=tools.sees_jobs_without_entry(session))
    return visit.page(tools, "processes", here="/processes", processes=found)


async def process(tools: PageTools, visit: PageVisit) -> Response:
    """Show one version of a process: its picture, and how often, how long and how badly each element was visited."""
    engine_id, process_id = visit.query_value("engine"), visit.query_value("process")
    facts, tenant = ElementFacts(tools.database), visit.session.tenant
    versions = await facts.versions(tenant, engine_id, process_id)
    if not versions or not (
        tools.sees_jobs_without_entry(visit.session) or any(version.entries for version in versions)
    ):
        raise NotFound(f"there is no process {process_id!r}")
    chosen = _choose(versions, visit.query_value("version"))
    heat = visit.query_value("heat")
    heat = heat if heat in _HEATS else "time"
    model = await tools.models.find(engine_id, chosen.definition_key, process_id)
    figures = await facts.figures(tenant, engine_id, process_id, chosen.definition_key)
    waits = await facts.open_waits(tenant, engine_id, chosen.definition_key)
    return visit.page(
        tools,
        "process",
        here="/processes",
        live=RUNBOOK,
        process_id=process_id,
        engine=engine_id,
        versions=versions,
        chosen=chosen,
        heat=heat,
        heats=_HEATS,
        cases=next((one.cases for one in figures.values()), 0),
        limits=(NEWEST_CASES, LOOKED_AT),
        picture=None if model is None else await _draw(model, figures, waits, heat),
        is_made_up=model is not None and model.is_made_up,
        lines=_lines(model, figures, waits),
    )


async def stylesheet(_tools: PageTools, _visit: PageVisit) -> Response:
    """Return the colours and lines of pictures."""
    return PlainTextResponse(STYLESHEET, media_type="text/css", headers={"Cache-Control": "private, max-age=3600"})


def _choose(versions: Sequence[ProcessVersion], wanted: str) -> ProcessVersion:
    """Return the version that an address names; otherwise the newest with cases, or the newest."""
    named = next((one for one in versions if str(one.version) == wanted), None)
    return named or next((one for one in versions if one.entries), versions[0])


async def _draw(
    model: PicturedModel, figures: Mapping[str, ElementFigures], waits: Mapping[str, ElementWaits], heat: str
) -> Markup:
    now = datetime.now(UTC)
    levels = _levels(figures, heat)
    views: dict[str, ElementView] = {}
    for id in model.nodes:
        known, here = figures.get(id), waits.get(id)
        if known is None and here is None:
            continue
        view = views[id] = ElementView(note=_note(known, here, now))
        if id in levels:
            view.marks.add(f"heat-{levels[id]}")
        if here is not None:
            view.marks.add("incident" if here.incidents else "waiting")
        view.label = _label(known, here)
    return await model.draw(views)


def _levels(figures: Mapping[str, ElementFigures], heat: str) -> dict[str, int]:
    """Return how hot elements are, 1 to 5: by the logarithm of their median time, or by the share of failures."""
    if heat == "failures":
        shares = {id: one.failures / one.visits for id, one in figures.items() if one.failures}
        return {id: 1 + min(int(share * _LEVELS), _LEVELS - 1) for id, share in shares.items()}
    if heat != "time":
        return {}
    times = {id: one.p50 for id, one in figures.items() if one.p50 is not None and one.p50 > 0}
    if not times:
        return {}
    low, high = log(min(times.values())), log(max(times.values()))
    spread = max(high - low, 1.0)
    # The slowest is the hottest, however fast all are.
    return {id: _LEVELS - min(int((high - log(time)) / spread * _LEVELS), _LEVELS - 1) for id, time in times.items()}


def _label(known: ElementFigures | None, here: ElementWaits | None) -> str:
    visits = f"{known.visits}×" if known is not None else ""
    standing = "" if here is None else f"{here.waiting + here.incidents} here"
    return " · ".join(filter(None, (visits, standing)))


def _note(known: ElementFigures | None, here: ElementWaits | None, now: datetime) -> str:
    words = []
    if here is not None:
        if here.incidents:
            words.append(f"{here.incidents} stopped by incidents")
        if here.waiting:
            words.append(f"{here.waiting} waiting")
        words.append(f"the longest for {ago(here.since, now)}")
    if known is not None:
        words.append(f"{known.visits} visits")
        if known.p50 is not None:
            words.append(f"median {duration(known.p50)}, 95th percentile {duration(known.p95)}")
        if known.failures:
            words.append(f"{known.failures} with failures")
    return ", ".join(words)


def _lines(
    model: PicturedModel | None, figures: Mapping[str, ElementFigures], waits: Mapping[str, ElementWaits]
) -> list[FigureLine]:
    """Return a line for each element that was visited, in the order of the model, then those that it does not have."""
    ordered = [*(model.nodes if model is not None else ()), *sorted({*figures, *waits})]
    known = [id for id in dict.fromkeys(ordered) if id in figures or id in waits]
    return [FigureLine(id if model is None else model.name(id), figures.get(id), waits.get(id)) for id in known]
