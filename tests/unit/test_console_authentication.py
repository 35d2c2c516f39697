"""Authentication of the console: every error is a page with one sentence, and a form counts only with its token."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from verbworker.app.settings import Settings
from verbworker.client.client import Client
from verbworker.client.resources import Resources
from verbworker.console.access.authentication import Authentication, Page
from verbworker.console.access.headers import Addresses
from verbworker.console.access.live_logins import LiveLogins
from verbworker.console.access.session import LoginSession, Signer
from verbworker.console.access.session_store import SessionStore
from verbworker.console.live_updates import LiveUpdates
from verbworker.console.pages.model_pictures import ModelPictures
from verbworker.console.pages.page_tools import PageTools, PageVisit
from verbworker.console.pages.rendering import Rendering
from verbworker.console.settings import ConsoleSettings, Logins
from verbworker.errors import (
    CannotRun,
    EngineUnavailable,
    InvocationInvalid,
    NotFound,
    RequestConflict,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from verbworker.http.live_credentials import LiveCredentials
from verbworker.stores.cases.overview import Overview
from verbworker.stores.database import Database
from verbworker.stores.people.console_sessions import ConsoleSessions
from verbworker.work.gates.decide import Gates
from verbworker.work.gates.gate_rules import GateRules

NOW = 1_000_000.0
SIGNER = Signer(b"a key of thirty-two bytes, or more")
ANN = LoginSession.of("ann", "default", now=NOW, lasts=60)
HOST = "127.0.0.1:8092"


class SignedSessions(SessionStore):
    """Sessions that their cookies hold: a database is not needed for what is decided here."""

    async def find(self, cookie: str | None, *, is_active: bool) -> LoginSession | None:
        return SIGNER.session(cookie, now=NOW)


class LostSessions(SessionStore):
    """Sessions whose database is away."""

    async def find(self, cookie: str | None, *, is_active: bool) -> LoginSession | None:
        raise StoreUnavailable("gone")


def make_authentication(*, is_open: bool = False, is_away: bool = False, roles: str | None = None) -> Authentication:
    database = Database("postgresql://nobody@127.0.0.1:1/none", size=1)
    settings = Settings.model_validate({"dsn": "postgresql://nobody@127.0.0.1:1/none", "roles": roles})
    tools = PageTools(
        client=Client(settings, resources=Resources(settings, database, AsyncExitStack())),
        database=database,
        overview=Overview(database),
        rendering=Rendering(can_log_out=not is_open),
        updates=LiveUpdates(database, most=1),
        settings=ConsoleSettings(),
        tenant="default",
        catalogue=lambda: None,
        rules=GateRules(database),
        gates=Gates(database),
        models=ModelPictures(database),
    )
    addresses = Addresses.of("127.0.0.1", 8092, None)
    rows = ConsoleSessions(database, absolute=timedelta(hours=1), idle=timedelta(hours=1))
    kind = LostSessions if is_away else SignedSessions
    sessions = kind(SIGNER, rows, LiveLogins(LiveCredentials(Logins)))
    return Authentication(tools, SIGNER, sessions, addresses, is_open, "vw", now=lambda: NOW)


def request(
    method: str = "GET", *, session: LoginSession | None = ANN, form: Mapping[str, str] | None = None
) -> Request:
    headers = [(b"host", HOST.encode())]
    if session is not None:
        headers.append((b"cookie", f"vw={SIGNER.cookie(session)}".encode()))
    if form is not None:
        headers.append((b"content-type", b"application/x-www-form-urlencoded"))
    scope = {
        "type": "http",
        "method": method,
        "path": "/gates",
        "query_string": b"done=decided",
        "headers": headers,
        "server": ("127.0.0.1", 8092),
        "scheme": "http",
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": urlencode(form or {}).encode(), "more_body": False}

    return Request(scope, receive)


def failing(error: Exception) -> Page:
    async def page(_tools: PageTools, _visit: PageVisit) -> Response:
        raise error

    return page


async def name_of(_tools: PageTools, visit: PageVisit) -> Response:
    return PlainTextResponse(f"{visit.session.name} {visit.session.tenant} {visit.form.get('word', '')}")


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (NotFound("there is no entry 7"), 404, "There is no entry 7."),
        (RequestConflict("ann said yes"), 409, "Ann said yes."),
        (InvocationInvalid("the reason is empty"), 422, "The reason is empty."),
        (HTTPException(413, "the body is larger than 7 bytes"), 413, "The body is larger than 7 bytes."),
        (StoreUnavailable("gone"), 503, "The database does not answer. Try again in a moment."),
        (StoreConflict("both"), 503, "The database does not answer. Try again in a moment."),
        (StoreError("syntax error at SECRET"), 500, "The database rejected this request."),
        (EngineUnavailable("SECRET"), 503, "The engine does not answer. Try again in a moment."),
        (CannotRun("set ZEEBE_ADDRESS"), 503, "Set ZEEBE_ADDRESS."),
        (ValueError("SECRET"), 500, "This page failed with an unexpected error. See the console&#39;s log."),
    ],
)
async def test_every_error_is_a_page_with_one_sentence(error: Exception, status: int, sentence: str) -> None:
    answer = await make_authentication().reading(failing(error))(request())
    text = bytes(answer.body).decode()

    assert (answer.status_code, f'<p id="sentence">{sentence}</p>' in text) == (status, True)
    assert not [word for word in ("SECRET", "Traceback", "syntax") if word in text]


async def test_who_has_no_session_is_sent_to_the_login_with_where_they_wanted_to_go() -> None:
    answer = await make_authentication().reading(name_of)(request(session=None))
    late = await make_authentication().reading(name_of)(
        request(session=LoginSession.of("ann", "t", now=NOW - 60, lasts=60))
    )

    assert [one.headers["location"] for one in (answer, late)] == ["/login?next=%2Fgates%3Fdone%3Ddecided"] * 2


async def test_without_a_login_everybody_has_a_session_for_their_forms() -> None:
    authentication = make_authentication(is_open=True)
    first = await authentication.reading(name_of)(request(session=None))
    cookie = first.headers["set-cookie"].partition("=")[2].partition(";")[0]
    session = SIGNER.session(cookie, now=NOW)
    assert session is not None
    again = await authentication.reading(name_of)(request(session=session))
    sent = await authentication.writing(name_of)(
        request("POST", session=session, form={"csrf": session.csrf, "word": "yes"})
    )
    bare = await authentication.writing(name_of)(request("POST", session=None, form={"csrf": session.csrf}))

    assert session.tenant == "default"
    assert "set-cookie" not in again.headers
    assert (sent.status_code, bytes(sent.body).endswith(b"default yes")) == (200, True)
    assert bare.status_code == 403


@pytest.mark.parametrize(("roles", "status"), [(None, 200), ("reviewer", 200), ("reader", 403)])
async def test_without_a_login_the_roles_are_those_of_the_settings_and_not_of_a_cookie(
    roles: str | None, status: int
) -> None:
    answer = await make_authentication(is_open=True, roles=roles).writing(name_of)(
        request("POST", form={"csrf": ANN.csrf})
    )

    assert answer.status_code == status


async def test_a_form_with_more_fields_than_any_of_ours_is_not_read() -> None:
    many = {f"field-{number}": "x" for number in range(100)}
    with pytest.raises(HTTPException, match="cannot be read") as refused:
        await make_authentication().writing(name_of)(request("POST", form={**many, "csrf": ANN.csrf}))

    assert refused.value.status_code == 400


async def test_while_the_database_is_away_a_session_is_neither_known_nor_over() -> None:
    authentication = make_authentication(is_away=True)
    page = await authentication.reading(name_of)(request())
    form = await authentication.writing(name_of)(request("POST", form={"csrf": ANN.csrf}))

    assert [(answer.status_code, answer.headers["retry-after"]) for answer in (page, form)] == [(503, "5")] * 2
