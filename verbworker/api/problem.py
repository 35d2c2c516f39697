"""Refusals: problem details (RFC 9457) for the API, and one sentence for the senders of messages."""

import logging
from http import HTTPStatus
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from verbworker.contract.message import MAX_PROBLEMS
from verbworker.contract.text import describe_misfit, tell_name
from verbworker.errors import (
    CannotRun,
    EngineUnavailable,
    InvocationInvalid,
    MessageInvalid,
    PermanentContract,
    QuotaExceeded,
    Refused,
    ServerBusy,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from verbworker.http.answers import RETRY_SOON, WITHOUT_BODY, json_error

_log = logging.getLogger(__name__)

API: Final = "/v1"
_METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
MEDIA_TYPE: Final = "application/problem+json"


class HttpProblem(BaseModel):
    """A refusal, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str = Field(description="the name of the status")
    status: int
    detail: str = Field(description="what is wrong, and what to do, in a sentence")
    fields: dict[str, str] | None = Field(default=None, description="the problem of each field")


_REFUSALS: Final = {
    401: "No valid credential",
    403: "The credential does not allow it",
    404: "There is no such thing, or it belongs to another tenant",
    409: "It conflicts with an earlier request, decision or end",
    422: "The request is invalid",
    429: "The sender exceeds its rate limit, or its tenant a quota",
    503: "The database does not answer, or the server has too much to read",
}
_REFUSALS_OF_BODIES: Final = {
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "The body is not JSON",
}


class MessageRefusal(BaseModel):
    """A refusal of a message, in one sentence."""

    error: str = Field(description="what is wrong, and what to do, in a sentence")
    fields: dict[str, str] | None = Field(default=None, description="the problem of each field")


def problem_responses(*, has_body: bool) -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of the API for OpenAPI."""
    codes = _REFUSALS | (_REFUSALS_OF_BODIES if has_body else {})
    schema = {"schema": {"$ref": "#/components/schemas/HttpProblem"}}
    return {code: {"description": words, "content": {MEDIA_TYPE: schema}} for code, words in sorted(codes.items())}


def sentence_responses() -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of messages for OpenAPI; a message that no case waits for is not refused."""
    codes = {code: words for code, words in (_REFUSALS | _REFUSALS_OF_BODIES).items() if code != 404}
    return {code: {"model": MessageRefusal, "description": words} for code, words in sorted(codes.items())}


async def refuse(request: Request, error: Exception) -> Response:
    """Answer an error of ours in a sentence, and any other without its words."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error = HTTPException(error.status_code, error.detail, {"Allow": ", ".join(_methods(request))})
    return _sentence_of(error) if _is_ingress(request) else _problem_of(request, error)


def _is_ingress(request: Request) -> bool:
    """Return whether a request is answered in sentences: for messages alone, or by a server that has no API."""
    if is_api(request):
        return False
    return request.app.state.client is None or request.url.path == "/messages"


def is_api(request: Request) -> bool:
    """Return whether a request is for the API, which answers in problems and knows all its parameters."""
    return request.url.path == API or request.url.path.startswith(f"{API}/")


def _methods(request: Request) -> list[str]:
    """Return the methods of a path: several routes may have one each."""

    def has(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return [method for method in _METHODS if has(method)]


def _problem_of(request: Request, error: Exception) -> Response:
    match error:
        case HTTPException():
            return _problem(error.status_code, error.detail, headers=dict(error.headers or {}))
        case RequestValidationError():
            return _problem(422, "the request is invalid", _fields(error))
        case MessageInvalid() | InvocationInvalid():
            return _problem(422, str(error), dict(error.fields))
        case QuotaExceeded() | ServerBusy():
            return _problem(error.http_status, str(error), headers=_retry_after(error))
        case Refused():
            return _problem(error.http_status, str(error))
        case PermanentContract():
            return _problem(422, str(error))
        case StoreUnavailable() | StoreConflict():
            _log.warning("request not carried out", extra={"reason": str(error)})
            return _problem(503, _what_to_do(request), headers=RETRY_SOON)
        case EngineUnavailable():
            _log.warning("request not carried out", extra={"reason": str(error)})
            return _problem(503, "the engine does not answer; try again", headers=RETRY_SOON)
        case StoreError() | CannotRun():
            _log.error("request not carried out", extra={"reason": str(error)})
            return _problem(500, "the server could not carry it out; its log has the reason")
    _log.error("request failed with an unexpected error", exc_info=error)
    return _problem(500, "the server met an unexpected error")


def _retry_after(error: QuotaExceeded | ServerBusy) -> dict[str, str]:
    return {"Retry-After": str(error.retry_after)}


def _what_to_do(request: Request) -> str:
    """Say what a caller can do while the database is away."""
    if request.method in WITHOUT_BODY:
        return "the database does not answer; send the request again"
    if "idempotency-key" in request.headers:
        return "it is unknown whether it was stored; send it again with the same Idempotency-Key"
    return "it is unknown whether it was stored; read what it is about before you send it again"


def _sentence_of(error: Exception) -> Response:
    match error:
        case HTTPException():
            return json_error(error.status_code, error.detail, error.headers)
        case MessageInvalid():
            return json_error(422, str(error), **({"fields": dict(error.fields)} if error.fields else {}))
        case QuotaExceeded() | ServerBusy():
            return json_error(error.http_status, str(error), _retry_after(error))
        case Refused():
            return json_error(error.http_status, str(error))
        case StoreUnavailable() | StoreConflict():
            _log.warning("message not stored", extra={"reason": str(error)})
            return json_error(503, "the message was not stored; send it again with the same id", RETRY_SOON)
        case StoreError():
            _log.error("message not stored: the database rejected a statement", extra={"reason": str(error)})
            return json_error(500, "the message was not stored")
    _log.error("request failed with an unexpected error", exc_info=error)
    return json_error(500, "the message was not stored because of an unexpected error")


def _problem(
    status: int, detail: str, fields: dict[str, str] | None = None, *, headers: dict[str, str] | None = None
) -> Response:
    problem = HttpProblem(title=HTTPStatus(status).phrase, status=status, detail=detail, fields=fields or None)
    return JSONResponse(problem.model_dump(exclude_none=True), status, headers, media_type=MEDIA_TYPE)


def _fields(error: RequestValidationError) -> dict[str, str]:
    """Return where and what the problems are, never the values."""
    found = {}
    for problem in error.errors()[:MAX_PROBLEMS]:
        # The first part is only whether it is the body, the query, the path or a header.
        where = ".".join(map(tell_name, problem["loc"][1:])) or str(problem["loc"][0])
        found[where] = describe_misfit(problem)
    return found
