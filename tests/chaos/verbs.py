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
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from pydantic import BaseModel

from tests.chaos.provider import call_provider
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Db
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import TransientExternal

APP = "CHAOS_APP"
PROVIDER = "CHAOS_PROVIDER"
WORK = "CHAOS_WORK"
BLOCK = "CHAOS_BLOCK"
"""The environment variables: which verbs there are (see `app_of`), whom they call, how long they work (least:most),
and for how many seconds the first booking blocks the event loop."""

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

    @verbs.verb(f"{domain}.stand", mode="external", writes=("sent",), max_runs=_PATIENT, concurrency=200)
    async def stand(account: Account) -> Account:
        """Take a while, with many others at once."""
        await _work()
        return account.model_copy(update={"sent": secrets.token_hex(8)})

    @verbs.verb(f"{domain}.poison", mode="external", writes=(), max_runs=2)
    async def poison(account: Account, call: Call) -> Account:
        """Take the whole process down, every time."""
        os._exit(3)

    return verbs


def app_of(lines: Mapping[str, Sequence[str]]) -> str:
    """The value of `APP` for a worker that has these verbs of these domains and no others."""
    return " ".join(f"{domain}={','.join(verbs)}" for domain, verbs in lines.items())


def registry_of(app: str) -> Registry:
    """The registry that such a value names."""
    chosen = Registry()
    for domain, _, names in (part.partition("=") for part in app.split()):
        verbs = verbs_of(domain)
        for name in names.split(","):
            verb = verbs.find(f"{domain}.{name}")
            assert verb is not None, f"there is no verb {name}"
            chosen.add(verb)
        chosen.declare(workflow_of(domain, names.split(",")))
    return chosen


def workflow_of(domain: str, verbs: Sequence[str]) -> WorkflowVerb:
    """The workflow verb of a domain, which may call these verbs."""
    return WorkflowVerb(
        name=f"{domain}.run",
        version=1,
        process=f"{domain}-run",
        schema=f"{domain}.run/v1",
        sub_verbs=tuple(f"{domain}.{verb}" for verb in verbs),
    )


async def _book(account: Account, call: Call) -> Account:
    token = secrets.token_hex(8)
    await call.db.execute(_BOOK, account.number, call.idempotency_key, call.epoch, token)
    _block_once()
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


def _block_once() -> None:
    """Do what an async verb must not."""
    seconds = float(os.environ.pop(BLOCK, "0"))
    if seconds:
        print("a verb blocks the loop", flush=True)
        time.sleep(seconds)


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

registry = registry_of(os.environ.get(APP, ""))
