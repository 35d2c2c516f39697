"""Hand-off: a step of one case sends a message to another case, in its own transaction."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from verbworker.contract.message import validate
from verbworker.contract.verb import Call
from verbworker.errors import MessageInvalid, PermanentContract
from verbworker.job.trace_context import ambient_traceparent
from verbworker.stores.sql import query

DEFAULT_TTL = timedelta(hours=1)  # as the ingress has it


async def hand_off(
    call: Call,
    message_name: str,
    correlation_key: str,
    payload: Mapping[str, Any] | None = None,
    *,
    message_id: str | None = None,
    ttl: timedelta = DEFAULT_TTL,
) -> str:
    """Send a message to another case of the same tenant, exactly when this step completes.

    For transactional verbs. The message waits for its case up to `ttl`. Returns the message's ID, which is the same in
    every run of the step unless you pass one.
    """
    fields = {
        "message_name": message_name,
        "message_id": _id(call, message_name, correlation_key) if message_id is None else message_id,
        "correlation_key": correlation_key,
        "tenant_id": call.tenant_id,
        "correlation_id": str(call.entry_id),
        "payload": None if payload is None else dict(payload),
    }
    try:
        message = validate(fields)
    except MessageInvalid as error:
        raise PermanentContract(f"{call.verb} hands off: {error}", code="MessageInvalid") from error
    made = await call.db.fetchval(
        query("handoff", "send"),
        message.tenant_id,
        message.message_id,
        message.message_name,
        message.correlation_key,
        message.body_hash,
        message.content,
        message.correlation_id,
        call.idempotency_key,
        f"verb:{call.verb}",
        ttl,
        call.entry_id,
        ambient_traceparent(),
    )
    if made is None:
        await _require_same(call, message.message_id, message.body_hash)
    return message.message_id


async def _require_same(call: Call, message_id: str, body_hash: bytes) -> None:
    """Check, when nothing was written, that the same message was sent before."""
    earlier = await call.db.fetchval(query("handoff", "sent"), call.tenant_id, message_id)
    if earlier is None:
        raise PermanentContract(f"{call.verb} hands off outside of a process", code="NoProcess")
    if earlier != body_hash:
        raise PermanentContract(f"{call.verb} sent another message under {message_id!a} before", code="MessageConflict")


def _id(call: Call, message_name: str, correlation_key: str) -> str:
    text = "\n".join((call.idempotency_key, message_name, correlation_key))
    return f"handoff-{sha256(text.encode()).hexdigest()[:40]}"
