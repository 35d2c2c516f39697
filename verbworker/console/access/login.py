"""Login and logout, by API key or at an OpenID issuer."""

import logging
import math
import re
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from verbworker.console.access.authentication import NO_DATABASE, OLD_FORM, Authentication
from verbworker.console.access.key_roles import KeyRoles
from verbworker.console.access.live_logins import LiveLogins, credential_of_key
from verbworker.console.access.oidc import Attempt, OidcClient
from verbworker.console.access.session import fits
from verbworker.console.pages.page_tools import see_other
from verbworker.contract.person import Person
from verbworker.errors import StoreError
from verbworker.http.oidc import IssuerError
from verbworker.http.rate import GuessBrake
from verbworker.stores.access.tenancy import serve_tenant
from verbworker.stores.people.people import People

_log = logging.getLogger(__name__)

_OURS: Final = re.compile(r"/(?![/\\])[A-Za-z0-9_/?=&.,:%~+-]*")
_ATTEMPT_S: Final = 600.0  # time to find a password and a second factor


class Login:
    """The pages for people who are not logged in yet."""

    def __init__(
        self,
        auth: Authentication,
        logins: LiveLogins,
        client: OidcClient | None,
        brake: GuessBrake,
        key_roles: KeyRoles,
    ) -> None:
        self._auth = auth
        self._logins = logins
        self._client = client
        self._people = People(auth.tools.database)
        self._brake = brake
        self._key_roles = key_roles
        self._attempt_cookie = f"{auth.cookie}_login"

    async def page(self, request: Request) -> Response:
        """Render the login page."""
        return self._page(_next(request.query_params.get("next", "")))

    async def by_key(self, request: Request) -> Response:
        """Log in by API key. Wrong keys are rate-limited; a right one always works."""
        form = await self._auth.form(request)
        key = self._logins.holder(form.get("key", ""))
        if key is None:
            if (seconds := self._brake.note_failure(request)) > 0:
                refusal = self._auth.refusal(429, "Too many login attempts. Try again in a moment.", None)
                refusal.headers["Retry-After"] = str(math.ceil(seconds))
                return refusal
            _log.warning("login refused: unknown key", extra={"client": self._brake.client_of(request)})
            return self._page(_next(form.get("next", "")), "This key is not valid.", status=401)
        return await self._log_in(
            Person(key.name, key.roles), key.tenant, credential_of_key(key), _next(form.get("next", ""))
        )

    async def to_issuer(self, request: Request) -> Response:
        """Redirect the browser to the issuer, with an attempt that only this browser can finish."""
        auth = self._auth
        if self._client is None:
            return auth.refusal(404, "No login service is configured.", None)
        attempt = Attempt.new()
        try:
            response = RedirectResponse(await self._client.address(attempt), 303)
        except IssuerError as error:
            return self._fail(error, 503)
        kept = {
            "s": attempt.state,
            "n": attempt.nonce,
            "v": attempt.verifier,
            "to": _next(request.query_params.get("next", "")),
            "e": auth.now() + _ATTEMPT_S,
        }
        auth.put(response, self._attempt_cookie, auth.signer.sign("login", kept), _ATTEMPT_S)
        return response

    async def from_issuer(self, request: Request) -> Response:
        """Handle the redirect back, with the code that identifies the user."""
        auth, asked = self._auth, request.query_params
        kept = auth.signer.read("login", request.cookies.get(self._attempt_cookie))
        if self._client is None or kept is None or kept["e"] <= auth.now():
            return auth.refusal(403, "This login has expired or was started in another browser. Log in again.", None)
        attempt = Attempt(kept["s"], kept["n"], kept["v"])
        if not attempt.fits(asked.get("state", "")):
            return auth.refusal(403, "This answer belongs to another login. Log in again.", None)
        if "code" not in asked:
            return auth.refusal(403, "The login service rejected the login.", None)
        try:
            found = await self._client.identify(attempt, asked["code"])
        except IssuerError as error:
            return self._fail(error, 403)
        response = await self._log_in(found.person, found.tenant, self._client.credential, kept["to"])
        auth.drop(response, self._attempt_cookie)
        return response

    async def out(self, request: Request) -> Response:
        """Log out: the session ends, whoever else has its cookie."""
        auth = self._auth
        form = await auth.form(request)
        try:
            session = await auth.session(request)
            if session is not None:
                if not fits(session, form.get("csrf")):
                    return auth.refusal(403, OLD_FORM, session)
                await auth.end(session)
        except StoreError as error:
            return self._unavailable(error)
        response = see_other("/login")
        auth.drop(response, auth.cookie)
        return response

    async def _log_in(self, person: Person, tenant: str, credential: bytes, to: str) -> Response:
        response = see_other(to)
        serve_tenant(tenant)
        try:
            await self._note(person, tenant)
            await self._auth.begin(response, person, tenant, credential)
        except StoreError as error:
            return self._unavailable(error)
        _log.info("logged in", extra={"who": person.name, "tenant": tenant})
        return response

    async def _note(self, person: Person, tenant: str) -> None:
        if person.person_id is None and person.roles is not None:
            # The engine's task list names people only: what the roles of a key are is looked up there by name.
            await self._people.note_key(tenant, person.name, person.roles)
        elif person.person_id is None:
            await self._key_roles.store()
        else:
            await self._people.note(tenant, person)

    def _unavailable(self, error: StoreError) -> Response:
        _log.warning("session not stored", extra={"reason": str(error)})
        return self._auth.refusal(503, NO_DATABASE, None)

    def _fail(self, error: IssuerError, status: int) -> Response:
        _log.warning("login failed", extra={"reason": str(error)})
        return self._auth.refusal(status, str(error), None)

    def _page(self, to: str, trouble: str = "", status: int = 200) -> Response:
        return self._auth.tools.rendering.page(
            "login",
            None,
            status=status,
            to=to,
            trouble=trouble,
            has_keys=self._logins.has_keys,
            has_issuer=self._client is not None,
        )


def _next(path: str) -> str:
    """Return where to go after login: one of our own pages, even if the query names another site."""
    return path if len(path) < 1000 and _OURS.fullmatch(path) and not path.startswith("/login") else "/"
