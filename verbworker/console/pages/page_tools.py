"""What pages are built with, and the request each of them answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from verbworker.client.client import Client
from verbworker.client.records import GateRecord
from verbworker.console.access.session import LoginSession
from verbworker.console.live_updates import LiveUpdates
from verbworker.console.pages.model_pictures import ModelPictures
from verbworker.console.pages.rendering import Rendering
from verbworker.console.pages.verb_list import ListedVerb
from verbworker.console.settings import ConsoleSettings
from verbworker.contract.text import LONGEST_REASON
from verbworker.errors import InvocationInvalid
from verbworker.stores.cases.overview import Overview
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates
from verbworker.work.gates.gate_rules import GateAccess, GateRules

DONE: Mapping[str, str] = {
    "decided": "Your decision is stored. The case continues.",
    "claimed": "You claimed this task. Nobody else can decide it until it is released.",
    "claimed-later": "You claimed this task. The engine's task list does not have that yet; it is sent again.",
    "assigned": "The task is passed on.",
    "released": "You released this task.",
    "released-later": "You released this task. The engine's task list does not have that yet; it is sent again.",
    "cancelled": "Cancellation is requested. Completed steps are not undone.",
    "redelivered": "The message is being redelivered.",
    "discarded": "The message is discarded.",
}


@dataclass(frozen=True, slots=True)
class PageTools:
    """What every page is built with."""

    client: Client
    database: Database
    overview: Overview
    rendering: Rendering
    updates: LiveUpdates
    settings: ConsoleSettings
    tenant: str
    catalogue: Callable[[], list[ListedVerb] | None]
    rules: GateRules
    gates: Gates
    models: ModelPictures

    def sees_jobs_without_entry(self, session: LoginSession) -> bool:
        """Return whether a session may see jobs that belong to no entry: only the operator's own tenant may."""
        return session.tenant == self.tenant


@dataclass(frozen=True, slots=True)
class PageVisit:
    """One request of an authenticated user."""

    request: Request
    session: LoginSession
    form: Mapping[str, str] = field(default_factory=dict)

    def query_value(self, name: str, longest: int = 200) -> str:
        """Return a query parameter, without characters that the database cannot store."""
        return _plain(self.request.query_params.get(name, ""))[:longest].strip()

    def form_field(self, name: str) -> str:
        """Return a field of the form, or an empty string."""
        return _plain(self.form.get(name, "")).strip()

    def require(self, name: str, words: str) -> str:
        """Return a field that must be filled in; `InvocationInvalid` names a missing one."""
        text = self.form_field(name)
        if not text:
            raise InvocationInvalid(f"{words} is empty")
        if len(text) > LONGEST_REASON:
            raise InvocationInvalid(f"{words} is longer than {LONGEST_REASON} characters")
        return text

    def notice(self) -> str:
        """Return what the last form did, if the query contains one of our own keywords."""
        return DONE.get(self.query_value("done"), "")

    def client(self, tools: PageTools) -> Client:
        """Return the client that acts for this user."""
        return tools.client.act_for(self.session.person, tenant=self.session.tenant)

    async def access(self, tools: PageTools, gates: Sequence[GateRecord]) -> dict[UUID, GateAccess]:
        """Return what this user may do at each of these gates."""
        return await tools.rules.access(self.session.tenant, gates, self.session.person)

    def page(self, tools: PageTools, name: str, **values: Any) -> HTMLResponse:
        """Render a page for this user."""
        return tools.rendering.page(name, self.session, done=self.notice(), **values)


def see_other(path: str) -> RedirectResponse:
    """Redirect after a form, so that reloading the page does not send the form again."""
    return RedirectResponse(path, 303)


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter != "\x00" and not "\ud800" <= letter <= "\udfff")
