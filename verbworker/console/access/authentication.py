"""Authentication for the console: sessions, form checks, and error pages."""

import getpass
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from verbworker.console.access.headers import Addresses
from verbworker.console.access.session import LoginSession, Signer, fits
from verbworker.console.access.session_store import SessionStore
from verbworker.console.pages.page_tools import PageTools, PageVisit
from verbworker.contract.person import Person
from verbworker.errors import (
    CannotRun,
    EngineError,
    NotAllowed,
    NotFound,
    Refused,
    RequestConflict,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    VerbworkerError,
)
from verbworker.http.answers import RETRY_SOON, content_type
from verbworker.http.body import read_body
from verbworker.stores.access.tenancy import serve_tenant

_log = logging.getLogger(__name__)

Page = Callable[[PageTools, PageVisit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]

FORM: Final = "application/x-www-form-urlencoded"
TOKEN: Final = "csrf"
_MOST_FIELDS = 40  # our largest form has up to twenty inputs of a decision, and fewer than ten others
OLD_FORM: Final = "This form has expired. Go back, reload the page and send it again."
BUG: Final = "This page failed with an unexpected error. See the console's log."

NO_DATABASE: Final = "The database does not answer. Try again in a moment."
# The first that fits; without words of ours, the error's own are shown.
_ERRORS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (NotFound, 404, ""),
    (NotAllowed, 403, ""),
    (RequestConflict, 409, ""),
    (Refused, 422, ""),
    (CannotRun, 503, ""),
    (StoreUnavailable, 503, NO_DATABASE),
    (StoreConflict, 503, NO_DATABASE),
    (EngineError, 503, "The engine does not answer. Try again in a moment."),
    (StoreError, 500, "The database rejected this request."),
    (VerbworkerError, 500, BUG),
)


@dataclass(frozen=True, slots=True)
class Authentication:
    """Admits logged-in users. Where no login is needed, every visitor still gets a session, for the form token."""

    tools: PageTools
    signer: Signer
    sessions: SessionStore
    addresses: Addresses
    is_open: bool
    cookie: str
    now: Callable[[], float] = time.time

    def reading(self, page: Page) -> Endpoint:
        """Wrap a read-only page."""

        async def endpoint(request: Request) -> Response:
            try:
                session = await self.session(request)
            except VerbworkerError as error:
                return self._error(error, None)
            if session is None:
                return self._to_login(request)
            return await self._serve(page, PageVisit(request, session))

        return endpoint

    def writing(self, page: Page) -> Endpoint:
        """Wrap a form that changes something: only from our own pages, only with the session's token."""

        async def endpoint(request: Request) -> Response:
            form = await self.form(request)
            try:
                session = await self.session(request)
            except VerbworkerError as error:
                return self._error(error, None)
            if session is None:
                return self.refusal(401, "You are logged out. Log in and send the form again.", None)
            if not fits(session, form.get(TOKEN)):
                return self.refusal(403, OLD_FORM, session)
            if not session.person.may_change:
                return self.refusal(403, f"{session.name} may only look: a change needs another role", session)
            return await self._serve(page, PageVisit(request, session, form))

        return endpoint

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that came from one of our own pages; raises `HTTPException` for any other."""
        if not self.addresses.may_post(request.headers):
            raise HTTPException(403, "This form was sent from another site and is not accepted.")
        if content_type(request) != FORM:
            raise HTTPException(415, "Only forms of this console are accepted.")
        body = await read_body(request, self.tools.settings.body_limit)
        try:
            return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            raise HTTPException(400, "This form cannot be read.") from None

    async def session(self, request: Request) -> LoginSession | None:
        """Return the session of a request; raises `StoreError` while the database is away."""
        cookie = request.cookies.get(self.cookie)
        if not self.is_open:
            stored = await self.sessions.find(cookie, is_active=_is_by_hand(request))
            if stored is not None:
                serve_tenant(stored.tenant)
            return stored
        found = self.signer.session(cookie, now=self.now())
        session = found or LoginSession.of(local_user(), self.tools.tenant, now=self.now(), lasts=self.lasts)
        serve_tenant(session.tenant)
        # The roles are those of the settings: a cookie must not keep older ones.
        return replace(session, person=Person(session.name, self.tools.client.person.roles))

    @property
    def lasts(self) -> float:
        """How long a login lasts, in seconds."""
        return self.tools.settings.session.total_seconds()

    async def begin(self, response: Response, person: Person, tenant: str, credential: bytes) -> None:
        """Begin a session and give the browser its cookie."""
        self.put(response, self.cookie, await self.sessions.begin(person, tenant, credential), self.lasts)

    async def end(self, session: LoginSession) -> None:
        """End a session, with the streams of its pages."""
        await self.sessions.end(session)
        self.tools.updates.end_sessions({session.key})

    def put(self, response: Response, name: str, value: str, lasts: float) -> None:
        """Set a signed cookie, out of reach of scripts and other sites."""
        response.set_cookie(
            name,
            value,
            max_age=round(lasts),
            path="/",
            secure=self.addresses.is_secure,
            httponly=True,
            samesite="lax",
        )

    def drop(self, response: Response, name: str) -> None:
        """Delete a cookie."""
        response.delete_cookie(name, path="/", secure=self.addresses.is_secure, httponly=True, samesite="lax")

    def refusal(self, status: int, sentence: str, session: LoginSession | None) -> Response:
        """Render an error page with one sentence."""
        response = self.tools.rendering.page(
            "refusal", session, status=status, code=status, sentence=_sentence(sentence)
        )
        if status == 503:
            response.headers.update(RETRY_SOON)
        return response

    async def _serve(self, page: Page, visit: PageVisit) -> Response:
        response = await self._respond(page, visit)
        if self.is_open and self.signer.session(visit.request.cookies.get(self.cookie), now=self.now()) is None:
            self.put(response, self.cookie, self.signer.cookie(visit.session), self.lasts)
        return response

    async def _respond(self, page: Page, visit: PageVisit) -> Response:
        session = visit.session
        try:
            return await page(self.tools, visit)
        except HTTPException as error:
            return self.refusal(error.status_code, error.detail, session)
        except VerbworkerError as error:
            return self._error(error, session)
        except Exception:
            _log.exception("page failed with an unexpected error")
            return self.refusal(500, BUG, session)

    def _error(self, error: VerbworkerError, session: LoginSession | None) -> Response:
        status, sentence = next((code, words) for kind, code, words in _ERRORS if isinstance(error, kind))
        if sentence:
            _log.warning("page not rendered", extra={"error": type(error).__name__, "reason": str(error)})
        return self.refusal(status, sentence or str(error), session)

    def _to_login(self, request: Request) -> Response:
        if request.headers.get("accept", "").startswith("text/event-stream"):
            return self.refusal(401, "You are logged out.", None)
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(here, safe='')}", 303)


def _is_by_hand(request: Request) -> bool:
    """Return whether a person opened a page or sent a form, as far as browsers tell: scripts reload pages too."""
    return request.headers.get("sec-fetch-mode", "navigate") == "navigate"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def local_user() -> str:
    """Return the name of the user who runs the console."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "local user"
