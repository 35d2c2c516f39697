"""The address of the database: how to show it, and what to do when Postgres refuses."""

from collections.abc import Mapping
from urllib.parse import urlsplit

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


def is_wrong(error: BaseException) -> bool:
    """Return whether a connection failed because of its address or login, and not because the server is away."""
    if isinstance(
        error, ValueError | OverflowError
    ):  # an address that cannot be used, a certificate that is not trusted
        return True
    # Connections that are lost or refused, and a server that starts or stops. One without room for us needs a person.
    state = getattr(error, "sqlstate", None) or ""
    return not isinstance(error, OSError) and state[:2] not in ("08", "57")


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
