"""The settings of the console: where it listens, who may log in, and which payload fields it may show."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from verbworker.app.api_keys import ApiKey, Role
from verbworker.app.settings import Seconds
from verbworker.contract.message import Tenant, Word
from verbworker.errors import ContractInvalid
from verbworker.http.address import is_loopback
from verbworker.http.environment import without_blanks
from verbworker.http.settings import STRICT, Proxies, read_credentials, read_settings, require_unique

_SHORTEST_SECRET = 32  # characters; shorter ones can be guessed


def _fields(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('write it as JSON: {"kyc.open-case": ["entity"]}') from None


Fields = Annotated[dict[str, tuple[str, ...]], NoDecode, BeforeValidator(_fields)]


class OidcLogin(BaseModel):
    """An issuer where people log in; the tenant is one of their claims, or the same for all.

    Without `roles_claim` no roles are declared; with it, a person without the claim has none. Others than
    those of `roles` do not count, if it is set.
    """

    model_config = STRICT

    issuer: Word
    client_id: Word
    client_secret: SecretStr | None = None
    tenant_claim: Word = "tenant_id"
    tenant: Tenant | None = None
    name_claim: Word = "preferred_username"
    roles_claim: Word | None = None
    roles: frozenset[Role] = frozenset()
    scopes: Word = "openid profile email"


class Logins(BaseModel):
    """The configured ways to log in."""

    model_config = STRICT

    api_keys: tuple[ApiKey, ...] = ()
    oidc: OidcLogin | None = None

    def __bool__(self) -> bool:
        return bool(self.api_keys or self.oidc)


class ConsoleSettings(BaseSettings):
    """The console settings, in addition to those of every command. Durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="VERBWORKER_CONSOLE_", extra="forbid", hide_input_in_errors=True, frozen=True
    )

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8092, ge=0, le=65535, description="port; 0 picks a free one")
    public_url: str | None = Field(default=None, description="address that people type, if it differs")
    credentials: SecretStr | None = Field(default=None, description="logins, as JSON")
    credentials_file: Path | None = Field(default=None, description="file with the same JSON")
    secret: SecretStr | None = Field(
        default=None, description="key that signs cookies of sessions (default: a new one at each start)"
    )
    session: Seconds = Field(default=timedelta(hours=8), gt=timedelta(0), description="how long a login lasts at most")
    session_idle: Seconds = Field(
        default=timedelta(hours=1), gt=timedelta(0), description="how long a login lasts while its user does nothing"
    )
    fields: Fields = Field(default={}, description="payload fields to show, by verb or schema, as JSON")
    body_limit: int = Field(default=65536, ge=1024, le=1_048_576, description="largest form, in bytes")
    streams: int = Field(default=200, ge=1, le=400, description="how many pages may have live updates")
    drain: Seconds = Field(default=timedelta(seconds=10), description="how long running requests may take at shutdown")
    tls_certificate: Path | None = Field(default=None, description="TLS certificate, if no proxy adds TLS")
    tls_key: Path | None = Field(default=None, description="key of the certificate")
    proxies: Proxies = Field(
        default=(), description="addresses or networks of proxies, whose connections are not limited"
    )
    probe_port: int | None = Field(default=None, ge=0, le=65535, description="another port for /live and /ready alone")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, without_blanks(env_settings, ("VERBWORKER_CONSOLE_SECRET",))

    def logins(self) -> Logins:
        """Return the configured logins; empty if none are set."""
        found = read_credentials(Logins, self.credentials, self.credentials_file, "console")
        require_unique([key.name for key in found.api_keys], "console")
        return found

    def signing_key(self) -> bytes | None:
        """Return the key that signs sessions, or None if it is not set."""
        if self.secret is None:
            return None
        key = self.secret.get_secret_value().encode()
        if len(key) < _SHORTEST_SECRET:
            raise ContractInvalid(f"VERBWORKER_CONSOLE_SECRET is shorter than {_SHORTEST_SECRET} characters")
        return key

    def visible_fields(self, verb: str, schema: str | None) -> tuple[str, ...]:
        """Return the payload fields that may be shown for a case of this verb and schema."""
        return (*self.fields.get(verb, ()), *(self.fields.get(schema, ()) if schema else ()))

    def require_safe(self, logins: Logins, *, is_open: bool) -> None:
        """Raise `ContractInvalid` if strangers could use the console."""
        if is_open and not is_loopback(self.host):
            raise ContractInvalid("a console without login may only listen on this machine: use 127.0.0.1")
        if not is_open and not logins:
            raise ContractInvalid(
                "no logins are configured: set VERBWORKER_CONSOLE_CREDENTIALS_FILE (only verbworker dev needs no login)"
            )
        if self.public_url is None:
            if not is_loopback(self.host):
                raise ContractInvalid(
                    f"the console listens on {self.host}: set VERBWORKER_CONSOLE_PUBLIC_URL to the address people type"
                )
            return
        parts = urlsplit(self.public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ContractInvalid("VERBWORKER_CONSOLE_PUBLIC_URL: write https://host or https://host:port")


def load(**overrides: object) -> ConsoleSettings:
    """Read the settings; the command line wins over the environment."""
    return read_settings(ConsoleSettings, overrides)


def pick(data: Mapping[str, object], paths: tuple[str, ...]) -> dict[str, object]:
    """Return the fields at the given dotted paths, if present; nothing else of the payload is returned."""
    found: dict[str, object] = {}
    for path in paths:
        value: object = data
        for step in path.split("."):
            if not isinstance(value, Mapping) or step not in value:
                break
            value = value[step]
        else:
            found[path] = value
    return found
