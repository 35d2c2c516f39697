"""A tenant of the name that means all tenants to the database: nobody has it, wherever tenants are named."""

import json
from pathlib import Path

import pytest

from tests.support.command import verbworker
from tests.support.ingress_process import IngressProcess, envelope
from verbworker.api.guard import _bearer
from verbworker.api.settings import IngressSettings, Oidc
from verbworker.app.settings import Settings
from verbworker.client.client import Client
from verbworker.console.access.oidc import OidcClient
from verbworker.console.settings import OidcLogin
from verbworker.contract.registry import Registry
from verbworker.errors import ContractInvalid, InvocationInvalid
from verbworker.http.oidc import IssuerError

pytestmark = pytest.mark.attack("auth")

ISSUER = "https://login.example"
KEY = {"name": "eve", "tenant": "*", "sha256": "0" * 64}


@pytest.mark.parametrize(
    "claims",
    [
        {"tenant_id": "*", "sub": "eve"},
        {"tenant_id": " ", "sub": "eve"},
        {"tenant_id": "t" * 257, "sub": "eve"},
        {"tenant_id": "acme", "sub": ""},
        {"tenant_id": "acme", "sub": "e" * 256},
    ],
)
def test_a_token_does_not_speak_for_all_tenants_or_for_nobody(claims: dict[str, str]) -> None:
    assert _bearer(claims, Oidc(issuer=ISSUER, audience="verbworker", jwks="keys")) is None


@pytest.mark.parametrize("changes", [{"org": "*"}, {"org": " "}, {"sub": ""}, {"sub": "e" * 256}])
def test_a_login_does_not_either(changes: dict[str, str]) -> None:
    client = OidcClient(OidcLogin(issuer=ISSUER, client_id="verbworker", tenant_claim="org"), "https://here.example")

    with pytest.raises(IssuerError):
        client._identity({"org": "acme", "sub": "eve", **changes})


@pytest.mark.parametrize(
    "credentials", [{"api_keys": [KEY]}, {"webhooks": [{**KEY, "secrets": ["whsec_" + "A" * 32]}]}]
)
def test_no_key_is_configured_for_all_tenants(credentials: dict[str, object]) -> None:
    with pytest.raises(ContractInvalid, match="tenant"):
        IngressSettings.model_validate({"credentials": json.dumps(credentials)}).load_credentials()


def test_no_client_acts_for_all_tenants() -> None:
    settings = Settings.model_validate({"dsn": "postgresql://127.0.0.1:1/x"})

    with pytest.raises(InvocationInvalid, match="no tenant is called"):
        Client(settings, Registry(), tenant="*")


def test_no_command_works_for_all_tenants(shared: str, tmp_path: Path) -> None:
    said = verbworker("runbook", "list", "--tenant", "*", directory=tmp_path, dsn=shared)

    assert (said.code, said.out) == (2, "")


def test_no_message_is_for_all_tenants(ingress: IngressProcess) -> None:
    answer = ingress.post(envelope(tenant_id="*"))

    assert answer.status == 422, answer.body
