"""The verbs of the parcel service. Each leaves one trace of every run: a row of its own, or a call to the provider."""

import asyncio
import json
import os
from uuid import uuid4

import asyncpg
from pydantic import BaseModel

from tests.faults.app.provider_client import call_provider
from verbworker import Call, PermanentBusiness, Registry, Result

verbs = Registry()

NAIVE = "FAULTS_NAIVE"
"""With this variable transactional verbs write outside of their transaction."""

# A killed worker is a run without an answer. Here that is never the verb's fault, so no job is given up for it.
_RUNS = 1000
_EFFECT = (
    "INSERT INTO parcel_effect (entry_id, step, idempotency_key, run_id, pid, detail) VALUES ($1, $2, $3, $4, $5, $6)"
)


class Parcel(BaseModel):
    """What is known of one parcel. Each step writes a field of its own."""

    number: str
    pace: int
    refuse: bool
    booked: str = ""
    packed: str = ""
    charged: str = ""
    shipped: str = ""
    opened: str = ""
    proof: str = ""
    settled: str = ""
    declared: str = ""
    withdrawn: str = ""
    chased: str = ""
    clearance: str = ""
    duty: str = ""
    taken: str = ""
    handed: str = ""
    paid: str = ""
    closed: str = ""
    ticked: str = ""
    inspected: str = ""


async def _write(parcel: Parcel, call: Call, field: str, **detail: object) -> Parcel:
    """Leave the row of this run, with half of the work before it and half after."""
    run_id = uuid4()
    await asyncio.sleep(parcel.pace / 2000)
    row = (call.entry_id, call.verb, call.idempotency_key, run_id, os.getpid(), json.dumps(detail))
    if NAIVE in os.environ:
        await _write_apart(row)
    else:
        await call.db.execute(_EFFECT, *row)
    await asyncio.sleep(parcel.pace / 2000)
    return parcel.model_copy(update={field: str(run_id)})


async def _write_apart(row: tuple[object, ...]) -> None:
    """Commit the row at once, as a verb does that knows no better: a control, which must show effects twice."""
    connection = await asyncpg.connect(os.environ["VERBWORKER_DSN"])
    try:
        await connection.execute(_EFFECT, *row)
    finally:
        await connection.close()


async def _ask(parcel: Parcel, call: Call, field: str) -> Parcel:
    """Have the provider do it; its answer names the first call under our key."""
    receipt = await call_provider(
        {
            "key": call.idempotency_key,
            "entry": str(call.entry_id),
            "step": call.verb,
            "number": parcel.number,
            "pid": os.getpid(),
            "refuse": parcel.refuse,
        }
    )
    await asyncio.sleep(parcel.pace / 2000)
    if receipt == "refused":
        raise PermanentBusiness("the provider refuses this parcel", code="REFUSED")
    return parcel.model_copy(update={field: receipt})


@verbs.verb("parcel.book", mode="transactional", writes=("booked",), policy="standard", max_runs=_RUNS)
async def book(parcel: Parcel, call: Call) -> Parcel:
    """Book the parcel."""
    return await _write(parcel, call, "booked")


@verbs.verb("parcel.pack", mode="transactional", writes=("packed",), policy="standard", max_runs=_RUNS)
async def pack(parcel: Parcel, call: Call) -> Parcel:
    """Pack the parcel."""
    return await _write(parcel, call, "packed")


@verbs.verb("parcel.charge", mode="external", writes=("charged",), policy="standard", max_runs=_RUNS)
async def charge(parcel: Parcel, call: Call) -> Parcel:
    """Charge the sender."""
    return await _ask(parcel, call, "charged")


@verbs.verb("parcel.ship", mode="transactional", writes=("shipped",), policy="standard", max_runs=_RUNS)
async def ship(parcel: Parcel, call: Call) -> Parcel:
    """Ship the parcel."""
    return await _write(parcel, call, "shipped")


@verbs.verb("parcel.open-claim", mode="transactional", writes=("opened",), policy="standard", max_runs=_RUNS)
async def open_claim(parcel: Parcel, call: Call) -> Parcel:
    """Open the claim."""
    return await _write(parcel, call, "opened")


@verbs.verb("parcel.weigh-proof", mode="transactional", writes=("proof",), policy="standard", max_runs=_RUNS)
async def weigh_proof(parcel: Parcel, call: Call) -> Parcel:
    """Note which proofs came: one message is one proof, however often it was sent."""
    return await _write(parcel, call, "proof", messages=[message.message_id for message in call.messages])


@verbs.verb("parcel.settle", mode="transactional", writes=("settled",), policy="standard", max_runs=_RUNS)
async def settle(parcel: Parcel, call: Call) -> Parcel:
    """Settle the claim."""
    return await _write(parcel, call, "settled")


@verbs.verb("parcel.declare", mode="transactional", writes=("declared",), policy="standard", max_runs=_RUNS)
async def declare(parcel: Parcel, call: Call) -> Parcel:
    """Declare the parcel to customs."""
    return await _write(parcel, call, "declared")


@verbs.verb("parcel.withdraw", mode="transactional", writes=("withdrawn",), policy="standard", max_runs=_RUNS)
async def withdraw(parcel: Parcel, call: Call) -> Parcel:
    """Withdraw the declaration."""
    return await _write(parcel, call, "withdrawn")


@verbs.verb("parcel.chase", mode="transactional", writes=("chased",), policy="standard", max_runs=_RUNS)
async def chase(parcel: Parcel, call: Call) -> Parcel:
    """Remind the officer."""
    return await _write(parcel, call, "chased")


@verbs.verb("parcel.record-clearance", mode="transactional", writes=("clearance",), policy="standard", max_runs=_RUNS)
async def record_clearance(parcel: Parcel, call: Call) -> Result[Parcel]:
    """Note what the officer decided, and every decision that reached the case."""
    made = call.decision("clearance")
    decided = made.decision if made is not None else "nothing"
    noted = await _write(parcel, call, "clearance", decisions=[one.decision for one in call.decisions])
    return Result(noted, flags={"orch_cleared": decided == "release"})


@verbs.verb("parcel.duty", mode="external", writes=("duty",), policy="standard", max_runs=_RUNS)
async def duty(parcel: Parcel, call: Call) -> Parcel:
    """Pay the duty."""
    return await _ask(parcel, call, "duty")


@verbs.verb("parcel.take-back", mode="transactional", writes=("taken",), policy="standard", max_runs=_RUNS)
async def take_back(parcel: Parcel, call: Call) -> Parcel:
    """Take the parcel back."""
    return await _write(parcel, call, "taken")


@verbs.verb("parcel.hand-out", mode="transactional", writes=("handed",), policy="standard", max_runs=_RUNS)
async def hand_out(parcel: Parcel, call: Call) -> Parcel:
    """Hand the parcel out again."""
    return await _write(parcel, call, "handed")


@verbs.verb("parcel.pay-back", mode="external", writes=("paid",), policy="standard", max_runs=_RUNS)
async def pay_back(parcel: Parcel, call: Call) -> Parcel:
    """Pay the money back; the provider may refuse."""
    return await _ask(parcel, call, "paid")


@verbs.verb("parcel.close-refund", mode="transactional", writes=("closed",), policy="standard", max_runs=_RUNS)
async def close_refund(parcel: Parcel, call: Call) -> Parcel:
    """Close the refund."""
    return await _write(parcel, call, "closed")


@verbs.verb("parcel.tick", mode="transactional", writes=("ticked",), policy="standard", max_runs=_RUNS)
async def tick(parcel: Parcel, call: Call) -> Parcel:
    """Note that the storage time is over."""
    return await _write(parcel, call, "ticked")


@verbs.verb("parcel.inspect", mode="transactional", writes=("inspected",), policy="standard", max_runs=_RUNS)
async def inspect(parcel: Parcel, call: Call) -> Parcel:
    """Always end with a code that no model catches."""
    raise PermanentBusiness(f"the parcel {parcel.number} cannot be inspected", code="UNREADABLE")
