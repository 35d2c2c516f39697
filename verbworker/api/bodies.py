"""The contents of bodies, read by functions that `BodyReader` may call in a process of its own."""

from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from verbworker.contract.message import MAX_PROBLEMS, MAX_VALUES, Message, Word, require_few_unknown, validate
from verbworker.contract.text import describe_misfit, tell_name
from verbworker.errors import MessageInvalid, PermanentContract
from verbworker.payload.canonical import parse

_MOST_FIELDS = 100  # of a body; no request has ten, and each that does not fit costs the event loop some microseconds


class Handover(BaseModel):
    """A message to deliver immediately, with the field names its senders use."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    message_name: Annotated[Word, Field(alias="messageName")]
    correlation_key: Annotated[Word, Field(alias="correlationKey")]
    variables: dict[str, Any] | None = None
    message_id: Annotated[Word | None, Field(alias="messageId")] = None


_HANDOVER_FIELDS = frozenset(str(field.alias or name) for name, field in Handover.model_fields.items())


def read_json(body: bytes) -> Any:
    """Return the content of a body; refuses what two parsers read differently, such as a key that comes twice."""
    try:
        value = parse(body, limit=len(body) + 1, max_values=MAX_VALUES)
    except PermanentContract as error:
        raise HTTPException(422, f"the body cannot be read: {error}") from None
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise HTTPException(422, f"the body has {len(value):,} fields, and no request has more than {_MOST_FIELDS}")
    return value


def read_handover(body: bytes, limit: int, *, tenant_id: str, given_id: str | None) -> Message:
    """Parse a message to deliver immediately; raise `MessageInvalid` with the problems field by field."""
    try:
        given = parse(body, limit=limit, max_values=MAX_VALUES)
        require_few_unknown(given, _HANDOVER_FIELDS)
        wanted = Handover.model_validate(given)
    except PermanentContract as error:
        raise MessageInvalid(f"the message cannot be read: {error}") from error
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)[:MAX_PROBLEMS]
        fields = {".".join(map(tell_name, one["loc"])): describe_misfit(one) for one in problems}
        words = "; ".join(f"{name} {misfit}" for name, misfit in fields.items())
        raise MessageInvalid(f"the message is invalid: {words}", fields) from None
    message_id = wanted.message_id if wanted.message_id is not None else given_id
    return validate(
        {
            "message_name": wanted.message_name,
            "message_id": str(uuid4()) if message_id is None else message_id,
            "correlation_key": wanted.correlation_key,
            "tenant_id": tenant_id,
            "payload": wanted.variables,
        }
    )
