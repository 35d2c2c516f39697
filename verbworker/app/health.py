"""The health server of a worker: /live, /ready and /metrics, meant only for probes and scrapers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from typing import Protocol

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from verbworker.background.service_health import Limited
from verbworker.http.server import ServerOptions, bind, open_server
from verbworker.metrics import REGISTRY

# A probe or a scraper gives up after a few seconds itself.
_LONGEST_ANSWER_S = 5.0
# Probes and scrapers use a handful; more is a mistake that must not cost the worker memory.
_MOST_CONNECTIONS = 64
_NOT_KEPT = {"Cache-Control": "no-store"}
_ADVICE = "choose another by VERBWORKER_HTTP_PORT, or 0 for none"


class Probes(Protocol):
    """The checks behind /live and /ready: each by name, None when it is well, else a few words.

    What is `Limited` is reported and counts as well.
    """

    def live(self) -> Mapping[str, str | None]: ...
    async def ready(self) -> Mapping[str, str | Limited | None]: ...


@asynccontextmanager
async def open_health(
    host: str, port: int, probes: Probes, *, longest_s: float = _LONGEST_ANSWER_S
) -> AsyncIterator[tuple[str, int]]:
    """Answer probes until the end of the block; yields the address. No request or answer takes over `longest_s`."""
    options = ServerOptions(_MOST_CONNECTIONS, timedelta(seconds=longest_s), longest_idle_s=longest_s)
    with closing(bind(host, port, advice=_ADVICE)) as listener:
        address = listener.getsockname()[:2]
        async with open_server(_application(probes, longest_s), listener, options):
            yield address


def _application(probes: Probes, longest_s: float) -> Starlette:
    async def live(_request: Request) -> Response:
        return _judge(probes.live())

    async def ready(_request: Request) -> Response:
        try:
            async with asyncio.timeout(longest_s):
                return _judge(await probes.ready())
        except TimeoutError:
            raise HTTPException(503, "no answer in time") from None

    app = Starlette(
        routes=[Route("/live", live), Route("/ready", ready), Route("/metrics", _metrics)],
        exception_handlers={HTTPException: _refuse},
    )
    app.router.redirect_slashes = False
    return app


async def _metrics(_request: Request) -> Response:
    return Response(generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST, **_NOT_KEPT})


def _judge(troubles: Mapping[str, str | Limited | None]) -> Response:
    is_well = not any(isinstance(trouble, str) for trouble in troubles.values())
    checks = {name: "ok" if trouble is None else str(trouble) for name, trouble in troubles.items()}
    return JSONResponse({"ok": is_well, "checks": checks}, 200 if is_well else 503, _NOT_KEPT)


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there are /live, /ready and /metrics", 405: "only GET and HEAD"}
    body = {"error": words.get(error.status_code, error.detail)}
    return JSONResponse(body, error.status_code, {**(error.headers or {}), **_NOT_KEPT})
