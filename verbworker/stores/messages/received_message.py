"""A message of the inbox, as the verb behind its wait gets it."""

from datetime import datetime

from verbworker.contract.verb import ReceivedMessage
from verbworker.payload.canonical import parse
from verbworker.payload.envelope import HARD_LIMIT


def read_message(
    name: str, message_id: str, correlation_key: str, content: bytes | None, at: datetime, *, is_opaque: bool
) -> ReceivedMessage:
    """Return a message whose stored content is canonical JSON or, if opaque, bytes that are handed on as they are."""
    payload = None if content is None or is_opaque else parse(content, limit=HARD_LIMIT)
    return ReceivedMessage(name, message_id, correlation_key, payload, at, content if is_opaque else None)
