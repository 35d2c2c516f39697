"""Gates for programs: one request decides, in the name of the holder of its API key."""

import logging
import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from verbworker.client.records import GateRecord
from verbworker.console.access.authentication import Authentication, Endpoint, local_user
from verbworker.console.access.live_logins import LiveLogins
from verbworker.contract.person import Person
from verbworker.errors import PermanentContract, Refused, StoreError
from verbworker.http.answers import RETRY_SOON, content_type, json_error
from verbworker.http.body import read_body
from verbworker.http.keys import API_KEY
from verbworker.http.rate import GuessBrake
from verbworker.payload.canonical import parse
from verbworker.stores.access.tenancy import serve_tenant

_log = logging.getLogger(__name__)


class DecisionBody(BaseModel):
    """A decision as a program sends it."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    decision: Annotated[str, Field(min_length=1)]
    reason: str = ""
    inputs: dict[str, Any] = Field(default={})


class Api:
    """Endpoints for programs: JSON in, JSON out, and a key in `X-Api-Key`."""

    def __init__(self, auth: Authentication, logins: LiveLogins, brake: GuessBrake) -> None:
        self._auth = auth
        self._logins = logins
        self._brake = brake

    def or_form(self, form: Endpoint) -> Endpoint:
        """Return an endpoint that accepts one of our forms, or the same as JSON."""

        async def endpoint(request: Request) -> Response:
            return await (self.decide(request) if content_type(request) == "application/json" else form(request))

        return endpoint

    async def decide(self, request: Request) -> Response:
        """Decide at the gate named by a token, or by an entry and the gate's name."""
        try:
            return await self._decide(request)
        except HTTPException as error:
            return json_error(error.status_code, error.detail, error.headers)
        except Refused as error:
            return json_error(error.http_status, str(error))
        except StoreError as error:
            _log.warning("decision not stored", extra={"reason": str(error)})
            return json_error(503, "it is unknown whether the decision was stored; send it again", RETRY_SOON)

    async def _decide(self, request: Request) -> Response:
        person, tenant = self._who(request)
        serve_tenant(tenant)
        wanted = _decision(await read_body(request, self._auth.tools.settings.body_limit))
        client = self._auth.tools.client.act_for(person, tenant=tenant)
        decided = await client.decide(
            request.path_params["where"],
            wanted.decision,
            reason=wanted.reason,
            inputs=wanted.inputs,
            gate=request.path_params.get("gate"),
        )
        return JSONResponse(_decision_to_json(decided))

    def _who(self, request: Request) -> tuple[Person, str]:
        if not self._auth.addresses.may_post(request.headers):
            raise HTTPException(403, "requests from other sites are not accepted")
        if self._auth.is_open:
            return Person(local_user(), self._auth.tools.client.person.roles), self._auth.tools.tenant
        holder = self._logins.holder(request.headers.get(API_KEY, ""))
        if holder is not None:
            return Person(holder.name, holder.roles), holder.tenant
        if (seconds := self._brake.note_failure(request)) > 0:
            wait = {"Retry-After": str(math.ceil(seconds))}
            raise HTTPException(429, "too many wrong keys; try again in a moment", wait)
        raise HTTPException(401, "a valid API key is required")


def _decision(body: bytes) -> DecisionBody:
    try:
        return DecisionBody.model_validate(parse(body, limit=len(body) + 1))
    except (PermanentContract, ValidationError):
        raise HTTPException(422, 'send {"decision": "...", "reason": "..."}') from None


def _decision_to_json(decided: GateRecord) -> dict[str, object]:
    made = decided.verdict
    assert made is not None, "a gate that was just decided has a verdict"
    return {
        "token_id": str(decided.token_id),
        "entry_id": str(decided.entry_id),
        "gate": decided.gate,
        "decision": made.decision,
        "by": made.by,
        "at": made.at.isoformat(),
    }
