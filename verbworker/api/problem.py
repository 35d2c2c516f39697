"""Refusals: problem details (RFC 9457) for the API, and one sentence for those who send messages."""

import logging
from http import HTTPStatus
from typing import Final

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from verbworker.errors import (
    CannotRun,
    EngineUnavailable,
    MessageInvalid,
    NotFound,
    PermanentContract,
    Refused,
    RequestConflict,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from verbworker.http.answers import RETRY_SOON, json_error

_log = logging.getLogger(__name__)

API: Final = "/v1"
MEDIA_TYPE: Final = "application/problem+json"


class HttpProblem(BaseModel):
    """A refusal, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str = Field(description="the name of the status")
    status: int
    detail: str = Field(description="what is wrong, and what to do, in a sentence")
    fields: dict[str, str] | None = Field(default=None, description="the problem of each field")


async def refuse(request: Request, error: Exception) -> Response:
    """Answer an error of ours in a sentence, and any other without its words."""
    is_api = request.url.path == API or request.url.path.startswith(f"{API}/")
    return _problem_of(error) if is_api else _sentence_of(error)


def _problem_of(error: Exception) -> Response:
    match error:
        case HTTPException():
            return _problem(error.status_code, error.detail, headers=dict(error.headers or {}))
        case RequestValidationError():
            return _problem(422, "the request is invalid", _fields(error))
        case MessageInvalid():
            return _problem(422, str(error), dict(error.fields))
        case NotFound():
            return _problem(404, str(error))
        case RequestConflict():
            return _problem(409, str(error))
        case Refused() | PermanentContract():
            return _problem(422, str(error))
        case StoreUnavailable() | StoreConflict():
            _log.warning("request not carried out", extra={"reason": str(error)})
            detail = "it is unknown whether it was stored; send it again with the same Idempotency-Key"
            return _problem(503, detail, headers=RETRY_SOON)
        case EngineUnavailable():
            _log.warning("request not carried out", extra={"reason": str(error)})
            return _problem(503, "the engine does not answer; try again", headers=RETRY_SOON)
        case StoreError() | CannotRun():
            _log.error("request not carried out", extra={"reason": str(error)})
            return _problem(500, "the server could not carry it out; its log has the reason")
    _log.error("request failed with an unexpected error", exc_info=error)
    return _problem(500, "the server met an unexpected error")


def _sentence_of(error: Exception) -> Response:
    match error:
        case HTTPException():
            return json_error(error.status_code, error.detail, error.headers)
        case MessageInvalid():
            return json_error(422, str(error), **({"fields": dict(error.fields)} if error.fields else {}))
        case RequestConflict():
            return json_error(409, str(error))
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
    said = HttpProblem(title=HTTPStatus(status).phrase, status=status, detail=detail, fields=fields or None)
    return JSONResponse(said.model_dump(exclude_none=True), status, headers, media_type=MEDIA_TYPE)


def _fields(error: RequestValidationError) -> dict[str, str]:
    """Return where and what the problems are, never the values."""
    found = {}
    for problem in error.errors():
        # The first part says only whether it is the body, the query, the path or a header.
        where = ".".join(str(part) for part in problem["loc"][1:]) or str(problem["loc"][0])
        words = str(problem["msg"]).removeprefix("Value error, ")
        found[where] = words[:1].lower() + words[1:]
    return found
