"""A message from outside: its only accepted form, and the instance it is for."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Final, Protocol, Self, TypedDict
from uuid import UUID

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from verbworker.contract.text import LONGEST_NAME, describe_misfit, holds_controls, is_tenant, tell_name
from verbworker.errors import MessageInvalid, PermanentContract
from verbworker.job.trace_context import TRACEPARENT
from verbworker.payload.canonical import encode, parse

LARGEST: Final = 1024 * 1024
"""Maximum size of an envelope in bytes; the payload is stored in one row."""

MAX_VALUES: Final = 50_000
"""Maximum number of values in an envelope: what a value costs in memory and time has little to do with its bytes."""

MAX_PROBLEMS: Final = 5
"""Maximum number of problems in a refusal: enough to mend a message by, and no more work for a hostile one."""


def _legible(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    if holds_controls(text):
        raise ValueError("must not hold control characters")
    return text


def _one_tenant(text: str) -> str:
    if not is_tenant(text):
        raise ValueError("must be the name of one tenant")
    return text


def _decode(value: object) -> object:
    if not isinstance(value, str):
        return value  # bytes, from Python; anything else is refused by its type
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be Base64 (RFC 4648, with padding)") from None


def _encode(content: bytes) -> str:
    return b64encode(content).decode()


Word = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(_legible)]
"""A name, key or ID, within the length limit of the engine's own stores."""

Tenant = Annotated[Word, AfterValidator(_one_tenant)]
"""The name of one tenant."""

Base64 = Annotated[
    bytes,
    BeforeValidator(_decode),
    Field(min_length=1),
    PlainSerializer(_encode, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 4}),
]
"""Bytes, written as Base64 in JSON."""


class Message(BaseModel):
    """The envelope: name, addressee and payload, and the ID under which it may safely be sent again.

    `workflow_id` is the business key or the entry ID of the case; the message is delivered to no other. The payload is
    a JSON object, or bytes that only the receiving verb can read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    message_name: Word
    message_id: Word
    correlation_key: Word
    tenant_id: Tenant
    workflow_id: Word | None = None
    entry_id: Annotated[UUID, Field(strict=False)] | None = None
    correlation_id: Word | None = None
    causation_id: Word | None = None
    traceparent: Annotated[str, Field(pattern=TRACEPARENT)] | None = None
    payload: dict[str, Any] | None = None
    payload_bytes: Base64 | None = None

    @model_validator(mode="after")
    def _has_one_payload(self) -> Self:
        if self.payload is not None and self.payload_bytes is not None:
            raise ValueError("has both payload and payload_bytes: send one of them")
        return self

    @cached_property
    def content(self) -> bytes | None:
        """Return what the inbox stores: the bytes as they came, or the canonical payload, encoded once."""
        return self.payload_bytes if self.payload is None else encode(self.payload)

    @property
    def is_opaque(self) -> bool:
        """Return whether the content is bytes, and not JSON."""
        return self.payload_bytes is not None

    @cached_property
    def body_hash(self) -> bytes:
        """Return the SHA-256 of the canonical envelope, which distinguishes a repetition from a reused ID."""
        given: dict[str, Any] = {name: value for name, value in self if value is not None}
        if self.entry_id is not None:
            given["entry_id"] = str(self.entry_id)
        if self.payload_bytes is not None:
            given["payload_bytes"] = _encode(self.payload_bytes)
        elif self.content is not None:
            given["payload"] = orjson.Fragment(self.content)
        # Besides the payload there are only texts, under names that every order sorts alike.
        return sha256(orjson.dumps(given, option=orjson.OPT_SORT_KEYS)).digest()


class EnvelopeFields(TypedDict, total=False):
    """Fields of an envelope that its sender may leave out: the case it must be for, and what it belongs to."""

    workflow_id: str | None
    correlation_id: str | None
    causation_id: str | None
    traceparent: str | None


def payload_field(payload: object) -> dict[str, Any]:
    """Return a payload under the name that the envelope has for it."""
    if isinstance(payload, bytes):
        return {"payload_bytes": payload}
    return {"payload": dict(payload) if isinstance(payload, Mapping) else payload}


class UndeliverableCode(StrEnum):
    """Why a message could not be delivered."""

    INVALID = "invalid"
    UNKNOWN_NAME = "unknown_name"
    NO_CASE = "no_case"
    SEVERAL = "several"
    ENDED = "ended"
    MISMATCH = "mismatch"
    EXPIRED = "expired"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that matches a message's name and key."""

    instance_uid: UUID
    tenant_id: str
    entry_id: UUID
    has_ended: bool


@dataclass(frozen=True, slots=True)
class Addressee:
    """The one instance a message is for."""

    instance_uid: UUID
    entry_id: UUID


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """Why a message has no addressee, and the related runbook entry, if there is one."""

    code: UndeliverableCode
    reason: str
    entry_id: UUID | None = None


def read(content: bytes, *, limit: int = LARGEST) -> Message:
    """Parse bytes into a message; raise `MessageInvalid` with the problems field by field."""
    try:
        return validate(parse(content, limit=limit, max_values=MAX_VALUES))
    except PermanentContract as error:
        raise MessageInvalid(f"the message cannot be read: {error}") from error


def validate(value: object) -> Message:
    """Validate a JSON value as a message; raise `MessageInvalid` otherwise."""
    if not isinstance(value, dict):
        raise MessageInvalid("a message is a JSON object")
    require_few_unknown(value, Message.model_fields)
    try:
        message = Message.model_validate(value)
        message.body_hash  # noqa: B018  # a payload made in Python may contain what JSON cannot
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        raise _does_not_fit(dict(map(_misfit, problems[:MAX_PROBLEMS])), len(problems)) from None
    except PermanentContract as error:
        raise MessageInvalid(f"the message cannot be kept: {error}") from error
    return message


def require_few_unknown(value: object, known: Collection[str]) -> None:
    """Raise `MessageInvalid` for many unknown fields, before each of them becomes an error of its own."""
    unknown = [name for name in value if name not in known] if isinstance(value, dict) else []
    if len(unknown) > MAX_PROBLEMS:
        fields = {tell_name(name): "is no field of a message" for name in unknown[:MAX_PROBLEMS]}
        raise _does_not_fit(fields, len(unknown))


def address(
    candidates: list[Candidate], *, tenant_id: str, entry_id: UUID | None = None
) -> Addressee | Undeliverable | None:
    """Return which candidate a message is for; None while the tenant has no match, which may still appear.

    An engine's subscriptions know no tenants, so a key that two tenants use is delivered to neither.
    """
    ours = [one for one in candidates if one.tenant_id == tenant_id]
    waiting = [one for one in ours if not one.has_ended]
    only = ours[0].entry_id if len({one.entry_id for one in ours}) == 1 else None
    if not waiting:
        # Another tenant's case is not reported either: we must not reveal which keys exist.
        return Undeliverable(UndeliverableCode.ENDED, "its case has ended", only) if ours else None
    if sum(not one.has_ended for one in candidates) > 1:
        return Undeliverable(UndeliverableCode.SEVERAL, "several cases have its key", only)
    if entry_id not in (None, waiting[0].entry_id):
        return Undeliverable(
            UndeliverableCode.MISMATCH, f"it names the entry {entry_id}, but its key belongs to another"
        )
    return Addressee(waiting[0].instance_uid, waiting[0].entry_id)


def _does_not_fit(fields: Mapping[str, str], count: int) -> MessageInvalid:
    more = f" and {count - len(fields)} more" if count > len(fields) else ""
    problems = "; ".join(f"{name} {words}" for name, words in sorted(fields.items()))
    return MessageInvalid(f"the message does not fit: {problems}{more}", fields)


def _misfit(problem: Any) -> tuple[str, str]:
    where = ".".join(map(tell_name, problem["loc"])) or "message"
    match problem["type"]:
        case "missing":
            return where, "is missing"
        case "extra_forbidden":
            return where, _unknown(where)
        case _:
            return where, describe_misfit(problem)


def _unknown(name: str) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    near = get_close_matches(snake, Message.model_fields, n=1)
    return f"is not a field of a message; did you mean {near[0]}?" if near else "is not a field of a message"


class Traced(Protocol):
    """A message in any form that has its trace: of the sender's request, of the conversation, and of its cause."""

    @property
    def correlation_id(self) -> str | None: ...
    @property
    def causation_id(self) -> str | None: ...
    @property
    def traceparent(self) -> str | None: ...


def trace_fields(message: Traced) -> dict[str, str | None]:
    """Return the fields of an envelope that every log line about its message has."""
    return {name: getattr(message, name) for name in ("traceparent", "correlation_id", "causation_id")}


def engine_message_id(tenant_id: str, message_id: str, generation: int) -> str:
    """Return the engine's ID for a delivery: a repetition has the same one, a redelivery another."""
    return f"{tenant_id}/{message_id}/{generation}"
