"""Small answers that every server gives: JSON errors, and probes of a server that needs its database."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from verbworker.errors import StoreError

RETRY_SOON = {"Retry-After": "5"}  # seconds: a failover of the database takes about that long
WITHOUT_BODY = ("GET", "HEAD")  # requests that only read
STREAM_KEEPALIVE_S = 15.0  # proxies close a silent stream, often after a minute
STREAM_LIFE_S = 600.0  # a credential or session that was withdrawn is noticed within it


def json_error(status: int, words: str, headers: Mapping[str, str] | None = None, **more: object) -> Response:
    """Return an error as JSON, with one sentence and what else helps the client."""
    return JSONResponse({"error": words, **more}, status, dict(headers or {}))


def content_type(request: Request) -> str:
    """Return the media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def probe_routes(ping: Callable[[], Awaitable[object]], is_stopping: Callable[[], bool] = lambda: False) -> list[Route]:
    """Return /live, which always answers, and /ready, which needs the database."""

    async def live(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def ready(request: Request) -> Response:
        if is_stopping():
            return json_error(503, "the server is stopping")
        try:
            await ping()
        except StoreError:
            return json_error(503, "the database does not answer")
        return await live(request)

    return [Route("/live", live, methods=["GET"]), Route("/ready", ready, methods=["GET"])]
