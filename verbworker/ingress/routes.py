"""The routes of the ingress: JSON answers, and one sentence per refusal."""

import logging
import math
import time
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from verbworker.contract.message import Message, Word, validate
from verbworker.errors import (
    MessageInvalid,
    PermanentContract,
    RequestConflict,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    VerbworkerError,
)
from verbworker.http.answers import content_type, json_error, probe_routes
from verbworker.http.body import read_body
from verbworker.ingress.guard import Guard, Sender
from verbworker.ingress.rate import Rates
from verbworker.ingress.webhook import Signed
from verbworker.payload.canonical import parse
from verbworker.stores.database import Database
from verbworker.work.messages.ingress import Ingress, MessageCounter

_log = logging.getLogger(__name__)

_RETRY_AFTER = {"Retry-After": "5"}
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="verbworker"'}


class _Handover(BaseModel):
    """A message to deliver immediately, with the field names its senders use."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    message_name: Annotated[Word, Field(alias="messageName")]
    correlation_key: Annotated[Word, Field(alias="correlationKey")]
    variables: dict[str, Any] | None = None
    message_id: Annotated[Word | None, Field(alias="messageId")] = None


@dataclass(slots=True)
class Routes:
    """The routes of one ingress. A request is authenticated first, rate-limited second and read third."""

    guard: Guard
    rates: Rates
    ingress: Ingress
    messages: MessageCounter
    database: Database
    limit: int
    default_tenant: str
    is_stopping: bool = False

    def app(self) -> Starlette:
        """Build the application that a server runs."""
        routes = [
            Route("/messages", self._take, methods=["POST"]),
            Route("/api/workflow/message", self._hand_over, methods=["POST"]),
            *probe_routes(self.database.ping, lambda: self.is_stopping),
        ]
        return Starlette(
            routes=routes, exception_handlers=dict.fromkeys((HTTPException, VerbworkerError, Exception), _refuse)
        )

    def leave(self) -> None:
        """Report from now on that the ingress is stopping."""
        self.is_stopping = True

    async def _take(self, request: Request) -> Response:
        sender, body = await self._admit(request)
        tenant = sender.tenant_id or self.default_tenant
        message = await self.ingress.read(body, tenant_id=tenant, sent_by=sender.name)
        if sender.tenant_id is not None and message.tenant_id != sender.tenant_id:
            raise HTTPException(403, "this credential is not valid for the tenant of the message")
        receipt = await self.ingress.take(message, sent_by=sender.name)
        _log.info("message stored", extra={**_who(message, sender), "is_new": receipt.is_new})
        return JSONResponse({"message_id": message.message_id}, 202)

    async def _hand_over(self, request: Request) -> Response:
        sender, body = await self._admit(request)
        tenant = sender.tenant_id or self.default_tenant
        try:
            message = _message(body, self.limit, tenant_id=tenant, given_id=request.headers.get("webhook-id"))
        except MessageInvalid as error:
            await self.ingress.refuse(body, error, tenant_id=tenant, sent_by=sender.name)
            raise
        answer = await self.messages.hand_over(message, sent_by=sender.name)
        _log.info("message delivered directly", extra={**_who(message, sender), "is_delivered": answer.is_delivered})
        told = {"message_id": message.message_id, "delivered": answer.is_delivered}
        if answer.is_delivered:
            return JSONResponse(told)
        if answer.is_kept:
            return JSONResponse(told, 202)
        return JSONResponse({"error": answer.reason, **told}, 404)

    async def _admit(self, request: Request) -> tuple[Sender, bytes]:
        """Return the sender and the body, or refuse with the first problem found."""
        claim = await self.guard.ask(request.headers)
        if claim is None:
            raise HTTPException(401, "a valid credential is required", _CHALLENGE)
        if isinstance(claim, Sender):
            self._measure(claim)
        kind = content_type(request)
        if kind != "application/json" and not kind.endswith("+json"):
            raise HTTPException(415, "the content type must be application/json")
        body = await read_body(request, self.limit)
        if isinstance(claim, Signed):
            sender = self.guard.signer(claim, body)
            if sender is None:
                raise HTTPException(401, "a valid credential is required", _CHALLENGE)
            self._measure(sender)
            return sender, body
        return claim, body

    def _measure(self, sender: Sender) -> None:
        seconds = self.rates.wait(sender.name, time.monotonic())
        if seconds > 0:
            raise HTTPException(
                429, "this sender exceeds its rate limit; retry later", {"Retry-After": str(math.ceil(seconds))}
            )


def _message(body: bytes, limit: int, *, tenant_id: str, given_id: str | None) -> Message:
    try:
        wanted = _Handover.model_validate(parse(body, limit=limit))
    except PermanentContract as error:
        raise MessageInvalid(f"the message cannot be read: {error}") from error
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        fields = {".".join(map(str, one["loc"])): one["msg"].removeprefix("Value error, ") for one in problems}
        raise MessageInvalid("the message is invalid", fields) from None
    given = wanted.message_id if wanted.message_id is not None else given_id
    return validate(
        {
            "message_name": wanted.message_name,
            "message_id": str(uuid4()) if given is None else given,
            "correlation_key": wanted.correlation_key,
            "tenant_id": tenant_id,
            "payload": wanted.variables,
        }
    )


def _who(message: Message, sender: Sender) -> dict[str, object]:
    named = {"message_id": message.message_id, "message_name": message.message_name, "tenant_id": message.tenant_id}
    return {**named, "sender": sender.name, "traceparent": message.traceparent}


async def _refuse(_request: Request, error: Exception) -> Response:
    """Answer an error of ours in a sentence, and any other without its words."""
    match error:
        case HTTPException():
            return json_error(error.status_code, error.detail, error.headers)
        case MessageInvalid():
            return json_error(422, str(error), **({"fields": dict(error.fields)} if error.fields else {}))
        case RequestConflict():
            return json_error(409, str(error))
        case StoreUnavailable() | StoreConflict():
            _log.warning("message not stored", extra={"reason": str(error)})
            return json_error(503, "the message was not stored; send it again with the same id", _RETRY_AFTER)
        case StoreError():
            _log.error("message not stored: the database rejected a statement", extra={"reason": str(error)})
            return json_error(500, "the message was not stored")
    _log.error("request failed with an unexpected error", exc_info=error)
    return json_error(500, "the message was not stored because of an unexpected error")
