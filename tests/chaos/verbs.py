"""The verbs of the chaos runs, as a worker process loads them: `verbworker worker --app tests.chaos.verbs:registry`.

Every answer holds a fresh token, so that a second run can never pass for the first.
"""

import asyncio
import contextlib
import os
import random
import secrets
import signal
import sys
from types import FrameType

from pydantic import BaseModel

from tests.chaos.provider import call_provider
from verbworker.errors import TransientExternal
from verbworker.registry import Registry
from verbworker.verb import Call, Db
from verbworker.workflow import WorkflowVerb

DOMAINS = "CHAOS_DOMAINS"
PROVIDER = "CHAOS_PROVIDER"
WORK = "CHAOS_WORK"
"""The environment variables that say which verbs there are, whom they call, and how long they work (least:most)."""

LEDGER = "CREATE TABLE ledger (number integer, key text, epoch bigint, token text)"
_BOOK = "INSERT INTO ledger (number, key, epoch, token) VALUES ($1, $2, $3, $4)"
# A kill is a run that never answered, and here it is no verb's fault: the breaker has a test of its own.
_PATIENT = 1000


class Account(BaseModel):
    number: int
    booked: str = ""
    sent: str = ""


def verbs_of(domain: str) -> Registry:
    """Verbs of both modes that work, falter once or kill their worker, under names of one domain."""
    verbs = Registry()

    @verbs.verb(f"{domain}.book", mode="transactional", writes=("booked",), max_runs=_PATIENT, concurrency=8)
    async def book(account: Account, call: Call) -> Account:
        """Book the account, then hold the transaction open for a while."""
        return await _book(account, call)

    @verbs.verb(f"{domain}.send", mode="external", writes=("sent",), max_runs=_PATIENT, concurrency=8)
    async def send(account: Account, call: Call) -> Account:
        """Send the account to the provider, then take a while to answer."""
        return await _send(account, call)

    @verbs.verb(f"{domain}.falter-book", mode="transactional", writes=("booked",), max_runs=_PATIENT, concurrency=8)
    async def falter_book(account: Account, call: Call) -> Account:
        """Book, and fail the first time."""
        booked = await _book(account, call)
        _falter(call)
        return booked

    @verbs.verb(f"{domain}.falter-send", mode="external", writes=("sent",), max_runs=_PATIENT, concurrency=8)
    async def falter_send(account: Account, call: Call) -> Account:
        """Send, and fail the first time although the call went out."""
        sent = await _send(account, call)
        _falter(call)
        return sent

    @verbs.verb(f"{domain}.poison", mode="external", writes=(), max_runs=2)
    async def poison(account: Account, call: Call) -> Account:
        """Take the whole process down, every time."""
        os._exit(3)

    return verbs


def workflow_of(domain: str) -> WorkflowVerb:
    """The workflow verb that may call every verb of a domain."""
    return WorkflowVerb(
        name=f"{domain}.run",
        version=1,
        process=f"{domain}-run",
        schema=f"{domain}.run/v1",
        sub_verbs=tuple(f"{domain}.{verb}" for verb in ("book", "send", "falter-book", "falter-send", "poison")),
    )


async def _book(account: Account, call: Call) -> Account:
    token = secrets.token_hex(8)
    await call.db.execute(_BOOK, account.number, call.idempotency_key, call.epoch, token)
    await _work(call.db)
    return account.model_copy(update={"booked": token})


async def _send(account: Account, call: Call) -> Account:
    await call_provider(os.environ[PROVIDER], account.number, call.idempotency_key, call.epoch)
    await _work()
    return account.model_copy(update={"sent": secrets.token_hex(8)})


async def _work(db: Db | None = None) -> None:
    least, _, most = os.environ.get(WORK, "0:0").partition(":")
    seconds = random.uniform(float(least), float(most))
    if db is not None and random.random() < 0.5:
        await db.execute("SELECT pg_sleep($1)", seconds)
    else:
        await asyncio.sleep(seconds)


def _falter(call: Call) -> None:
    if call.attempt == 1:
        raise TransientExternal("it works the second time", code="FirstTime")


def _tell_tasks(_number: int, _frame: FrameType | None) -> None:
    for task in asyncio.all_tasks():
        with contextlib.suppress(TypeError):  # a coroutine of gRPC's own has no Python frame
            task.print_stack(limit=6, file=sys.stderr)
    sys.stderr.flush()


# The stuck detector asks for this; a signal is heard even where the loop waits.
signal.signal(signal.SIGUSR2, _tell_tasks)

registry = Registry.of(*(verbs_of(domain) for domain in os.environ.get(DOMAINS, "chaos").split(",")))
registry._take([workflow_of(domain) for domain in os.environ.get(DOMAINS, "chaos").split(",")], [])
