"""The HTTP API put together: its routes, its refusals and its OpenAPI document."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from verbworker.api.admission import Admission
from verbworker.api.entry_routes import cancels, decisions, reads, resolutions, starts
from verbworker.api.entry_routes import messages as messages_of_api
from verbworker.api.event_stream import EventStreams
from verbworker.api.message_routes import MessageRoutes
from verbworker.api.problem import HttpProblem, refuse
from verbworker.api.seen_people import SeenPeople
from verbworker.client.client import Client
from verbworker.errors import VerbworkerError

_SUMMARY = "Start cases, follow them, decide and send messages. Everything belongs to the tenant of the credential."
_CREDENTIALS = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of the configured OpenID issuer"},
}


def build_application(
    messages: MessageRoutes,
    *,
    client: Client,
    admission: Admission | None = None,
    streams: EventStreams | None = None,
    probes: list[BaseRoute] | None = None,
) -> FastAPI:
    """Build the application that a server runs; without FastAPI's own pages, which load scripts."""
    app = FastAPI(
        title="verbworker",
        version=version("verbworker"),
        description=_SUMMARY,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        routes=probes or [],
        redirect_slashes=False,  # its redirects name the host that the request names
        exception_handlers=dict.fromkeys((HTTPException, RequestValidationError, VerbworkerError, Exception), refuse),
    )
    for router in (starts, reads, cancels, decisions, resolutions, messages_of_api, messages.router()):
        app.include_router(router)
    app.state.client, app.state.admission, app.state.streams = client, admission, streams
    app.state.people = None if client is None else SeenPeople(client.resources.database)
    app.openapi = _describe(app)  # type: ignore[method-assign]  # FastAPI's own way to extend the document
    return app


def _describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = document.setdefault("components", {})
            parts.setdefault("schemas", {})["HttpProblem"] = HttpProblem.model_json_schema()
            parts["securitySchemes"] = _CREDENTIALS
            document["security"] = [{name: []} for name in _CREDENTIALS]
            app.openapi_schema = document
        return app.openapi_schema

    return describe
