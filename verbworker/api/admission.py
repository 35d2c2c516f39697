"""Admits a request: authenticates its sender first, limits its rate second, and reads its body third."""

import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from verblint.names import nearest
from verbworker.api.bodies import read_json
from verbworker.api.guard import Guard, Sender
from verbworker.api.problem import is_api
from verbworker.api.settings import ApiScope
from verbworker.api.webhook import Signed
from verbworker.background.body_reader import BodyReader
from verbworker.contract.message import MAX_PROBLEMS
from verbworker.http.answers import WITHOUT_BODY, content_type
from verbworker.http.body import announced_length, read_body
from verbworker.http.rate import GuessBrake, Rates
from verbworker.stores.access.tenancy import serve_tenant

_BYTES_PER_REQUEST = 32 * 1024  # as much of a body as one request of the rate pays for; more costs more
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="verbworker"'}


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may do what, how often, and how much a request may hold."""

    guard: Guard
    rates: Rates
    limit: int
    brake: GuessBrake = field(default_factory=GuessBrake)
    reader: BodyReader = field(default_factory=BodyReader)

    async def admit(self, request: Request, scope: ApiScope) -> tuple[Sender, bytes]:
        """Return the sender and the body, or refuse with the first problem found."""
        claim = await self.guard.ask(request.headers)
        if claim is None:
            raise self._refusal(request)
        if isinstance(claim, Sender):
            self._require(claim, scope)
        body = await self._read(request, claim.name if isinstance(claim, Sender) else None)
        sender = claim if isinstance(claim, Sender) else self.guard.signer(claim, body)
        if sender is None:
            raise self._refusal(request)
        if isinstance(claim, Signed):
            self._require(sender, scope)
            self.rates.charge(sender.name, len(body) / _BYTES_PER_REQUEST)
        return sender, body

    def _refusal(self, request: Request) -> HTTPException:
        seconds = self.brake.note_failure(request)
        if seconds > 0:
            return HTTPException(429, "too many wrong credentials; retry later", _retry_after(seconds))
        return HTTPException(401, "a valid credential is required", _CHALLENGE)

    async def _read(self, request: Request, sender: str | None) -> bytes:
        if request.method in WITHOUT_BODY:
            return b""
        kind = content_type(request)
        if kind != "application/json" and not kind.endswith("+json"):
            raise HTTPException(415, "the content type must be application/json")
        if sender is None:
            return await read_body(request, self.limit)
        # A large body is as much work as several small ones; the sender's next request waits for it. It is paid for
        # before it is read: many at the same time would all be read before the first was charged.
        announced = announced_length(request)
        self.rates.charge(sender, min(announced, self.limit) / _BYTES_PER_REQUEST)
        return await read_body(request, self.limit, None if announced else self._pay_by_part(sender))

    def _pay_by_part(self, sender: str) -> Callable[[int], None]:
        """Return what takes a request from the rate for each further part of a body that does not tell its length."""
        paid = 1

        def pay(size: int) -> None:
            nonlocal paid
            while paid < size / _BYTES_PER_REQUEST:
                self._take(sender)
                paid += 1

        return pay

    def _require(self, sender: Sender, scope: ApiScope) -> None:
        self._take(sender.name)
        if scope not in sender.scopes:
            raise HTTPException(403, f"this credential does not allow it: its scopes do not include {scope}")
        if scope is not ApiScope.READ:
            sender.person.require_change()

    def _take(self, sender: str) -> None:
        seconds = self.rates.wait(sender, time.monotonic())
        if seconds > 0:
            raise HTTPException(429, "this sender exceeds its rate limit; retry later", _retry_after(seconds))


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(math.ceil(seconds))}


def admitting_route(scope: ApiScope) -> type[APIRoute]:
    """Return a kind of route that admits a request before FastAPI reads any of it."""

    class AdmittingRoute(APIRoute):
        """Hands on a request with its sender, and with a body that was read within the limits."""

        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]  # Coroutine
            """Return the handler of FastAPI, behind the admission."""
            handle = super().get_route_handler()
            known = frozenset(_parameters(self.dependant))

            async def admit_and_handle(request: Request) -> Response:
                admission: Admission = request.app.state.admission
                sender, body = await admission.admit(request, scope)
                request.state.sender, request.state.body = sender, body
                if sender.tenant_id is not None:
                    serve_tenant(sender.tenant_id)
                handed = Request(request.scope, _replay(body, request.receive))
                if is_api(request):
                    _require_parameters(request, known)
                    if body:
                        # FastAPI would read it on the event loop, and report every field that a model does not have.
                        handed._json = await admission.reader.call(read_json, body)
                return await handle(handed)

            return admit_and_handle

    return AdmittingRoute


def _parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters that a route reads, by itself or through what it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)


def _require_parameters(request: Request, known: Collection[str]) -> None:
    """Refuse a parameter that a route does not have: a mistyped filter would return everything."""
    problems = []
    unknown = dict.fromkeys(name for name in request.query_params if name not in known)
    for name in list(unknown)[:MAX_PROBLEMS]:
        near = nearest(name, known)
        words = f"is no parameter of this request{f'; did you mean {near}?' if near else ''}"
        problems.append({"type": "unknown_parameter", "loc": ("query", name[:60]), "msg": words})
    if problems:
        raise RequestValidationError(problems)


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a channel that gives the body once, and then what the client does."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay
