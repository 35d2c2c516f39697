"""Tasks in the browser: the lists, the page of one, and the forms to claim, release, pass on or decide it."""

from collections.abc import Mapping
from uuid import UUID

from starlette.responses import Response

from verbworker.client.records import GateRecord
from verbworker.console.live_updates import GATES
from verbworker.console.pages import runbook
from verbworker.console.pages.page_tools import PageTools, PageVisit, see_other
from verbworker.console.pages.task_query import FIELDS, TaskQuery
from verbworker.errors import PayloadIntegrityError, StoreError, StoreUnavailable
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT
from verbworker.runbook.decision_form import choices_of, read_inputs
from verbworker.runbook.facts import ShownFact, facts_of, show_facts
from verbworker.stores.cases import payloads
from verbworker.stores.cases.tasks import ListedTask, TaskList
from verbworker.stores.people.people import People

_ON_A_PAGE = 50  # a screen or two
_INPUT = "input."  # what the fields of a decision's form begin with
_MOST_EVENTS = 50  # the newest; the page of the case has them all


async def inbox(tools: PageTools, visit: PageVisit) -> Response:
    """List the open tasks of a view: by default those of the user and those that are free for the user's roles."""
    asked, tenant, person = _query(visit), visit.session.tenant, visit.session.person
    roles, tasks = tools.rules.roles_of(person), TaskList(tools.database)
    found = await tasks.page(tenant, person, roles, asked.wanted, after=asked.after, limit=_ON_A_PAGE + 1)
    shown = found[:_ON_A_PAGE]
    return visit.page(
        tools,
        "gates",
        here="/gates",
        live=GATES,
        asked=asked,
        tasks=shown,
        access=await tools.rules.access(tenant, shown, person),
        counts=await tasks.counts(tenant, person, roles),
        gates=await tasks.gates(tenant),
        more=asked.link_after(shown[-1].key) if len(found) > _ON_A_PAGE else "",
    )


async def task(tools: PageTools, visit: PageVisit) -> Response:
    """Show one task: the facts that its contract declares, the form to decide, and what happened so far."""
    client = visit.client(tools)
    gate = await client.gate(_token(visit))
    events = await (await client.entry(gate.entry_id)).history()
    facts, trouble = await _facts(tools, gate)
    access = (await visit.access(tools, [gate]))[gate.token_id]
    asked = _query(visit)
    return visit.page(
        tools,
        "task",
        here="/gates",
        live=str(gate.entry_id),
        gate=gate,
        access=access,
        people=[] if access.assign else await People(tools.database).names(visit.session.tenant),
        asked=asked,
        following=None if gate.closed_at is None else await _task_behind(tools, visit, asked, gate.token_id),
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


async def _task_behind(tools: PageTools, visit: PageVisit, asked: TaskQuery, token_id: UUID) -> ListedTask | None:
    """Return the first task of the user's list that is another one, to go on with."""
    person = visit.session.person
    who = visit.session.tenant, person, tools.rules.roles_of(person)
    found = await TaskList(tools.database).page(*who, asked.wanted, limit=2)
    return next((one for one in found if one.token_id != token_id), None)


async def claim(tools: PageTools, visit: PageVisit) -> Response:
    """Claim a gate; a refusal of the engine's task list is shown with its reason."""
    claimed = await visit.client(tools).claim(_token(visit))
    tools.updates.tell(GATES)
    return see_other(_back(visit, f"claimed{_later(claimed)}"))


async def release(tools: PageTools, visit: PageVisit) -> Response:
    """Release a gate; what another person claimed needs a role."""
    released = await visit.client(tools).release(_token(visit))
    tools.updates.tell(GATES)
    return see_other(_back(visit, f"released{_later(released)}"))


async def assign(tools: PageTools, visit: PageVisit) -> Response:
    """Give a task to another person, who must be allowed to decide it."""
    to = visit.require("to", "the name of who gets it")
    await tools.gates.assign(_token(visit), to, visit.session.person, visit.session.tenant)
    tools.updates.tell(GATES)
    return see_other(_back(visit, "assigned"))


async def decide(tools: PageTools, visit: PageVisit) -> Response:
    """Decide, once, in the name of the logged-in user; a decision with a question is made when that is answered."""
    decision, client = visit.require("decision", "the decision"), visit.client(tools)
    inputs = {name.removeprefix(_INPUT): visit.form_field(name) for name in visit.form if name.startswith(_INPUT)}
    if visit.form_field("confirmed") != "1":
        question = await _question(tools, visit, await client.gate(_token(visit)), decision, inputs)
        if question is not None:
            return question
    decided = await client.decide(_token(visit), decision, reason=visit.form_field("reason"), inputs=inputs)
    if visit.form_field("from") == "task":
        return see_other(_back(visit, "decided"))
    return see_other(f"/entries/{decided.entry_id}?done=decided")


async def _question(
    tools: PageTools, visit: PageVisit, gate: GateRecord, decision: str, inputs: Mapping[str, str]
) -> Response | None:
    """Return the page that asks before a decision; None if it has no question, or will be refused anyway."""
    choice = next((one for one in choices_of(gate.detail) if one.name == decision and one.confirm), None)
    if choice is None or gate.closed_at is not None or (await visit.access(tools, [gate]))[gate.token_id].decide:
        return None
    # What does not fit is refused before the question, not after it.
    fitting = read_inputs(gate.detail, decision, inputs)
    kept = {name: value for name, value in visit.form.items() if name not in ("csrf", "confirmed")}
    back = TaskQuery.of_text(visit.form_field("list")).link(f"/gates/{gate.token_id}")
    shown = {"gate": gate, "choice": choice, "inputs": fitting, "kept": kept, "back": back}
    return visit.page(tools, "confirm", here="/gates", **shown)


def _token(visit: PageVisit) -> UUID:
    token: UUID = visit.request.path_params["where"]
    return token


def _query(visit: PageVisit) -> TaskQuery:
    return TaskQuery.of({name: visit.query_value(name) for name in (*FIELDS, "after")})


def _back(visit: PageVisit, done: str) -> str:
    """Return the page that a form was on, with its list: that of the task, or the list itself."""
    path = f"/gates/{_token(visit)}" if visit.form_field("from") == "task" else "/gates"
    return TaskQuery.of_text(visit.form_field("list")).link(path, done=done)


def _later(gate: GateRecord) -> str:
    return "" if gate.is_mirrored else "-later"
