"""The routes for messages: JSON answers, and one sentence per refusal."""

import logging
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from verbworker.api.admission import admitting_route
from verbworker.api.bodies import Handover, read_handover
from verbworker.api.guard import Sender
from verbworker.api.problem import sentence_responses
from verbworker.api.settings import ApiScope
from verbworker.background.body_reader import BodyReader
from verbworker.client.client import Client
from verbworker.contract.message import Message, trace_fields
from verbworker.errors import MessageInvalid
from verbworker.stores.access.tenancy import serve_tenant
from verbworker.work.messages.ingress import ImmediateDelivery

_log = logging.getLogger(__name__)

_HANDED_OVER = {
    202: "The engine did not answer; the message is stored and will be delivered",
    404: "No case waits for it; the message is kept as a dead letter",
}


class AcceptedMessage(BaseModel):
    """A message that is stored."""

    message_id: str


class DeliveredMessage(BaseModel):
    """What became of a message that was to be delivered immediately; `error` is the reason if it was not."""

    message_id: str
    delivered: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRoutes:
    """The routes for messages from outside."""

    client: Client
    immediate: ImmediateDelivery
    limit: int
    reader: BodyReader = field(default_factory=BodyReader)

    def router(self) -> APIRouter:
        """Return the routes, which FastAPI describes but whose bodies only we parse: strictly, and kept if invalid."""
        refusals = sentence_responses()
        router = APIRouter(route_class=admitting_route(ApiScope.MESSAGES), tags=["messages"], responses=refusals)
        router.add_api_route(
            "/messages",
            self.take,
            methods=["POST"],
            status_code=202,
            response_model=AcceptedMessage,
            responses={202: {"description": "The message is stored, by this request or an earlier one"}},
            openapi_extra=_body_of(Message),
            summary="Store a message for the case that waits for it",
            operation_id="send_message",
        )
        router.add_api_route(
            "/api/workflow/message",
            self.hand_over,
            methods=["POST"],
            response_model=DeliveredMessage,
            responses={code: {"model": DeliveredMessage, "description": words} for code, words in _HANDED_OVER.items()},
            openapi_extra=_body_of(Handover),
            summary="Deliver a message to a waiting case, or not at all",
            operation_id="hand_over_message",
        )
        return router

    async def take(self, request: Request) -> Response:
        """Store a message. A repeated message is stored once: its id and its content must be the same."""
        sender: Sender = request.state.sender
        body: bytes = request.state.body
        ingress, client = self.client.resources.ingress, acting_client(self.client, sender)
        message = await ingress.read(body, tenant_id=client.tenant, sent_by=sender.name)
        if sender.tenant_id is None:
            serve_tenant(message.tenant_id)
            client = client.act_for(tenant=message.tenant_id)
        elif message.tenant_id != sender.tenant_id:
            raise HTTPException(403, "this credential is not valid for the tenant of the message")
        receipt = await client.deliver(message)
        _log.info("message stored", extra={**_who(message, sender), "is_new": receipt.is_new})
        return JSONResponse({"message_id": message.message_id}, 202)

    async def hand_over(self, request: Request) -> Response:
        """Deliver a message now: 200 if a case was waiting, 404 if none was, 202 if the engine did not answer."""
        sender: Sender = request.state.sender
        body: bytes = request.state.body
        tenant = acting_client(self.client, sender).tenant
        try:
            given_id = request.headers.get("webhook-id")
            message = await self.reader.call(read_handover, body, self.limit, tenant_id=tenant, given_id=given_id)
        except MessageInvalid as error:
            ingress = self.client.resources.ingress
            await ingress.refuse(body, error, tenant_id=tenant, sent_by=sender.name)
            raise
        answer = await self.immediate.hand_over(message, sent_by=sender.name)
        _log.info("message delivered directly", extra={**_who(message, sender), "is_delivered": answer.is_delivered})
        fields = {"message_id": message.message_id, "delivered": answer.is_delivered}
        if answer.is_delivered:
            return JSONResponse(fields)
        if answer.is_kept:
            return JSONResponse(fields, 202)
        return JSONResponse({"error": answer.reason, **fields}, 404)


def acting_client(client: Client, sender: Sender) -> Client:
    """Return the client that acts for the sender of a request, in the sender's tenant."""
    return client.act_for(sender.person, tenant=sender.tenant_id)


def _body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that FastAPI does not parse."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _who(message: Message, sender: Sender) -> dict[str, object]:
    named = {"message_id": message.message_id, "message_name": message.message_name, "tenant_id": message.tenant_id}
    return {**named, "sender": sender.name, **trace_fields(message)}
