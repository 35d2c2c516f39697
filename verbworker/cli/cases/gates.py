"""`verbworker gates`: list the gates that wait for a person, claim or release them, and decide."""

import asyncio
from typing import Annotated, Any

import typer

from verbworker.app import settings as config
from verbworker.app.output import COUNTED, answer, busy, print_json, show, show_first
from verbworker.cli.client_runs import run_with_client
from verbworker.cli.shared_options import ANY_ID, By, Cursor, Dsn, Json, Limit, OptionalReason, Tenant, id_or_beginning
from verbworker.client.client import Client
from verbworker.client.gate_actions import CLAIM_WAIT_S
from verbworker.client.records import GateRecord
from verbworker.contract.text import tell_name
from verbworker.errors import InvocationInvalid, RequestConflict

app = typer.Typer(help="Gates: cases that wait for a person to decide.", no_args_is_help=True)

Where = Annotated[
    str,
    typer.Argument(callback=id_or_beginning, help="Entry ID or gate ID, or its beginning.", metavar="ENTRY_OR_TOKEN"),
]
GateName = Annotated[str | None, typer.Option("--gate", help="Name of the gate, if the entry waits at several.")]

_LOOK_EVERY = 0.2  # seconds; a person waits for the answer, and each look is one small query


@app.command("list", epilog="Example: verbworker gates list --gate review --json")
def list_gates(
    gate: Annotated[str | None, typer.Option("--gate", help="Only gates of this name.")] = None,
    entry_id: Annotated[
        str | None, typer.Option("--entry", callback=id_or_beginning, help="Only gates of this entry.")
    ] = None,
    closed: Annotated[bool, typer.Option("--all", help="Include closed gates and their decisions.")] = False,
    cursor: Cursor = None,
    limit: Limit = 100,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """List the gates that wait for a person, longest wait first."""
    settings = config.load(dsn=dsn, tenant=tenant)
    filters: dict[str, Any] = {"gate": gate, "entry_id": entry_id, "closed": closed, "cursor": cursor}
    most = limit if as_json else limit + COUNTED
    page = run_with_client(settings, lambda client: client.gates(**filters, limit=most))
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    columns = ("token_id", "entry_id", "gate", "sentence", "opened_at", "takes", "asked", "claimed_by", "state")
    show([one.model_dump(mode="json") for one in show_first(page.gates, limit)], columns=columns, as_json=False)


@app.command(epilog=f"Example: verbworker gates decide {ANY_ID} approve --reason 'papers seen' --by ada")
def decide(
    where: Where,
    decision: Annotated[str, typer.Argument(help="Decision, one of those the gate accepts.")],
    reason: OptionalReason = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="What the gate asks for with the decision. Repeatable."),
    ] = None,
    gate: GateName = None,
    by: By = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, max=600.0, help="Seconds to wait for the engine to confirm.")
    ] = 0.0,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Decide at a gate. Exits 1 if it was decided or closed before, and prints by whom and when.

    With --wait also if the engine refuses the decision until then; it is stored, and a worker sends it again.
    """
    given = _read_inputs(inputs or [])
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work(client: Client) -> GateRecord:
        decided = await client.decide(where, decision, reason=reason, gate=gate, inputs=given)
        return await _await_answer(client, decided, wait)

    with busy(f"deciding {decision}"):
        decided = run_with_client(settings, work, by=by)
    sentence = f"{by} decided {decision} at {decided.gate} of entry {decided.entry_id}; {_next(decided)}"
    answer(sentence, decided.model_dump(mode="json"), as_json=as_json)
    if decided.verdict is not None and decided.verdict.answer == "gone":
        raise RequestConflict(
            f"the decision at {decided.gate} is stored, but came too late: the case no longer waits for it"
        )
    if wait and decided.verdict is not None and decided.verdict.answer is None and decided.verdict.trouble:
        raise RequestConflict(
            f"the decision at {decided.gate} is stored, but the engine has not taken it: {decided.verdict.trouble};"
            " a worker sends it again"
        )


def _read_inputs(lines: list[str]) -> dict[str, str]:
    """Return the values of `NAME=VALUE` by name."""
    given: dict[str, str] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise InvocationInvalid("write an input as NAME=VALUE")
        if name.strip() in given:
            raise InvocationInvalid(f"the input {tell_name(name.strip())} is given twice")
        given[name.strip()] = value
    return given


ClaimWait = Annotated[
    float,
    typer.Option("--wait", min=0.0, max=600.0, help="Seconds to wait for the answer of the engine's task list."),
]


@app.command(epilog=f"Example: verbworker gates claim {ANY_ID} --by ada")
def claim(
    where: Where,
    gate: GateName = None,
    by: By = "",
    wait: ClaimWait = CLAIM_WAIT_S,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Claim a gate, so that nobody else can decide it. Exits 1 if another person has it, here or in the engine."""
    settings = config.load(dsn=dsn, tenant=tenant)
    with busy("claiming"):
        claimed = run_with_client(settings, lambda client: client.claim(where, gate=gate, wait=wait), by=by)
    _answer_claim(f"{claimed.claimed_by} claimed {claimed.gate} of entry {claimed.entry_id}", claimed, as_json=as_json)


@app.command(epilog=f"Example: verbworker gates release {ANY_ID}")
def release(
    where: Where,
    gate: GateName = None,
    by: By = "",
    wait: ClaimWait = CLAIM_WAIT_S,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Release a claimed gate. With declared roles, that of another person needs the role supervisor."""
    settings = config.load(dsn=dsn, tenant=tenant)
    with busy("releasing"):
        released = run_with_client(settings, lambda client: client.release(where, gate=gate, wait=wait), by=by)
    _answer_claim(f"{released.gate} of entry {released.entry_id} is released", released, as_json=as_json)


def _answer_claim(sentence: str, gate: GateRecord, *, as_json: bool) -> None:
    words = f"; {gate.claim_words}" if gate.claim_words else ""
    answer(f"{sentence}{words}", gate.model_dump(mode="json"), as_json=as_json)


async def _await_answer(client: Client, decided: GateRecord, seconds: float) -> GateRecord:
    """Return the gate once the engine has answered, or its current state after `seconds`."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while decided.verdict is not None and decided.verdict.answer is None and clock() < deadline:
        await asyncio.sleep(_LOOK_EVERY)
        decided = await client.gate(decided.token_id)
    return decided


def _next(decided: GateRecord) -> str:
    match decided.verdict.answer if decided.verdict is not None else None:
        case None:
            return "a worker will report it to the engine"
        case "gone":
            return "the engine no longer waits for it"
        case "completed":
            return "the case continues"
        case _:
            # An answer was lost, and the task ended meanwhile: by this decision, as far as anyone can know.
            return "the engine has ended the task"
