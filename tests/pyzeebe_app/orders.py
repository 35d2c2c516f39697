"""An order service written for pyzeebe: eight tasks on a router, with decorators, a handler of errors and variables.

Nothing here but the last lines knows verbworker. Every effect goes to a ledger in the file `ORDERS_LEDGER`, with the
key under which it was done, so that a test can count what happened and how often.
"""

# mypy: disable-error-code="arg-type"
# pyzeebe types its decorator so that mypy accepts no async function.

import asyncio
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from pyzeebe import Job, JobController, ZeebeTaskRouter
from pyzeebe.errors import BusinessError

from verbworker import Registry, task_call

_log = logging.getLogger(__name__)
PREFIX = os.environ.get("ORDERS_PREFIX", "orders")
LEDGER = "ORDERS_LEDGER"
SLOW = "ORDERS_SLOW"
"""The task that stays in its effect for this long, as `task=seconds`, so that a worker can be killed there."""


def note(kind: str, task: str, **more: object) -> None:
    """Append a line to the ledger, at once: a killed process must not lose what it did."""
    with Path(os.environ[LEDGER]).open("a") as ledger:
        ledger.write(json.dumps({"kind": kind, "task": task, **more}) + "\n")


def effect(task: str) -> None:
    """Do something outside that must not happen twice under two keys."""
    call = task_call()
    note("effect", task, key=call.idempotency_key, attempt=call.attempt)


def pause(task: str) -> float:
    """How long a task stays in its effect."""
    name, _, seconds = os.environ.get(SLOW, "").partition("=")
    return float(seconds) if name == task else 0.0


def stamp(job: Job) -> Job:
    """Before every task: mark the variables, as tracing decorators do."""
    job.variables["seen_by"] = f"{job.variables.get('seen_by', '')}{job.element_id};"  # type: ignore[index]
    return job


async def audit(job: Job) -> Job:
    """After every task: note what it answered."""
    note("audit", job.type.rpartition(".")[2], answered=sorted(job.task_result or {}))
    return job


def break_down(job: Job) -> Job:
    """After one task: a decorator that fails, which pyzeebe logs and ignores."""
    raise RuntimeError("the metrics server is away")


async def on_error(error: Exception, job: Job, controller: JobController) -> None:
    """For the whole router: business errors are thrown, a lost connection is tried again, the rest fails."""
    if isinstance(error, BusinessError):
        await controller.set_error_status(f"rejected at {job.element_id}", error_code=error.error_code)
    elif isinstance(error, ConnectionError):
        await controller.set_failure_status("the carrier is away", retry_back_off_ms=100)
    else:
        await controller.set_failure_status("unexpected")


async def settle_anyway(error: Exception, job: Job, controller: JobController) -> None:
    """For one task: what fails counts as done, with a mark."""
    await controller.set_success_status(variables={"notified": False})


router = ZeebeTaskRouter(before=[stamp], after=[audit], exception_handler=on_error)


@router.task(f"{PREFIX}.validate")
async def validate(order_id: str, amount: int, country: str = "DE") -> dict[str, Any]:
    """Check the order, by its parameters; the country has a default."""
    if amount < 0:
        raise BusinessError("amount-negative")
    return {"valid": True, "country": country}


@router.task(f"{PREFIX}.price", single_value=True, variable_name="price")
def price(amount: int, country: str) -> float:
    """Compute a single value in a sync function, which runs on a thread."""
    effect("price")
    time.sleep(pause("price"))
    return amount * (1.19 if country == "DE" else 1.0)


@router.task(f"{PREFIX}.reserve", variables_to_fetch=["order_id", "price"], timeout_ms=30_000, max_jobs_to_activate=4)
async def reserve(order_id: str, **rest: Any) -> dict[str, Any]:
    """Reserve goods under a key; takes what it fetched and nothing else."""
    effect("reserve")
    await asyncio.sleep(pause("reserve"))
    return {"reservation": f"r-{order_id}", "reserved_with": sorted(rest)}


@router.task(f"{PREFIX}.charge", max_running_jobs=2, after=[break_down])
def charge(order_id: str, price: float) -> dict[str, Any]:
    """Charge the card in a sync function; its own after decorator breaks."""
    effect("charge")
    time.sleep(pause("charge"))
    return {"receipt": {"order": order_id, "paid": price, "key": task_call().idempotency_key}}


@router.task(f"{PREFIX}.ship")
async def ship(job: Job, order_id: str) -> dict[str, Any]:
    """Ship by the whole job: its headers, its element; the carrier is away at the first try."""
    effect("ship")
    if task_call().attempt == 1 and job.variables.get("order_id") == order_id and order_id.endswith("flaky"):
        raise ConnectionError("no route to the carrier")
    return {"tracking": f"{job.custom_headers['carrier']}-{order_id}", "shipped_from": job.element_id}


@router.task(f"{PREFIX}.notify", exception_handler=settle_anyway)
async def notify(email: str) -> None:
    """Send a mail; its own handler settles failures as done."""
    effect("notify")
    if "@" not in email:
        raise ValueError(email)


@router.task(f"{PREFIX}.refund")
async def refund(job: Job) -> dict[str, Any]:
    """Give the money back after a rejection; takes the job alone, and so all variables."""
    effect("refund")
    return {"refunded": job.variables.get("amount"), "reason": "rejected"}


@router.task(f"{PREFIX}.archive")
async def archive() -> None:
    """Take nothing and answer nothing."""
    effect("archive")


registry = Registry().include_pyzeebe(router)
