"""`verbworker message`, `dead-letters` and `ingress`: messages by hand and by HTTP, and undeliverable ones."""

import asyncio
import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.output import LONGEST, answer, not_blank, run, show
from verbworker.app.settings import Settings
from verbworker.app.signals import drain_on_signal
from verbworker.cli.operate.db import DSN
from verbworker.contract.message import LARGEST, validate
from verbworker.errors import CannotRun, MessageInvalid, PermanentContract
from verbworker.stores import migrations
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetter, DeadLetters

message = typer.Typer(help="Messages to cases that wait for them.", no_args_is_help=True)
dead_letters = typer.Typer(help="Messages that could not be delivered.", no_args_is_help=True)

ENGINE_ID = typer.Option(None, "--engine-id", help="The cluster's name; else VERBWORKER_ENGINE_ID.", show_default=False)
TENANT = typer.Option(None, "--tenant", help="Whose; else VERBWORKER_TENANT.", show_default=False)
BY = typer.Option("", "--by", help="Who; else the user of this process.", show_default=False)
REASON = typer.Option(..., "--reason", callback=not_blank, help="Why; kept with the letter.", show_default=False)
LETTER = typer.Argument(help="The letter's id.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")

_ANY = "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"


@message.command(epilog="Example: verbworker message send kyc.documents-received --key case-7 --payload @papers.json")
def send(
    name: str = typer.Argument(help="The message's name.", show_default=False),
    key: str = typer.Option(..., "--key", help="The correlation key.", show_default=False),
    message_id: str | None = typer.Option(None, "--id", help="Its id; sent twice, it counts once.", show_default=False),
    payload: str | None = typer.Option(None, "--payload", help="A JSON object, or @file.", show_default=False),
    entry_id: str | None = typer.Option(None, "--entry", help="The entry it is for.", show_default=False),
    ttl: float = typer.Option(3600.0, "--ttl", min=1.0, max=LONGEST, help="Seconds it waits for its case."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
    as_json: bool = JSON,
) -> None:
    """Send a message; it is kept when this returns. Exit 1 when its id was used for another."""
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    wanted: dict[str, Any] = {
        "message_name": name,
        "message_id": str(uuid4()) if message_id is None else message_id,
        "correlation_key": key,
        "tenant_id": settings.tenant,
        "entry_id": entry_id,
        "payload": None if payload is None else _payload(payload),
    }
    try:
        envelope = validate(wanted)
    except MessageInvalid as error:
        details = "; ".join(f"{field} {words}" for field, words in error.fields.items())
        raise MessageInvalid(f"{error}{f' ({details})' if details else ''}") from None
    cluster = settings.cluster()

    async def keep() -> bool:
        from verbworker.stores.messages.inbox import Inbox
        from verbworker.work.messages.ingress import Ingress

        async with _database(settings) as database:
            inbox = Inbox(database, engine_id=cluster, owner=uuid4())
            ingress = Ingress(inbox, DeadLetters(database))
            receipt = await ingress.take(envelope, sent_by=f"cli:{getpass.getuser()}", ttl=timedelta(seconds=ttl))
            return receipt.is_new

    is_new = run(keep())
    sentence = envelope.message_id if is_new else f"{envelope.message_id} was sent before"
    answer(sentence, {"message_id": envelope.message_id, "is_new": is_new}, as_json=as_json)


@dead_letters.command("list", epilog="Example: verbworker dead-letters list --all --json")
def list_letters(
    every: bool = typer.Option(False, "--all", help="Also those that were redelivered or discarded."),
    limit: int = typer.Option(100, "--limit", min=1, max=10_000, help="At most this many."),
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """List what could not be delivered, the oldest first."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def read() -> list[DeadLetter]:
        async with _database(settings) as database:
            return await DeadLetters(database).list(settings.tenant, resolved=every, limit=limit)

    columns = ("letter_id", "created_at", "message_name", "correlation_key", "message_id", "code", "reason", "state")
    show([asdict(letter) for letter in run(read())], columns=columns, as_json=as_json)


@dead_letters.command(epilog=f"Example: verbworker dead-letters redeliver {_ANY} --reason 'the case is open now'")
def redeliver(
    letter_id: UUID = LETTER,
    reason: str = REASON,
    key: str | None = typer.Option(None, "--key", help="Under another correlation key.", show_default=False),
    by: str = BY,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Have a message delivered again; exit 1 when somebody decided before."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def again() -> DeadLetter:
        async with _database(settings) as database:
            letters, who = DeadLetters(database), by or getpass.getuser()
            await letters.redeliver(letter_id, settings.tenant, by=who, reason=reason, key=key)
            return await letters.read(letter_id, settings.tenant)

    letter = run(again())
    answer(f"{letter.message_id} is on its way again", asdict(letter), as_json=as_json)


@dead_letters.command(epilog=f"Example: verbworker dead-letters discard {_ANY} --reason 'sent twice'")
def discard(
    letter_id: UUID = LETTER,
    reason: str = REASON,
    by: str = BY,
    tenant: str | None = TENANT,
    dsn: str | None = DSN,
    as_json: bool = JSON,
) -> None:
    """Give a message up for good; exit 1 when somebody decided before."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def drop() -> DeadLetter:
        async with _database(settings) as database:
            letters, who = DeadLetters(database), by or getpass.getuser()
            await letters.discard(letter_id, settings.tenant, by=who, reason=reason)
            return await letters.read(letter_id, settings.tenant)

    answer(f"{letter_id} is discarded", asdict(run(drop())), as_json=as_json)


def ingress(
    app: str = typer.Option(..., "--app", help="Your registry, as module:attribute.", show_default=False),
    host: str | None = typer.Option(None, "--host", help="Where to listen; else 127.0.0.1.", show_default=False),
    port: int | None = typer.Option(None, "--port", help="Its port; else 8091.", show_default=False),
    insecure_no_auth: bool = typer.Option(False, "--insecure-no-auth", help="Believe everybody on this machine."),
    dsn: str | None = DSN,
    engine_id: str | None = ENGINE_ID,
) -> None:
    """Take messages by HTTP: POST /messages, answered when they are kept.

    SIGTERM or SIGINT drains: requests under way are answered. A second one ends at once.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id)
    log.set_up(as_json=settings.log_format == "json", level=settings.log_level)
    try:
        from verbworker.ingress.server import serve
        from verbworker.ingress.settings import load
    except ModuleNotFoundError as error:
        raise CannotRun("the ingress is not installed; run: pip install 'verbworker[ingress]'") from error
    from verbworker.app.wiring import choose_engine, load_app

    registry = load_app(app)
    wanted = load(host=host, port=port)

    async def work() -> None:
        stop = asyncio.Event()
        with drain_on_signal(stop):
            await serve(settings, wanted, registry, choose_engine(settings), stop, is_open=insecure_no_auth)

    run(work())


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    await migrations.require(settings.database())
    async with Database(settings.database(), size=1) as database:
        yield database


def _payload(text: str) -> Any:
    from verbworker.payload.canonical import parse

    try:
        content = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return parse(content, limit=LARGEST)
    except OSError as error:
        raise CannotRun(f"cannot read {text[1:]}: {error.strerror}") from None
    except PermanentContract as error:
        raise MessageInvalid(f"the payload cannot be read: {error}") from None
