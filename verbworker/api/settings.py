"""The settings of the ingress: where it listens, its limits, and its credentials."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from verbworker.app.api_keys import ApiKey, Role
from verbworker.app.settings import Seconds
from verbworker.contract.message import LARGEST, Tenant, Word
from verbworker.http.environment import without_blanks
from verbworker.http.settings import STRICT, Proxies, file_to_follow, read_credentials, read_settings, require_unique


class ApiScope(StrEnum):
    """What a credential allows."""

    MESSAGES = "messages"
    READ = "read"
    START = "start"
    DECIDE = "decide"
    CANCEL = "cancel"
    RESOLVE = "resolve"


# A credential that was made for messages must not be able to do more after an upgrade.
_ONLY_MESSAGES = frozenset({ApiScope.MESSAGES})


class ScopedKey(ApiKey):
    """An API key of a sender, and what it allows."""

    scopes: frozenset[ApiScope] = _ONLY_MESSAGES


class Webhook(BaseModel):
    """A sender that signs its messages; several secrets are valid during rotation."""

    model_config = STRICT

    name: Word
    tenant: Tenant
    secrets: Annotated[list[SecretStr], Field(min_length=1)]


class Oidc(BaseModel):
    """A token issuer: its keys as a file or a URL, the claims of tenant and roles, and what its tokens allow.

    Without `roles_claim` no roles are declared; with it, a token without the claim has none. Others than
    those of `roles` do not count, if it is set.
    """

    model_config = STRICT

    issuer: Word
    audience: Word
    jwks: Annotated[str, Field(min_length=1)]
    tenant_claim: Word = "tenant_id"
    roles_claim: Word | None = None
    roles: frozenset[Role] = frozenset()
    scopes: frozenset[ApiScope] = _ONLY_MESSAGES


class Credentials(BaseModel):
    """All credentials that the ingress accepts."""

    model_config = STRICT

    api_keys: tuple[ScopedKey, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    oidc: Oidc | None = None

    def __bool__(self) -> bool:
        return bool(self.api_keys or self.webhooks or self.oidc)


class IngressSettings(BaseSettings):
    """The ingress settings, in addition to those of every command. Durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="VERBWORKER_INGRESS_", extra="forbid", hide_input_in_errors=True, frozen=True
    )

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8091, ge=0, le=65535, description="port")
    credentials: SecretStr | None = Field(default=None, description="credentials of the senders, as JSON")
    credentials_file: Path | None = Field(default=None, description="file with the same JSON")
    body_limit: int = Field(default=LARGEST, ge=1024, le=LARGEST, description="largest body, in bytes")
    rate: float = Field(default=50.0, gt=0, description="messages per second and sender")
    burst: int = Field(default=100, ge=1, description="messages that a sender may send in one burst")
    tolerance: Seconds = Field(default=timedelta(minutes=5), description="greatest age of a signature")
    message_ttl: Seconds = Field(default=timedelta(hours=1), description="how long a message waits for its case")
    drain: Seconds = Field(default=timedelta(seconds=20), description="how long running requests may take at shutdown")
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
        return init_settings, without_blanks(env_settings, ())

    @property
    def live_file(self) -> Path | None:
        """The file whose changes count at once; credentials of the environment do not change."""
        return file_to_follow(self.credentials, self.credentials_file)

    def load_credentials(self) -> Credentials:
        """Return the configured credentials; empty if none are set."""
        found = read_credentials(Credentials, self.credentials, self.credentials_file, "ingress")
        require_unique([key.name for key in found.api_keys] + [one.name for one in found.webhooks], "ingress")
        return found


def load(**overrides: object) -> IngressSettings:
    """Read the settings; the command line wins over the environment."""
    return read_settings(IngressSettings, overrides)
