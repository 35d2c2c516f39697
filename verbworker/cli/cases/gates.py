"""`verbworker gates`: list the gates that wait for a person, claim or release them, and decide."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

import typer

from verbworker.app import settings as config
from verbworker.app.client import run_with_client
from verbworker.app.output import answer, busy, show
from verbworker.cli.shared_options import ANY_ID, By, Dsn, Json, Tenant
from verbworker.errors import RequestConflict
from verbworker.stores.cases.gates import HumanGate
from verbworker.work.gates.decide import Gates

app = typer.Typer(help="Gates: cases that wait for a person to decide.", no_args_is_help=True)

Where = Annotated[UUID, typer.Argument(help="Entry ID or gate ID.", metavar="ENTRY_OR_TOKEN")]
GateName = Annotated[str | None, typer.Option("--gate", help="Name of the gate, if the entry waits at several.")]

_LOOK_EVERY = 0.2


@app.command("list", epilog="Example: verbworker gates list --gate review --json")
def list_gates(
    gate: Annotated[str | None, typer.Option("--gate", help="Only gates of this name.")] = None,
    entry_id: Annotated[UUID | None, typer.Option("--entry", help="Only gates of this entry.")] = None,
    closed: Annotated[bool, typer.Option("--all", help="Include closed gates and their decisions.")] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """List the gates that wait for a person, longest wait first."""
    settings = config.load(dsn=dsn, tenant=tenant)
    found = run_with_client(
        settings,
        lambda client: Gates(client.database).list(settings.tenant, gate=gate, entry_id=entry_id, closed=closed),
    )
    columns = ("token_id", "entry_id", "gate", "sentence", "opened_at", "takes", "asked", "claimed_by", "state")
    show([_format_gate(gate) for gate in found], columns=columns, as_json=as_json)


@app.command(epilog=f"Example: verbworker gates decide {ANY_ID} approve --reason 'papers seen' --by ada")
def decide(
    where: Where,
    decision: Annotated[str, typer.Argument(help="Decision, one of those the gate accepts.")],
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the record.", show_default=False)] = "",
    gate: GateName = None,
    by: By = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, max=600.0, help="Seconds to wait for the engine to confirm.")
    ] = 0.0,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Decide at a gate. Exits 1 if it was decided or closed before, and prints by whom and when."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work(gates: Gates) -> HumanGate:
        decided = await gates.decide(where, decision, reason=reason, by=by, tenant_id=settings.tenant, gate=gate)
        return await _await_answer(gates, decided, wait)

    with busy(f"deciding {decision}"):
        decided = run_with_client(settings, lambda client: work(Gates(client.database)))
    sentence = f"{by} decided {decision} at {decided.gate} of entry {decided.entry_id}; {_next(decided)}"
    answer(sentence, _format_gate(decided), as_json=as_json)
    if decided.verdict is not None and decided.verdict.answer == "gone":
        raise RequestConflict(
            f"the decision at {decided.gate} is stored, but came too late: the case no longer waits for it"
        )


@app.command(epilog=f"Example: verbworker gates claim {ANY_ID} --by ada")
def claim(
    where: Where, gate: GateName = None, by: By = "", tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Claim a gate, so that nobody else can decide it. Exits 1 if another person claimed it."""
    settings = config.load(dsn=dsn, tenant=tenant)
    claimed = run_with_client(
        settings, lambda client: Gates(client.database).claim(where, by, settings.tenant, gate=gate)
    )
    sentence = f"{claimed.claimed_by} claimed {claimed.gate} of entry {claimed.entry_id}"
    answer(sentence, _format_gate(claimed), as_json=as_json)


@app.command(epilog=f"Example: verbworker gates release {ANY_ID}")
def release(
    where: Where, gate: GateName = None, by: By = "", tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Release a claimed gate, whoever claimed it."""
    settings = config.load(dsn=dsn, tenant=tenant)
    released = run_with_client(
        settings, lambda client: Gates(client.database).release(where, by, settings.tenant, gate=gate)
    )
    sentence = f"{released.gate} of entry {released.entry_id} is released"
    answer(sentence, _format_gate(released), as_json=as_json)


async def _await_answer(gates: Gates, decided: HumanGate, seconds: float) -> HumanGate:
    """Return the gate once the engine has answered, or its current state after `seconds`."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while decided.verdict is not None and decided.verdict.answer is None and clock() < deadline:
        await asyncio.sleep(_LOOK_EVERY)
        decided = await gates.find(decided.token_id, decided.tenant_id)
    return decided


def _next(decided: HumanGate) -> str:
    match decided.verdict.answer if decided.verdict is not None else None:
        case None:
            return "a worker will report it to the engine"
        case "completed":
            return "the case continues"
        case _:
            return "the engine no longer waits for it"


def _format_gate(gate: HumanGate) -> dict[str, Any]:
    asked = {name: value for name, value in gate.detail.items() if name != "decisions"}
    return asdict(gate) | {
        "takes": ", ".join(gate.decisions) or "any word",
        "asked": "; ".join(f"{name}: {_words(value)}" for name, value in asked.items()),
        "state": _state(gate),
    }


def _words(value: object) -> str:
    return ", ".join(str(part) for part in value) if isinstance(value, list) else str(value)


def _state(gate: HumanGate) -> str:
    if gate.verdict is not None:
        told = {"gone": ", too late", None: ", not told yet"}.get(gate.verdict.answer, "")
        return f"{gate.verdict.by} decided {gate.verdict.decision}{told}"
    return "open" if gate.closed_as is None else gate.closed_as
