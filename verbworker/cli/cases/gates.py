"""`verbworker gates`: list the gates that wait for a person, claim or release them, and decide."""

import asyncio
import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any
from uuid import UUID

import typer

from verbworker.app import settings as config
from verbworker.app.output import answer, busy, run, show
from verbworker.app.settings import Settings
from verbworker.cli.operate.db import DSN
from verbworker.errors import RequestConflict
from verbworker.stores import migrations
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

app = typer.Typer(help="Gates: what waits for a person to decide.", no_args_is_help=True)

WHERE = typer.Argument(help="The entry's id, or the gate's own.", metavar="ENTRY_OR_TOKEN", show_default=False)
GATE = typer.Option(None, "--gate", help="The gate's name, when its entry stands at several.", show_default=False)
ENTRY = typer.Option(None, "--entry", help="Only those of this entry.", show_default=False)
BY = typer.Option("", "--by", help="Who; else the user of this process.", show_default=False)
TENANT = typer.Option(None, "--tenant", help="Whose; else VERBWORKER_TENANT.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")

_LOOK_EVERY = 0.2
_ANY = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"


@app.command("list", epilog="Example: verbworker gates list --gate review --json")
def list_gates(
    gate: str | None = typer.Option(None, "--gate", help="Only those of this name.", show_default=False),
    entry_id: UUID | None = ENTRY,
    closed: bool = typer.Option(False, "--all", help="Also those that wait no more, and what became of each."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """List the gates that wait for somebody, the longest wait first."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> list[HumanGate]:
        async with _open_gates(settings) as gates:
            return await gates.list(settings.tenant, gate=gate, entry_id=entry_id, closed=closed)

    rows = [_format_gate(found) for found in run(read())]
    columns = ("token_id", "entry_id", "gate", "sentence", "opened_at", "takes", "asked", "claimed_by", "state")
    show(rows, columns=columns, as_json=as_json)


@app.command(epilog=f"Example: verbworker gates decide {_ANY} approve --reason 'papers seen' --by ada")
def decide(
    where: UUID = WHERE,
    decision: str = typer.Argument(help="The decision, one of those the gate takes.", show_default=False),
    reason: str = typer.Option("", "--reason", help="Why; kept with the decision.", show_default=False),
    gate: str | None = GATE,
    by: str = BY,
    wait: float = typer.Option(0.0, "--wait", min=0.0, max=600.0, help="Seconds to wait until the engine knows."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Decide at a gate, once; exit 1 when it was decided or closed before, saying by whom and when."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work() -> HumanGate:
        async with _open_gates(settings) as gates:
            decided = await gates.decide(
                where, decision, reason=reason, by=_who(by), tenant_id=settings.tenant, gate=gate
            )
            return await _await_answer(gates, decided, wait)

    with busy(f"deciding {decision}"):
        decided = run(work())
    sentence = f"{_who(by)} decided {decision} at {decided.gate} of entry {decided.entry_id}; {_engine_knows(decided)}"
    answer(sentence, _format_gate(decided), as_json=as_json)
    if decided.verdict is not None and decided.verdict.answer == "gone":
        raise RequestConflict(f"the decision at {decided.gate} is kept, but came too late: nobody waited for it")


@app.command(epilog=f"Example: verbworker gates claim {_ANY} --by ada")
def claim(
    where: UUID = WHERE,
    gate: str | None = GATE,
    by: str = BY,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Take a gate in hand, so that nobody else decides there; exit 1 when somebody has it."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work() -> HumanGate:
        async with _open_gates(settings) as gates:
            return await gates.claim(where, _who(by), settings.tenant, gate=gate)

    claimed = run(work())
    sentence = f"{claimed.claimed_by} has {claimed.gate} of entry {claimed.entry_id} in hand"
    answer(sentence, _format_gate(claimed), as_json=as_json)


@app.command(epilog=f"Example: verbworker gates release {_ANY}")
def release(
    where: UUID = WHERE,
    gate: str | None = GATE,
    by: str = BY,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Give a gate back, whoever has it in hand."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def work() -> HumanGate:
        async with _open_gates(settings) as gates:
            return await gates.release(where, _who(by), settings.tenant, gate=gate)

    released = run(work())
    sentence = f"{released.gate} of entry {released.entry_id} is in nobody's hand"
    answer(sentence, _format_gate(released), as_json=as_json)


@asynccontextmanager
async def _open_gates(settings: Settings) -> AsyncIterator[Gates]:
    """Open gates without an engine: the next worker sends the engine what is decided here."""
    await migrations.require(settings.database())
    async with Database(settings.database(), size=2) as database:
        yield Gates(database)


async def _await_answer(gates: Gates, decided: HumanGate, seconds: float) -> HumanGate:
    """Return the gate once the engine has answered, or its current state after `seconds`."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while decided.verdict is not None and decided.verdict.answer is None and clock() < deadline:
        await asyncio.sleep(_LOOK_EVERY)
        decided = await gates.find(decided.token_id, decided.tenant_id)
    return decided


def _engine_knows(decided: HumanGate) -> str:
    match decided.verdict.answer if decided.verdict is not None else None:
        case None:
            return "a worker tells the engine"
        case "completed":
            return "the work goes on"
        case _:
            return "the engine waits there no more"


def _who(by: str) -> str:
    return by or getpass.getuser()


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
