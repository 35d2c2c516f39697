"""The routes of the console."""

import logging
from contextlib import suppress
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from verbworker.console.access.authentication import BUG, Authentication, Page
from verbworker.console.access.headers import SecurityHeaders
from verbworker.console.access.login import Login
from verbworker.console.api import Api
from verbworker.console.pages import deployed_processes as process_pages
from verbworker.console.pages import gates as gate_pages
from verbworker.console.pages import incidents as trouble_pages
from verbworker.console.pages import overview as plain_pages
from verbworker.console.pages import runbook as runbook_pages
from verbworker.errors import StoreError
from verbworker.http.answers import probe_routes

_log = logging.getLogger(__name__)

_READING: Final[tuple[tuple[str, Page], ...]] = (
    ("/", runbook_pages.listing),
    ("/entries/{entry_id:uuid}", runbook_pages.entry),
    ("/gates", gate_pages.inbox),
    ("/gates/{where:uuid}", gate_pages.task),
    ("/dead-letters", trouble_pages.letters),
    ("/processes", process_pages.index),
    ("/processes/one", process_pages.process),
    ("/bpmn.css", process_pages.stylesheet),
    ("/incidents", trouble_pages.incidents),
    ("/incidents/one", trouble_pages.incident),
    ("/verbs", plain_pages.verbs),
    ("/load", plain_pages.load),
    ("/events", plain_pages.events),
)
_WRITING: Final[tuple[tuple[str, Page], ...]] = (
    ("/entries/{entry_id:uuid}/cancel", runbook_pages.cancel),
    ("/gates/{where:uuid}/claim", gate_pages.claim),
    ("/gates/{where:uuid}/release", gate_pages.release),
    ("/gates/{where:uuid}/assign", gate_pages.assign),
    ("/dead-letters/{letter_id:uuid}/redeliver", trouble_pages.redeliver),
    ("/dead-letters/{letter_id:uuid}/discard", trouble_pages.discard),
    ("/incidents/resolve", trouble_pages.resolve),
)


def application(auth: Authentication, login: Login, api: Api) -> SecurityHeaders:
    """Build the application that a server runs."""
    routes: list[BaseRoute] = [
        *(Route(path, auth.reading(page), methods=["GET"]) for path, page in _READING),
        *(Route(path, auth.writing(page), methods=["POST"]) for path, page in _WRITING),
        Route("/gates/{where:uuid}/decide", api.or_form(auth.writing(gate_pages.decide)), methods=["POST"]),
        Route("/api/gates/{where:uuid}/{gate}", api.decide, methods=["POST"]),
        Mount("/static", StaticFiles(packages=[("verbworker.console", "static")])),
        *probe_routes(auth.tools.database.ping),
    ]
    if not auth.is_open:
        routes += [
            Route("/login", login.page, methods=["GET"]),
            Route("/login", login.by_key, methods=["POST"]),
            Route("/login/issuer", login.to_issuer, methods=["GET"]),
            Route("/login/back", login.from_issuer, methods=["GET"]),
            Route("/logout", login.out, methods=["POST"]),
        ]

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "There is no such page.", 405: "This page does not support that method."}
        session = None
        with suppress(StoreError):
            session = await auth.session(request)
        return auth.refusal(error.status_code, words.get(error.status_code, error.detail), session)

    async def bug(_request: Request, error: Exception) -> Response:
        _log.error("request failed with an unexpected error", exc_info=error)
        return auth.refusal(500, BUG, None)

    app = Starlette(routes=routes, exception_handlers={HTTPException: refuse, Exception: bug})
    # Its redirects name the host that the request names.
    app.router.redirect_slashes = False
    return SecurityHeaders(app, auth.addresses)
