"""`verbworker message`, `dead-letters` and `ingress`: messages by hand and by HTTP, and undeliverable ones."""

import getpass
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import typer

from verbworker.app import logging as log
from verbworker.app import settings as config
from verbworker.app.client import Client, run_with_client
from verbworker.app.output import answer, run, show
from verbworker.app.signals import run_until_signal
from verbworker.cli.shared_options import ANY_ID, LONGEST, App, By, Dsn, EngineId, Host, Json, Limit, Reason, Tenant
from verbworker.contract.message import LARGEST, Message, validate
from verbworker.errors import CannotRun, MessageInvalid, PermanentContract
from verbworker.stores.messages.dead_letters import DeadLetter, DeadLetters

message = typer.Typer(help="Messages to cases that wait for them.", no_args_is_help=True)
dead_letters = typer.Typer(help="Messages that could not be delivered.", no_args_is_help=True)

LetterId = Annotated[UUID, typer.Argument(help="Dead letter ID.")]


@message.command(epilog="Example: verbworker message send kyc.documents-received --key case-7 --payload @papers.json")
def send(
    name: Annotated[str, typer.Argument(help="Message name.")],
    key: Annotated[str, typer.Option("--key", help="Correlation key.")],
    message_id: Annotated[
        str | None, typer.Option("--id", help="Message ID; a repeated ID is delivered once (default: a new one).")
    ] = None,
    payload: Annotated[str | None, typer.Option("--payload", help="A JSON object, or @file.")] = None,
    entry_id: Annotated[str | None, typer.Option("--entry", help="Entry ID of the recipient.")] = None,
    ttl: Annotated[
        float, typer.Option("--ttl", min=1.0, max=LONGEST, help="Seconds that the message waits for its case.")
    ] = 3600.0,
    tenant: Tenant = None,
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Send a message; it is stored when this returns. Exits 1 if its ID belongs to a different message."""
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    envelope = _validate(
        {
            "message_name": name,
            "message_id": str(uuid4()) if message_id is None else message_id,
            "correlation_key": key,
            "tenant_id": settings.tenant,
            "entry_id": entry_id,
            "payload": None if payload is None else _payload(payload),
        }
    )
    cluster = settings.cluster()

    async def store(client: Client) -> bool:
        from verbworker.stores.messages.inbox import Inbox
        from verbworker.work.messages.ingress import Ingress

        inbox = Inbox(client.database, engine_id=cluster, owner=client.owner)
        ingress = Ingress(inbox, DeadLetters(client.database))
        receipt = await ingress.take(envelope, sent_by=f"cli:{getpass.getuser()}", ttl=timedelta(seconds=ttl))
        return receipt.is_new

    is_new = run_with_client(settings, store)
    sentence = envelope.message_id if is_new else f"{envelope.message_id} was sent before"
    answer(sentence, {"message_id": envelope.message_id, "is_new": is_new}, as_json=as_json)


@dead_letters.command("list", epilog="Example: verbworker dead-letters list --all --json")
def list_letters(
    resolved: Annotated[bool, typer.Option("--all", help="Include redelivered and discarded messages.")] = False,
    limit: Limit = 100,
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """List messages that could not be delivered, oldest first."""
    settings = config.load(dsn=dsn, tenant=tenant)
    letters = run_with_client(
        settings, lambda client: DeadLetters(client.database).list(settings.tenant, resolved=resolved, limit=limit)
    )
    columns = ("letter_id", "created_at", "message_name", "correlation_key", "message_id", "code", "reason", "state")
    show([asdict(letter) for letter in letters], columns=columns, as_json=as_json)


@dead_letters.command(epilog=f"Example: verbworker dead-letters redeliver {ANY_ID} --reason 'the case is open now'")
def redeliver(
    letter_id: LetterId,
    reason: Reason,
    key: Annotated[str | None, typer.Option("--key", help="Another correlation key.")] = None,
    by: By = "",
    tenant: Tenant = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    """Deliver a message again. Exits 1 if it is already redelivered or discarded."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def resolve(client: Client) -> DeadLetter:
        letters = DeadLetters(client.database)
        await letters.redeliver(letter_id, settings.tenant, by=by, reason=reason, key=key)
        return await letters.read(letter_id, settings.tenant)

    letter = run_with_client(settings, resolve)
    answer(f"{letter.message_id} is queued for delivery", asdict(letter), as_json=as_json)


@dead_letters.command(epilog=f"Example: verbworker dead-letters discard {ANY_ID} --reason 'sent twice'")
def discard(
    letter_id: LetterId, reason: Reason, by: By = "", tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Discard a message for good. Exits 1 if it is already redelivered or discarded."""
    settings = config.load(dsn=dsn, tenant=tenant)

    async def resolve(client: Client) -> DeadLetter:
        letters = DeadLetters(client.database)
        await letters.discard(letter_id, settings.tenant, by=by, reason=reason)
        return await letters.read(letter_id, settings.tenant)

    letter = run_with_client(settings, resolve)
    answer(f"{letter_id} is discarded", asdict(letter), as_json=as_json)


def ingress(
    app: App,
    host: Host = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on (default: 8091).")] = None,
    insecure_no_auth: Annotated[
        bool, typer.Option("--insecure-no-auth", help="Accept messages without authentication, on loopback only.")
    ] = False,
    dsn: Dsn = None,
    engine_id: EngineId = None,
) -> None:
    """Accept messages over HTTP: POST /messages returns when the message is stored.

    The first SIGTERM or SIGINT stops the server after the requests in progress; the second ends it immediately.
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
    run(
        run_until_signal(
            lambda stop: serve(settings, wanted, registry, choose_engine(settings), stop, is_open=insecure_no_auth)
        )
    )


def _validate(fields: dict[str, Any]) -> Message:
    try:
        return validate(fields)
    except MessageInvalid as error:
        details = "; ".join(f"{field} {words}" for field, words in error.fields.items())
        raise MessageInvalid(f"{error}{f' ({details})' if details else ''}") from None


def _payload(text: str) -> Any:
    from verbworker.payload.canonical import parse

    try:
        content = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return parse(content, limit=LARGEST)
    except OSError as error:
        raise CannotRun(f"cannot read {text[1:]}: {error.strerror}") from None
    except PermanentContract as error:
        raise MessageInvalid(f"the payload cannot be read: {error}") from None
