"""Connection settings of a Zeebe gateway, read from the Camunda clients' environment variables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

from verbworker.errors import ContractInvalid
from verbworker.http.address import is_loopback

DEFAULT_ADDRESS: Final = "localhost:26500"
SAAS_TOKEN_URL: Final = "https://login.cloud.camunda.io/oauth/token"
SAAS_AUDIENCE: Final = "zeebe.camunda.io"
MIB: Final = 1024 * 1024

Choice = Literal["auto", "grpc", "rest"]
"""How commands and jobs travel; `auto` is gRPC, or REST where gRPC is switched off."""

ALLOW_PLAINTEXT: Final = "ZEEBE_ALLOW_PLAINTEXT"

_GRPC_NAMES: Final = ("CAMUNDA_GRPC_ADDRESS", "ZEEBE_GRPC_ADDRESS", "ZEEBE_ADDRESS")
_REST_NAMES: Final = ("CAMUNDA_REST_ADDRESS", "ZEEBE_REST_ADDRESS")
_TOKEN_NAMES: Final = ("CAMUNDA_OAUTH_URL", "CAMUNDA_AUTHORIZATION_SERVER_URL", "ZEEBE_AUTHORIZATION_SERVER_URL")
_PLAIN: Final = ("http", "grpc")
_SECURE: Final = ("https", "grpcs")


@dataclass(frozen=True, slots=True)
class OAuth:
    """Client credentials that a token server exchanges for a bearer token."""

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str
    audience: str | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Basic:
    """A user name and a password, sent with every call."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings: the trusted CA, and the client certificate if the server requires one."""

    ca: Path | None = None  # the system's CAs if not given
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """A gateway's address and connection settings; everything but the secrets has a default."""

    address: str = DEFAULT_ADDRESS
    rest_url: str | None = None  # http(s)://host:port, with a path if a proxy adds one
    transport: Choice = "auto"
    tls: Tls | None = None
    credentials: OAuth | Basic | None = None
    tenant_ids: tuple[str, ...] = ()  # the first is used to deploy, start and publish
    max_message_bytes: int = 4 * MIB
    call_timeout_s: float = 10.0
    # A suspended process keeps its streams, and the gateway pushes jobs into them: short lifetimes limit that.
    stream_lifetime_s: float = 10.0

    @property
    def tenant_id(self) -> str:
        """The tenant of commands without one; empty for a cluster without multi-tenancy."""
        return self.tenant_ids[0] if self.tenant_ids else ""

    def addresses(self) -> list[str]:
        """Return host:port of each API in use."""
        if self.rest_url is None:
            return [self.address]
        parts = urlsplit(self.rest_url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        rest = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        return [rest] if self.transport == "rest" else [self.address, rest]

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the variables that Camunda's own clients read; `ContractInvalid` names the wrong one."""
        given = _Variables(env)
        scheme, address = _address(given)
        credentials = _credentials(given)
        tls = _tls(given, scheme, address, credentials)
        rest_url, transport = _rest_url(given, is_secure=tls is not None), _transport(given)
        if credentials is not None and not given.says_yes(ALLOW_PLAINTEXT):
            _require_tls(given, address if tls is None and transport != "rest" else None, rest_url, credentials)
        return cls(
            address=address,
            rest_url=rest_url,
            transport=transport,
            tls=tls,
            credentials=credentials,
            tenant_ids=_tenants(given),
            max_message_bytes=_size(given, 4 * MIB),
        )


class _Variables:
    """The environment with aliases: the first name with a value wins, blanks count as absent."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def first(self, *names: str) -> str | None:
        return next((value for name in names if (value := self._env.get(name, "").strip())), None)

    def name(self, *names: str) -> str:
        """Return the name with a value; without one the cluster's if that is given, else the last of `names`."""
        others = ("CAMUNDA_CLUSTER_ID",) if self.first("CAMUNDA_CLUSTER_ID") else names[-1:]
        return next((name for name in names if self.first(name)), others[0])

    def path(self, *names: str) -> Path | None:
        text = self.first(*names)
        return Path(text) if text else None

    def says_yes(self, name: str) -> bool:
        return (self.first(name) or "").lower() in ("true", "1", "yes", "on")


def _address(given: _Variables) -> tuple[str, str]:
    text = given.first(*_GRPC_NAMES)
    cluster = given.first("CAMUNDA_CLUSTER_ID")
    if text is None and cluster is not None:
        region = given.first("CAMUNDA_CLUSTER_REGION") or "bru-2"
        return "https", f"{cluster}.{region}.zeebe.camunda.io:443"
    with _at_variable(given.name(*_GRPC_NAMES)):
        return parse_address(text or DEFAULT_ADDRESS)


def address_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that say where the gateway is; raises `ContractInvalid` for a wrong transport."""
    given = _Variables(env)
    grpc, rest = given.name(*_GRPC_NAMES), given.name(*_REST_NAMES)
    match _transport(given):
        case "rest":
            return (rest,)
        case "auto" if given.first(*_REST_NAMES) is not None:
            return grpc, rest
        case _:
            return (grpc,)


@contextmanager
def _at_variable(name: str) -> Iterator[None]:
    """Append the variable that is written wrongly to the sentence."""
    try:
        yield
    except ContractInvalid as error:
        raise ContractInvalid(f"{error}; check {name}") from error


def parse_address(text: str) -> tuple[str, str]:
    """Split `[scheme://]host[:port]` into its scheme, empty if absent, and `host:port`."""
    parts = _split(text if "://" in text else f"//{text}", "the Zeebe address")
    if parts.scheme not in ("", *_PLAIN, *_SECURE):
        raise ContractInvalid(
            "the Zeebe address must start with http:// or grpc:// for a plain channel,"
            " with https:// or grpcs:// for TLS, or with the host"
        )
    if parts.username is not None or parts.path.strip("/") or parts.query or not parts.hostname:
        raise ContractInvalid("the Zeebe address must be host:port or scheme://host:port and nothing else")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, f"{host}:{parts.port or (443 if parts.scheme in _SECURE else 26500)}"


def _rest_url(given: _Variables, *, is_secure: bool) -> str | None:
    text = given.first(*_REST_NAMES)
    cluster = given.first("CAMUNDA_CLUSTER_ID")
    if text is None and cluster is not None:
        return f"https://{given.first('CAMUNDA_CLUSTER_REGION') or 'bru-2'}.zeebe.camunda.io/{cluster}"
    if text is None:
        return None
    with _at_variable(given.name(*_REST_NAMES)):
        return _parse_rest_url(text, "https" if is_secure else "http")


def _parse_rest_url(text: str, scheme: str) -> str:
    parts = _split(text if "://" in text else f"{scheme}://{text}", "the REST address")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ContractInvalid("the REST address must be host:port, or start with http:// or https:// and name a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ContractInvalid("the REST address must hold no user, password or query")
    return parts.geturl().rstrip("/").removesuffix("/v2")


def _transport(given: _Variables) -> Choice:
    names = "CAMUNDA_TRANSPORT", "ZEEBE_TRANSPORT"
    match (given.first(*names) or "auto").lower():
        case "auto" | "grpc" | "rest" as choice:
            return choice
    raise ContractInvalid(f"{given.name(*names)} must be auto, grpc or rest")


def _split(url: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed, and rejected, only on access
    except ValueError as error:
        # Without the cause's text: it repeats what may hold a password.
        raise ContractInvalid(f"{what} is not written like a URL: check its host and port") from error
    return parts


def _tls(given: _Variables, scheme: str, address: str, credentials: object) -> Tls | None:
    tls = Tls(
        ca=given.path("CAMUNDA_CA_CERTIFICATE_PATH", "ZEEBE_CA_CERTIFICATE_PATH", "CAMUNDA_MTLS_CA_PATH"),
        certificate=given.path("CAMUNDA_MTLS_CERT_PATH"),
        key=given.path("CAMUNDA_MTLS_KEY_PATH"),
    )
    if (tls.certificate is None) != (tls.key is None):
        raise ContractInvalid("CAMUNDA_MTLS_CERT_PATH and CAMUNDA_MTLS_KEY_PATH are only useful together")
    if scheme:
        return tls if scheme in _SECURE else None
    if given.says_yes("ZEEBE_INSECURE_CONNECTION"):
        return None
    # Without a scheme, plain was not requested, so secrets are not sent unencrypted.
    meant = tls != Tls() or credentials is not None or address.endswith(":443")
    return tls if meant else None


def _credentials(given: _Variables) -> OAuth | Basic | None:
    strategy = (given.first("CAMUNDA_AUTH_STRATEGY") or "").upper()
    client = given.first("CAMUNDA_CLIENT_ID", "ZEEBE_CLIENT_ID")
    user = given.first("CAMUNDA_BASIC_AUTH_USERNAME")
    match strategy:
        case "NONE":
            return None
        case "OAUTH":
            return _oauth(given)
        case "BASIC":
            return _basic(given)
        case "" if client and user:
            raise ContractInvalid(
                "both a client id and a Basic user name are set: choose by CAMUNDA_AUTH_STRATEGY=OAUTH or BASIC"
            )
        case "" if client:
            return _oauth(given)
        case "" if user:
            return _basic(given)
        case "":
            return None
    raise ContractInvalid("CAMUNDA_AUTH_STRATEGY must be NONE, OAUTH or BASIC")


def _require_tls(
    given: "_Variables", plain_address: str | None, rest_url: str | None, credentials: OAuth | Basic
) -> None:
    """Raise `ContractInvalid` if a password, secret or token would be sent unencrypted to another host."""
    places = {
        "the Zeebe address": (None if plain_address is None else f"http://{plain_address}", _GRPC_NAMES),
        "the REST address": (rest_url, _REST_NAMES),
        "the token URL": (credentials.token_url if isinstance(credentials, OAuth) else None, _TOKEN_NAMES),
    }
    for name, (url, variables) in places.items():
        parts = urlsplit(url or "")
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ContractInvalid(
                f"{name} is not encrypted, and credentials would be sent to {parts.hostname}: write https:// in"
                f" {given.name(*variables)}, or set {ALLOW_PLAINTEXT}=true if the network in between is trusted"
            )


def _oauth(given: _Variables) -> OAuth:
    saas = given.first("CAMUNDA_CLUSTER_ID") is not None
    client_id = given.first("CAMUNDA_CLIENT_ID", "ZEEBE_CLIENT_ID")
    secret = given.first("CAMUNDA_CLIENT_SECRET", "ZEEBE_CLIENT_SECRET")
    url = given.first(*_TOKEN_NAMES) or (SAAS_TOKEN_URL if saas else None)
    if client_id is None:
        raise ContractInvalid("OAuth needs a client id: set CAMUNDA_CLIENT_ID")
    if secret is None:
        raise ContractInvalid("a client id is set but no secret: set CAMUNDA_CLIENT_SECRET")
    if url is None:
        raise ContractInvalid("a client id is set but no token server: set CAMUNDA_OAUTH_URL")
    with _at_variable(given.name(*_TOKEN_NAMES)):
        parts = _split(url, "the token URL")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ContractInvalid("the token URL must start with https:// or http:// and name a host")
    return OAuth(
        client_id=client_id,
        client_secret=secret,
        token_url=url,
        audience=given.first("CAMUNDA_TOKEN_AUDIENCE", "ZEEBE_TOKEN_AUDIENCE") or (SAAS_AUDIENCE if saas else None),
        scope=given.first("CAMUNDA_TOKEN_SCOPE", "ZEEBE_TOKEN_SCOPE"),
    )


def _basic(given: _Variables) -> Basic:
    username = given.first("CAMUNDA_BASIC_AUTH_USERNAME")
    password = given.first("CAMUNDA_BASIC_AUTH_PASSWORD")
    if username is None or password is None:
        raise ContractInvalid("Basic needs both CAMUNDA_BASIC_AUTH_USERNAME and CAMUNDA_BASIC_AUTH_PASSWORD")
    if ":" in username:
        raise ContractInvalid("a Basic user name cannot contain a colon")
    return Basic(username, password)


def _tenants(given: _Variables) -> tuple[str, ...]:
    default = given.first("CAMUNDA_TENANT_ID", "CAMUNDA_DEFAULT_TENANT_ID", "ZEEBE_DEFAULT_TENANT_ID")
    listed = given.first("CAMUNDA_TENANT_IDS", "CAMUNDA_DEFAULT_JOB_WORKER_TENANT_IDS") or ""
    names = [default or "", *listed.split(",")]
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _size(given: _Variables, default: int) -> int:
    text = given.first("ZEEBE_MAX_MESSAGE_SIZE")
    if text is None:
        return default
    digits, unit = text.upper().removesuffix("B").strip(), 1
    for letter, factor in (("K", 1024), ("M", MIB)):
        if digits.endswith(letter):
            digits, unit = digits[:-1].strip(), factor
    if not digits.isdecimal() or int(digits) == 0:
        raise ContractInvalid("ZEEBE_MAX_MESSAGE_SIZE must be a size such as 4MB or 4194304")
    return int(digits) * unit
