"""The address of the database: how to show it, its parameters, and what to do when Postgres refuses."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from verbworker.errors import ContractInvalid

_REACHABLE = "see that the server runs and that the network lets this host through"
# What to do, by SQLSTATE; states that are missing here need no advice.
_ADVICE: Mapping[str, str] = {
    "08000": _REACHABLE,
    "08001": _REACHABLE,
    "08003": _REACHABLE,
    "08004": _REACHABLE,
    "08006": _REACHABLE,
    "25006": "it is a standby, or default_transaction_read_only is on: set VERBWORKER_DSN to the primary, or turn that"
    " setting off for the server, the database and the role",
    "28000": "check the user in VERBWORKER_DSN, and that pg_hba.conf lets it in from this host",
    "28P01": "check user and password in VERBWORKER_DSN",
    "3D000": "create the database, or check its name in VERBWORKER_DSN",
    "42501": "grant it to the role; verbworker doctor names what is missing",
    "53100": "make room on the server's disk",
    "53200": "give the server more memory, or less concurrent work",
    "53300": "raise max_connections or the limit of the role, or lower VERBWORKER_CONTROL_CONNECTIONS,"
    " VERBWORKER_VERB_CONNECTIONS and VERBWORKER_ENGINE_CONNECTIONS, or run fewer workers",
    "57P01": "see why the server was stopped, or who ended this session",
    "57P02": "see the server's log: another of its processes crashed",
    "57P03": "wait until it has started, or stopped, or recovered",
    "58000": "see the server's log and its disk",
    "58030": "see the server's log and its disk",
}


_DEFAULT_TIMEOUT = 10.0  # seconds to connect: longer than a lost packet and TLS take
_LEAST_TIMEOUT = 2.0  # as in libpq
# Parameters of libpq that asyncpg does not have, with the values that ask for nothing.
_ASKS_NOTHING = {
    **dict.fromkeys(("channel_binding", "gssencmode"), ("prefer", "disable")),
    "client_encoding": ("utf8", "utf-8", "UTF8", "UTF-8", "auto"),
    "sslcompression": ("0",),
}
_UNSUPPORTED = frozenset(
    (
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "hostaddr"),
        *("sslsni", "sslcrldir", "sslcertmode", "sslkeylogfile", "requiressl", "requirepeer", "require_auth"),
        *("gssdelegation", "load_balance_hosts", "replication", "min_protocol_version", "max_protocol_version"),
        *("tty", "scram_client_key", "scram_server_key", "oauth_issuer", "oauth_client_id"),
    )
)


def is_wrong(error: BaseException) -> bool:
    """Return whether a connection failed because of its address or login, and not because the server is away."""
    if isinstance(
        error, ValueError | OverflowError
    ):  # an address that cannot be used, a certificate that is not trusted
        return True
    # Connections that are lost or refused, a server that starts or stops, a database closed for maintenance.
    # One without room for us needs a person.
    state = getattr(error, "sqlstate", None) or ""
    return not isinstance(error, OSError) and state[:2] not in ("08", "55", "57")


def is_cut(error: BaseException) -> bool:
    """Return whether something that listens closed a connection while it was made: the address is right."""
    return isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)


def advice_for(error: BaseException) -> str | None:
    """Return what to do about an error of Postgres; None without advice."""
    return _ADVICE.get(getattr(error, "sqlstate", None) or "")


def hide_password(dsn: str) -> str | None:
    """Return the address without its password, for display. None when it cannot be parsed."""
    try:
        parts = urlsplit(dsn)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    # A later @ means that the password contains a character that ends the authority part.
    if parts.scheme not in ("postgres", "postgresql") or "@" in parts.path + parts.query + parts.fragment:
        return None
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a database as asyncpg takes it."""

    dsn: str
    timeout: float
    is_named: bool  # it names the application itself


def read_address(dsn: str, *, timeout: float | None = None) -> Address:
    """Translate parameters of libpq in an address; raises `ContractInvalid` for those that cannot be used.

    A `timeout` limits the time to connect beyond what the address says.
    """
    parts = urlsplit(dsn) if hide_password(dsn) is not None else None
    try:
        written = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts and parts.query else []
    except ValueError:
        # Without the text: it may be part of a password.
        raise _refusal("the parameters of the database's address are not written as name=value") from None
    if parts is None or not written:
        return Address(dsn, timeout or _DEFAULT_TIMEOUT, is_named=False)
    given = dict(written)
    seconds = _seconds(given["connect_timeout"]) if "connect_timeout" in given else _DEFAULT_TIMEOUT
    kept = [(name, value) for name, value in written if _is_for_driver(name, value)]
    if len(kept) < len(written):
        dsn = urlunsplit(parts._replace(query=urlencode(kept, quote_via=quote)))
    return Address(dsn, seconds if timeout is None else min(seconds, timeout), "application_name" in given)


def _is_for_driver(name: str, value: str) -> bool:
    if name in ("connect_timeout", "fallback_application_name"):
        return False  # the first is an argument of asyncpg's; we have a name of our own
    if value in _ASKS_NOTHING.get(name, ()):
        return False
    if name in _ASKS_NOTHING:
        raise _refusal(f"the parameter {name}={value} of the database's address is not supported")
    if name in _UNSUPPORTED:
        raise _refusal(f"the parameter {name} of the database's address is not supported")
    return True


def _seconds(text: str) -> float:
    if not text.isascii() or not text.removeprefix("-").isdecimal():
        raise _refusal("connect_timeout of the database's address is a number of seconds")
    return max(float(text), _LEAST_TIMEOUT) if float(text) > 0 else _DEFAULT_TIMEOUT


def _refusal(what: str) -> ContractInvalid:
    return ContractInvalid(f"{what}; fix VERBWORKER_DSN")
