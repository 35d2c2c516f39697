"""The settings of the ingress: where it listens, its limits, and its credentials."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from verbworker.app.settings import Seconds
from verbworker.contract.message import LARGEST, Word
from verbworker.errors import ContractInvalid

_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ApiKey(BaseModel):
    """An API key of a sender; only its SHA-256 is known here."""

    model_config = _STRICT

    name: Word
    tenant: Word
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Webhook(BaseModel):
    """A sender that signs its messages; several secrets are valid during rotation."""

    model_config = _STRICT

    name: Word
    tenant: Word
    secrets: Annotated[list[SecretStr], Field(min_length=1)]


class Oidc(BaseModel):
    """A token issuer: its keys as a file or a URL, and the claim that names the tenant."""

    model_config = _STRICT

    issuer: Word
    audience: Word
    jwks: Annotated[str, Field(min_length=1)]
    tenant_claim: Word = "tenant_id"


class Credentials(BaseModel):
    """All credentials that the ingress accepts."""

    model_config = _STRICT

    api_keys: tuple[ApiKey, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    oidc: Oidc | None = None

    def __bool__(self) -> bool:
        return bool(self.api_keys or self.webhooks or self.oidc)


class IngressSettings(BaseSettings):
    """The ingress settings, in addition to those of every command. Durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix="VERBWORKER_INGRESS_", extra="forbid", hide_input_in_errors=True, frozen=True
    )

    host: str = Field(default="127.0.0.1", description="where messages are taken")
    port: int = Field(default=8091, ge=0, le=65535, description="its port")
    credentials: SecretStr | None = Field(default=None, description="who may send, as JSON")
    credentials_file: Path | None = Field(default=None, description="a file that holds the same JSON")
    body_limit: int = Field(default=LARGEST, ge=1024, le=LARGEST, description="the largest body, in bytes")
    rate: float = Field(default=50.0, gt=0, description="messages each sender may bring in a second")
    burst: int = Field(default=100, ge=1, description="and at once, after a pause")
    tolerance: Seconds = Field(default=timedelta(minutes=5), description="how old a signature may be")
    message_ttl: Seconds = Field(default=timedelta(hours=1), description="how long a message waits for its case")
    drain: Seconds = Field(default=timedelta(seconds=20), description="how long requests under way may take to end")
    tls_certificate: Path | None = Field(default=None, description="to speak TLS without a proxy")
    tls_key: Path | None = Field(default=None, description="the certificate's key")

    def load_credentials(self) -> Credentials:
        """Return the configured credentials; empty if none are set."""
        text = self.credentials.get_secret_value() if self.credentials else ""
        if not text.strip() and self.credentials_file is not None:
            text = _read(self.credentials_file)
        if not text.strip():
            return Credentials()
        try:
            found = Credentials.model_validate(json.loads(text))
        except ValidationError as error:
            where = ".".join(str(step) for step in error.errors(include_input=False)[0]["loc"])
            raise ContractInvalid(f"the ingress credentials do not fit at {where or 'their top'}") from None
        except ValueError:
            raise ContractInvalid("the ingress credentials are no JSON") from None
        names = [key.name for key in found.api_keys] + [webhook.name for webhook in found.webhooks]
        if len(names) != len(set(names)):
            raise ContractInvalid("two ingress credentials have the same name; each needs its own")
        return found


def load(**overrides: object) -> IngressSettings:
    """Read the settings; a None in `overrides` means the option was not given on the command line."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return IngressSettings(**given)  # type: ignore[arg-type]  # pydantic checks each by its field
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        name = str(problem["loc"][0]).upper()
        raise ContractInvalid(f"VERBWORKER_INGRESS_{name}: {problem['msg'].lower()}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContractInvalid(f"credentials_file: cannot read {path}: {error}") from None
