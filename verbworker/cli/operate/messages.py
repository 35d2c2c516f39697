"""`verbworker message` and `dead-letters`: messages by hand, and undeliverable ones."""

import binascii
import getpass
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from verbworker.app import settings as config
from verbworker.app.output import COUNTED, answer, show, show_first
from verbworker.cli.client_runs import run_with_client, run_with_resources
from verbworker.cli.shared_options import (
    ANY_ID,
    LONGEST,
    By,
    Dsn,
    EngineId,
    Json,
    Limit,
    Reason,
    Tenant,
    id_or_beginning,
    read_file,
    read_json,
)
from verbworker.client.client import Client
from verbworker.client.records import MessageReceipt
from verbworker.client.resources import Resources
from verbworker.errors import MessageInvalid, PermanentContract
from verbworker.stores.id_prefixes import IdPrefixes
from verbworker.stores.messages.dead_letters import DeadLetter, DeadLetters

message = typer.Typer(help="Messages to cases that wait for them.", no_args_is_help=True)
dead_letters = typer.Typer(help="Messages that could not be delivered.", no_args_is_help=True)

LetterId = Annotated[str, typer.Argument(callback=id_or_beginning, help="Dead letter ID, or its beginning.")]


@message.command(epilog="Example: verbworker message send kyc.documents-received --key case-7 --payload @papers.json")
def send(
    name: Annotated[str, typer.Argument(help="Message name.")],
    key: Annotated[str, typer.Option("--key", help="Correlation key.")],
    message_id: Annotated[
        str | None, typer.Option("--id", help="Message ID; a repeated ID is delivered once (default: a new one).")
    ] = None,
    payload: Annotated[str | None, typer.Option("--payload", help="A JSON object, or @file.")] = None,
    payload_bytes: Annotated[
        str | None, typer.Option("--payload-bytes", help="Base64, or @file for its bytes, instead of --payload.")
    ] = None,
    entry_id: Annotated[str | None, typer.Option("--entry", help="Entry ID of the recipient.")] = None,
    workflow_id: Annotated[
        str | None, typer.Option("--workflow-id", help="Business key or entry ID that the recipient must have.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", help="ID of what the message belongs to, for the record.")
    ] = None,
    causation_id: Annotated[
        str | None, typer.Option("--causation-id", help="ID of what caused the message, for the record.")
    ] = None,
    traceparent: Annotated[str | None, typer.Option("--traceparent", help="W3C trace of the sender.")] = None,
    ttl: Annotated[
        float, typer.Option("--ttl", min=1.0, max=LONGEST, help="Seconds that the message waits for its case.")
    ] = 3600.0,
    tenant: Tenant = None,
    dsn: Dsn = None,
    engine_id: EngineId = None,
    as_json: Json = False,
) -> None:
    """Send a message; it is stored when this returns. Exits 1 if no deployed process takes it.

    Exits 1 as well if its ID belongs to a different message.
    """
    settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
    cluster = settings.cluster()
    given = _payload(payload, payload_bytes)
    more: dict[str, Any] = {"message_id": message_id, "entry_id": entry_id, "ttl": timedelta(seconds=ttl)}
    more |= {"workflow_id": workflow_id, "correlation_id": correlation_id, "causation_id": causation_id}
    more["traceparent"] = traceparent

    async def store(client: Client) -> MessageReceipt:
        from verbworker.stores.deployments import Deployments
        from verbworker.work.messages.recipients import require_recipient

        await require_recipient(Deployments(client.resources.database, engine_id=cluster), cluster, name)
        return await client.send(name, key, given, **more)

    receipt = run_with_client(settings, store, by=f"cli:{getpass.getuser()}")
    sentence = receipt.message_id if receipt.is_new else f"{receipt.message_id} was sent before"
    answer(sentence, receipt.model_dump(mode="json"), as_json=as_json)


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

    async def read(resources: Resources) -> list[DeadLetter]:
        return await DeadLetters(resources.database).list(settings.tenant, resolved=resolved, limit=limit + COUNTED)

    letters = show_first(run_with_resources(settings, read), limit)
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
    letter = _resolve(
        settings,
        letter_id,
        lambda letters, found: letters.redeliver(found, settings.tenant, by=by, reason=reason, key=key),
    )
    answer(f"{letter.message_id} is queued for delivery", asdict(letter), as_json=as_json)


@dead_letters.command(epilog=f"Example: verbworker dead-letters discard {ANY_ID} --reason 'sent twice'")
def discard(
    letter_id: LetterId, reason: Reason, by: By = "", tenant: Tenant = None, dsn: Dsn = None, as_json: Json = False
) -> None:
    """Discard a message for good. Exits 1 if it is already redelivered or discarded."""
    settings = config.load(dsn=dsn, tenant=tenant)
    letter = _resolve(
        settings, letter_id, lambda letters, found: letters.discard(found, settings.tenant, by=by, reason=reason)
    )
    answer(f"{letter.letter_id} is discarded", asdict(letter), as_json=as_json)


def _resolve(
    settings: config.Settings, letter_id: str, act: Callable[[DeadLetters, UUID], Awaitable[object]]
) -> DeadLetter:
    """Do something with a dead letter, and return what became of it."""

    async def resolve(resources: Resources) -> DeadLetter:
        letters = DeadLetters(resources.database)
        found = await IdPrefixes(resources.database, settings.tenant).letter(letter_id)
        await act(letters, found)
        return await letters.read(found, settings.tenant)

    return run_with_resources(settings, resolve, changes=True)


def _payload(text: str | None, opaque: str | None) -> Any:
    if opaque is not None:
        if text is not None:
            raise MessageInvalid("the message has both --payload and --payload-bytes: give one of them")
        return _bytes(opaque)
    try:
        return None if text is None else read_json(text)
    except PermanentContract as error:
        raise MessageInvalid(f"the payload cannot be read: {error}") from None


def _bytes(text: str) -> bytes:
    if text.startswith("@"):
        return read_file(text[1:])
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MessageInvalid("--payload-bytes is not Base64: write Base64, or @file for the bytes of a file") from None
