"""The server of a process that waits for its database: it answers probes, and refuses everything else for now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verbworker.errors import StoreUnavailable
from verbworker.http.answers import RETRY_SOON, json_error, probe_routes
from verbworker.http.server import ServerOptions, bind, open_server

_ANY = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@asynccontextmanager
async def open_waiting_server(host: str, port: int, options: ServerOptions, *, advice: str) -> AsyncIterator[None]:
    """Serve until the end of the block: alive, and not ready."""
    routes = [*probe_routes(_not_there), Route("/{path:path}", _refuse, methods=_ANY)]
    with closing(bind(host, port, advice=advice)) as listener:
        async with open_server(Starlette(routes=routes), listener, options):
            yield


async def _not_there() -> None:
    raise StoreUnavailable("the database is not there yet")


async def _refuse(_request: Request) -> Response:
    return json_error(503, "the database does not answer", RETRY_SOON)
