"""The console server: builds the application, listens, and ends every stream before it shuts down."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial

from verbworker.app.selfcheck import open_with_database
from verbworker.app.settings import Settings
from verbworker.background.poll_loop import running
from verbworker.client.client import Client
from verbworker.client.resources import Resources
from verbworker.console.access.authentication import Authentication
from verbworker.console.access.headers import Addresses
from verbworker.console.access.key_roles import KeyRoles
from verbworker.console.access.live_logins import LiveLogins
from verbworker.console.access.login import Login
from verbworker.console.access.oidc import OidcClient
from verbworker.console.access.session import Signer
from verbworker.console.access.session_store import SessionStore
from verbworker.console.api import Api
from verbworker.console.live_updates import LiveUpdates
from verbworker.console.pages.model_pictures import ModelPictures
from verbworker.console.pages.page_tools import PageTools
from verbworker.console.pages.rendering import Rendering
from verbworker.console.pages.verb_list import ListedVerb
from verbworker.console.routes import application
from verbworker.console.settings import ConsoleSettings, Logins
from verbworker.http.answers import probe_routes
from verbworker.http.live_credentials import LiveCredentials
from verbworker.http.rate import GuessBrake
from verbworker.http.server import ServerOptions, bind, open_server
from verbworker.http.waiting_server import open_probes, open_waiting_server
from verbworker.job.trace_context import carry_trace
from verbworker.stores.cases.overview import Overview
from verbworker.stores.database import Database
from verbworker.stores.people.console_sessions import ConsoleSessions
from verbworker.stores.people.people import People
from verbworker.work.gates.decide import Gates
from verbworker.work.gates.gate_rules import GateRules

_CONNECTIONS = 6  # one listens; pages are short, so five serve many people
_LONGEST_STATEMENT = "10s"
_BESIDE_STREAMS = 256  # connections that load pages while all streams are open

Catalogue = Callable[[], list[ListedVerb] | None]


async def serve(
    settings: Settings,
    console: ConsoleSettings,
    catalogue: Catalogue,
    stop: asyncio.Event,
    *,
    is_open: bool = False,
    opened: Callable[[str], None],
) -> None:
    """Serve until `stop` is set; `opened` receives the address. With `is_open` no login is needed."""
    live = LiveLogins(LiveCredentials(Logins)) if is_open else LiveLogins.of(console)
    logins = live.logins
    console.require_safe(logins, is_open=is_open)
    key = console.signing_key()
    advice = "choose another with --port or VERBWORKER_CONSOLE_PORT"
    most = console.streams + _BESIDE_STREAMS
    options = ServerOptions(most, console.drain, console.tls_certificate, console.tls_key, proxies=console.proxies)
    probe_port = console.probe_port
    # Cancel slow statements: a page can be reloaded, but the pool is shared.
    limits = {"statement_timeout": _LONGEST_STATEMENT}
    pool = partial(
        Database, settings.database(), size=_CONNECTIONS, settings=limits, name="console", tenant=settings.tenant
    )
    waiting = partial(open_waiting_server, console.host, console.port, options, advice=advice, probe_port=probe_port)
    async with (
        open_with_database(settings.database(), stop, pool, waiting=waiting) as database,
        AsyncExitStack() as stack,
    ):
        if database is None:
            return
        listener = stack.enter_context(closing(bind(console.host, console.port, advice=advice)))
        port = listener.getsockname()[1]
        addresses = Addresses.of(console.host, port, console.public_url, tls=console.tls_certificate is not None)
        # Cookies ignore ports: two consoles on one machine must not use each other's.
        cookie = "__Host-vw_session" if addresses.is_secure else f"vw_session_{port}"
        signer = Signer(key)
        rows = ConsoleSessions(database, absolute=console.session, idle=console.session_idle)
        sessions = SessionStore(signer, rows, live)
        updates = LiveUpdates(database, most=console.streams, living=sessions.filter_valid)
        tools = _tools(settings, console, catalogue, updates, database, is_open=is_open)
        auth = Authentication(tools, signer, sessions, addresses, is_open, cookie)
        client = None
        if logins.oidc is not None:
            client = OidcClient(logins.oidc, f"{addresses.home}/login/back")
        brake = GuessBrake(console.proxies)
        key_roles = KeyRoles(live, People(database))
        app = application(auth, Login(auth, live, client, brake, key_roles), Api(auth, live, brake))
        opened(addresses.home)
        async with (
            open_probes(console.host, probe_port, probe_routes(database.ping)),
            running([*tools.updates.services, key_roles.service], stop),
            open_server(carry_trace(app), listener, options),
        ):
            await stop.wait()
            tools.updates.end()


def _tools(
    settings: Settings,
    console: ConsoleSettings,
    catalogue: Catalogue,
    updates: LiveUpdates,
    database: Database,
    *,
    is_open: bool,
) -> PageTools:
    refuse_unknown = settings.unknown_roles == "refuse"
    return PageTools(
        client=Client(settings, resources=Resources(settings, database, AsyncExitStack())),
        database=database,
        overview=Overview(database),
        rendering=Rendering(can_log_out=not is_open),
        updates=updates,
        settings=console,
        tenant=settings.tenant,
        catalogue=catalogue,
        rules=GateRules(database, refuse_unknown=refuse_unknown),
        gates=Gates(database, refuse_unknown=refuse_unknown),
        models=ModelPictures(database),
    )
