"""The server of a process that waits for its database: it answers probes, and refuses everything else for now."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verbworker.errors import StoreUnavailable
from verbworker.http.answers import RETRY_SOON, json_error, probe_routes
from verbworker.http.server import ServerOptions, bind, open_server

_MOST_PROBES = 16  # connections; the platform asks once every few seconds
_ANY = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@asynccontextmanager
async def open_waiting_server(
    host: str, port: int, options: ServerOptions, *, advice: str, probe_port: int | None = None
) -> AsyncIterator[None]:
    """Serve until the end of the block: alive, and not ready."""
    probes = probe_routes(_not_there)
    routes = [*probes, Route("/{path:path}", _refuse, methods=_ANY)]
    with closing(bind(host, port, advice=advice)) as listener:
        async with open_server(Starlette(routes=routes), listener, options), open_probes(host, probe_port, probes):
            yield


@asynccontextmanager
async def open_probes(host: str, port: int | None, routes: Sequence[Route]) -> AsyncIterator[None]:
    """Answer probes on a port of their own, if there is one, which the clients of the server cannot use up."""
    if port is None:
        yield
        return
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    options = ServerOptions(_MOST_PROBES, timedelta(seconds=1))
    with closing(bind(host, port, advice="choose another probe port")) as listener:
        async with open_server(app, listener, options):
            yield


async def _not_there() -> None:
    raise StoreUnavailable("the database is not there yet")


async def _refuse(_request: Request) -> Response:
    return json_error(503, "the database does not answer", RETRY_SOON)
