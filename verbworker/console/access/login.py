"""Login and logout, by API key or at an OpenID issuer."""

import logging
import math
import re
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from verbworker.console.access.authentication import OLD_FORM, Authentication
from verbworker.console.access.oidc import Attempt, OidcClient
from verbworker.console.access.session import LoginSession, fits
from verbworker.console.pages.page_tools import see_other
from verbworker.console.settings import Logins
from verbworker.contract.person import Person
from verbworker.http.keys import holder_of
from verbworker.http.oidc import IssuerError
from verbworker.http.rate import GuessBrake
from verbworker.stores.cases.people import KEYS, People

_log = logging.getLogger(__name__)

_OURS: Final = re.compile(r"/(?![/\\])[A-Za-z0-9_/?=&.,:%~+-]*")
_ATTEMPT_S: Final = 600.0  # time to find a password and a second factor


class Login:
    """The pages for people who are not logged in yet."""

    def __init__(self, auth: Authentication, logins: Logins, client: OidcClient | None) -> None:
        self._auth = auth
        self._keys = [(bytes.fromhex(key.sha256), key) for key in logins.api_keys]
        self._client = client
        self._people = People(auth.tools.database)
        self._brake = GuessBrake(auth.tools.settings.proxies)
        self._attempt_cookie = f"{auth.cookie}_login"

    async def page(self, request: Request) -> Response:
        """Render the login page."""
        return self._page(_next(request.query_params.get("next", "")))

    async def by_key(self, request: Request) -> Response:
        """Log in by API key. Wrong keys are rate-limited; a right one always works."""
        form = await self._auth.form(request)
        key = holder_of(form.get("key", ""), self._keys)
        if key is None:
            if (seconds := self._brake.note_failure(request)) > 0:
                refusal = self._auth.refusal(429, "Too many login attempts. Try again in a moment.", None)
                refusal.headers["Retry-After"] = str(math.ceil(seconds))
                return refusal
            _log.warning("login refused: unknown key", extra={"client": self._brake.client_of(request)})
            return self._page(_next(form.get("next", "")), "This key is not valid.", status=401)
        if key.roles is not None:
            # The engine's task list names people only: what their roles are is looked up there by name.
            await self._people.note(key.tenant, Person(key.name, key.roles, KEYS, key.name))
        return self._logged_in(Person(key.name, key.roles), key.tenant, _next(form.get("next", "")))

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
        await self._people.note(found.tenant, found.person)
        response = self._logged_in(found.person, found.tenant, kept["to"])
        auth.drop(response, self._attempt_cookie)
        return response

    async def out(self, request: Request) -> Response:
        """Log out."""
        auth = self._auth
        session, form = auth.session(request), await auth.form(request)
        if session is not None and not fits(session, form.get("csrf")):
            return auth.refusal(403, OLD_FORM, session)
        response = see_other("/login")
        auth.drop(response, auth.cookie)
        return response

    def _logged_in(self, person: Person, tenant: str, to: str) -> Response:
        auth = self._auth
        _log.info("logged in", extra={"who": person.name, "tenant": tenant})
        response = see_other(to)
        auth.remember(response, LoginSession.of(person, tenant, now=auth.now(), lasts=auth.lasts))
        return response

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
            has_keys=bool(self._keys),
            has_issuer=self._client is not None,
        )


def _next(path: str) -> str:
    """Return where to go after login: one of our own pages, even if the query names another site."""
    return path if len(path) < 1000 and _OURS.fullmatch(path) and not path.startswith("/login") else "/"
