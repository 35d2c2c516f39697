"""The picture of one case: the way taken, where it is, what it waits for, and how long each element took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from markupsafe import Markup

from verbworker.client.records import EntryRecord, EventRecord
from verbworker.console.pages.model_pictures import ElementView, PicturedModel
from verbworker.console.pages.page_tools import PageTools
from verbworker.console.pages.rendering import ago, duration, moment
from verbworker.model.way import Stay, choose_flows, find_way
from verbworker.runbook.event import Kind, Status, Wait
from verbworker.stores.cases.instances import Carrier
from verbworker.stores.elements.element_facts import ElementFacts, StepFact, WaitFact

_RUNNING = ("started", "failed")
_INTERRUPTED = ("fired", "canceled")


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One element as a line of the list below the picture."""

    name: str
    state: str
    words: str
    visits: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class CasePicture:
    """A picture, and the same in words."""

    svg: Markup
    lines: Sequence[CaseLine]
    is_made_up: bool


@dataclass(slots=True)
class _Findings:
    """What is known of one element of a case."""

    stay: Stay = field(default_factory=Stay)
    seconds: float = 0.0
    ended: int = 0
    is_running: bool = False
    waits: list[WaitFact] = field(default_factory=list)
    runs: int = 0

    @property
    def incident(self) -> WaitFact | None:
        """What an operator must resolve here."""
        return next((wait for wait in self.waits if wait.kind == Wait.INCIDENT), None)


async def case_picture(
    tools: PageTools, entry: EntryRecord, carrier: Carrier | None, events: Sequence[EventRecord]
) -> CasePicture | None:
    """Return the picture of a case; None where the model it runs is not known."""
    if carrier is None or entry.definition_key is None or entry.process_id is None:
        return None
    model = await tools.models.find(carrier.engine_id, entry.definition_key, entry.process_id)
    if model is None:
        return None
    facts = ElementFacts(tools.database)
    tokens = await facts.tokens(carrier)
    visits = _gather(model, await facts.steps(carrier), await facts.waits(entry.entry_id), events)
    for element_id in tokens if not entry.is_final else ():
        # A token is at a job before a worker claims it.
        if element_id in model.nodes and model.nodes[element_id].scope is None:
            visits.setdefault(element_id, _Findings()).is_running = True
    for id, visit in visits.items():
        # What a boundary event interrupted has no token any more; other engines are not asked for theirs.
        visit.is_running = visit.is_running and not entry.is_final and (not tokens or id in tokens)
    now = datetime.now(UTC)
    stays = {id: visit.stay for id, visit in visits.items()}
    # Only a case that came to an end event has its last flags in the record.
    flags = next((event.detail.get("flags") for event in events if event.kind is Kind.RESULT), None)
    is_over = entry.status is Status.COMPLETED or flags is not None
    choices = choose_flows(model.scope, flags) if isinstance(flags, dict) else {}
    way = find_way(model.scope, stays, is_over=is_over, choices=choices)
    views = {id: _view(visit, now) for id, visit in visits.items()}
    views |= {id: ElementView({"taken"}) for id in way.passed if id not in views}
    lines = [_line(model.name(id), visits[id], now) for id in model.nodes if id in visits]
    return CasePicture(await model.draw(views, way.flows), lines, model.is_made_up)


def _gather(
    model: PicturedModel, steps: Iterable[StepFact], waits: Iterable[WaitFact], events: Iterable[EventRecord]
) -> dict[str, _Findings]:
    visits: dict[str, _Findings] = {}
    for step in steps:
        if step.element_id in model.nodes:
            _add_step(visits.setdefault(step.element_id, _Findings()), step)
    for wait in waits:
        if wait.element_id in model.nodes:
            _add_wait(visits.setdefault(wait.element_id, _Findings()), wait)
    for event in events:
        # Frames are dropped before the runbook: then it alone has the step.
        element_id = str(event.detail.get("element") or "")
        if event.kind is Kind.STEP_COMPLETED and element_id in model.nodes:
            stay = visits.setdefault(element_id, _Findings()).stay
            if not stay.left:
                stay.came.append(event.at.timestamp())
                stay.left.append(event.at.timestamp())
                visits[element_id].ended += 1
    for visit in visits.values():
        visit.stay.came.sort()
        visit.stay.left.sort()
    return visits


def _add_step(visit: _Findings, step: StepFact) -> None:
    visit.stay.came.append(step.pushed_at.timestamp())
    visit.runs = max(visit.runs, step.runs)
    visit.is_running = visit.is_running or step.state in _RUNNING
    if step.state == "completed" and step.popped_at is not None:
        visit.stay.is_diverted = step.outcome == "bpmn_error" if not visit.stay.left else visit.stay.is_diverted
        visit.stay.left.append(step.popped_at.timestamp())
        visit.seconds += (step.popped_at - step.pushed_at).total_seconds()
        visit.ended += 1


def _add_wait(visit: _Findings, wait: WaitFact) -> None:
    if wait.closed_at is None:
        visit.waits.append(wait)
    if wait.kind in (Wait.INCIDENT, Wait.SUSPENDED):
        return
    visit.stay.came.append(wait.opened_at.timestamp())
    if wait.closed_at is not None:
        visit.stay.is_diverted = wait.closed_as in _INTERRUPTED
        visit.stay.left.append(wait.closed_at.timestamp())
        visit.seconds += (wait.closed_at - wait.opened_at).total_seconds()
        visit.ended += 1


def _view(visit: _Findings, now: datetime) -> ElementView:
    line = _line("", visit, now)
    since = min((wait.opened_at for wait in visit.waits), default=None)
    label = ago(since, now) if since is not None else duration(line.seconds)
    if visit.incident is not None:
        marks = {"incident"}
    elif visit.waits:
        marks = {"waiting"}
    else:
        marks = {"active"} if visit.is_running else {"done"}
    return ElementView(marks, label, line.words)


def _line(name: str, visit: _Findings, now: datetime) -> CaseLine:
    seconds = visit.seconds if visit.ended else None
    if visit.waits:
        wait = visit.incident or visit.waits[0]
        state = "Incident" if visit.incident is not None else "Waiting"
        words = f"{wait.reason}, for {ago(wait.opened_at, now)}, since {moment(wait.opened_at)}"
    elif visit.is_running:
        state, words = "Running", "Running" if visit.runs < 2 else f"Running, run {visit.runs}"
    else:
        state = "Done"
        words = f"Done on {moment(datetime.fromtimestamp(visit.stay.left[-1], UTC))}" if visit.stay.left else "Ended"
    if visit.ended:
        times = f", {visit.ended} times" if visit.ended > 1 else ""
        words += f"; {duration(seconds)} spent here{times}"
    return CaseLine(name, state, words, max(visit.ended, len(visit.stay.came)), seconds)
