"""The settings of a Zeebe connection, from the variables that Camunda's clients share."""

from pathlib import Path

import pytest

from verbworker.engine.zeebe.connection import Basic, GatewayAddress, OAuth, Tls, parse_address
from verbworker.errors import ContractInvalid

CLIENT = {"CAMUNDA_CLIENT_ID": "worker", "CAMUNDA_CLIENT_SECRET": "s3cret"}
OAUTH = {**CLIENT, "CAMUNDA_OAUTH_URL": "https://login.test/token"}
PLAIN = {"ZEEBE_ALLOW_PLAINTEXT": "true"}
BASIC = {"CAMUNDA_BASIC_AUTH_USERNAME": "demo", "CAMUNDA_BASIC_AUTH_PASSWORD": "s3cret"}


def test_nothing_set_is_a_plain_gateway_on_this_machine() -> None:
    assert GatewayAddress.from_environment({}) == GatewayAddress(address="localhost:26500")


@pytest.mark.parametrize(
    ("text", "scheme", "address"),
    [
        ("gateway:26500", "", "gateway:26500"),
        ("gateway", "", "gateway:26500"),
        ("http://gateway:8080", "http", "gateway:8080"),
        ("grpc://gateway", "grpc", "gateway:26500"),
        ("https://gateway", "https", "gateway:443"),
        ("grpcs://gateway:26500/", "grpcs", "gateway:26500"),
        ("[::1]:26500", "", "[::1]:26500"),
        ("http://[::1]", "http", "[::1]:26500"),
    ],
)
def test_an_address_may_have_a_scheme_and_a_port(text: str, scheme: str, address: str) -> None:
    assert parse_address(text) == (scheme, address)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://gateway:26500",
        "https://user:hunter2@gateway:26500",
        "https://gateway/cluster",
        "https://gateway?x=1",
        "gateway:port",
        "gateway:99999",
        "https://",
        "[::1",
    ],
)
def test_a_wrong_address_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ContractInvalid) as refused:
        parse_address(text)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "tls"),
    [
        ({"ZEEBE_ADDRESS": "gateway:26500"}, None),
        ({"ZEEBE_ADDRESS": "http://gateway:26500"}, None),
        ({"ZEEBE_ADDRESS": "https://gateway:26500"}, Tls()),
        ({"ZEEBE_ADDRESS": "grpcs://gateway:26500"}, Tls()),
        ({"ZEEBE_ADDRESS": "gateway:443"}, Tls()),
        ({"ZEEBE_ADDRESS": "gateway:26500", **OAUTH}, Tls()),
        ({"ZEEBE_ADDRESS": "gateway:26500", **BASIC}, Tls()),
        ({"ZEEBE_ADDRESS": "gateway:26500", **OAUTH, "ZEEBE_INSECURE_CONNECTION": "true", **PLAIN}, None),
        ({"ZEEBE_ADDRESS": "http://gateway:26500", **OAUTH, **PLAIN}, None),
        ({"ZEEBE_ADDRESS": "http://127.0.0.1:26500", **OAUTH}, None),
        ({"ZEEBE_ADDRESS": "https://gateway:26500", "ZEEBE_INSECURE_CONNECTION": "true"}, Tls()),
        ({"CAMUNDA_CA_CERTIFICATE_PATH": "/ca.pem"}, Tls(ca=Path("/ca.pem"))),
        ({"ZEEBE_CA_CERTIFICATE_PATH": "/ca.pem"}, Tls(ca=Path("/ca.pem"))),
        (
            {"CAMUNDA_MTLS_CERT_PATH": "/me.pem", "CAMUNDA_MTLS_KEY_PATH": "/me.key"},
            Tls(certificate=Path("/me.pem"), key=Path("/me.key")),
        ),
    ],
)
def test_the_scheme_decides_on_encryption_and_secrets_ask_for_it(env: dict[str, str], tls: Tls | None) -> None:
    assert GatewayAddress.from_environment(env).tls == tls


def test_the_newer_name_of_the_address_wins() -> None:
    env = {"ZEEBE_ADDRESS": "old:26500", "CAMUNDA_GRPC_ADDRESS": "http://new:26500"}

    assert GatewayAddress.from_environment(env).address == "new:26500"


@pytest.mark.parametrize(
    "url", ["CAMUNDA_OAUTH_URL", "CAMUNDA_AUTHORIZATION_SERVER_URL", "ZEEBE_AUTHORIZATION_SERVER_URL"]
)
def test_client_credentials_have_several_names(url: str) -> None:
    env = {
        "ZEEBE_CLIENT_ID": "worker",
        "ZEEBE_CLIENT_SECRET": "s3cret",
        url: "https://login.test/token",
        "ZEEBE_TOKEN_AUDIENCE": "zeebe-api",
        "CAMUNDA_TOKEN_SCOPE": "profile",
    }

    assert GatewayAddress.from_environment(env).credentials == OAuth(
        "worker", "s3cret", "https://login.test/token", audience="zeebe-api", scope="profile"
    )


def test_a_cluster_id_is_camunda_saas() -> None:
    env = {**CLIENT, "CAMUNDA_CLUSTER_ID": "abc", "CAMUNDA_CLUSTER_REGION": "syd-1"}
    connection = GatewayAddress.from_environment(env)

    assert connection.address == "abc.syd-1.zeebe.camunda.io:443"
    assert connection.tls == Tls()
    assert connection.credentials == OAuth(
        "worker", "s3cret", "https://login.cloud.camunda.io/oauth/token", audience="zeebe.camunda.io"
    )


def test_basic_takes_a_user_and_a_password() -> None:
    assert GatewayAddress.from_environment(BASIC).credentials == Basic("demo", "s3cret")


@pytest.mark.parametrize(("strategy", "kind"), [("OAUTH", OAuth), ("basic", Basic), ("NONE", type(None))])
def test_the_strategy_chooses_where_both_are_set(strategy: str, kind: type) -> None:
    env = {**OAUTH, **BASIC, "CAMUNDA_AUTH_STRATEGY": strategy}

    assert isinstance(GatewayAddress.from_environment(env).credentials, kind)


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({**OAUTH, **BASIC}, "CAMUNDA_AUTH_STRATEGY"),
        ({**OAUTH, "CAMUNDA_AUTH_STRATEGY": "KERBEROS"}, "CAMUNDA_AUTH_STRATEGY"),
        ({"CAMUNDA_AUTH_STRATEGY": "OAUTH"}, "CAMUNDA_CLIENT_ID"),
        ({"CAMUNDA_CLIENT_ID": "worker"}, "CAMUNDA_CLIENT_SECRET"),
        (CLIENT, "CAMUNDA_OAUTH_URL"),
        ({**CLIENT, "CAMUNDA_OAUTH_URL": "file:///etc/passwd"}, "token URL"),
        ({**CLIENT, "CAMUNDA_OAUTH_URL": "https://[login"}, "token URL"),
        ({"CAMUNDA_BASIC_AUTH_USERNAME": "demo"}, "CAMUNDA_BASIC_AUTH_PASSWORD"),
        ({**BASIC, "CAMUNDA_BASIC_AUTH_USERNAME": "de:mo"}, "colon"),
        ({"CAMUNDA_MTLS_CERT_PATH": "/me.pem"}, "CAMUNDA_MTLS_KEY_PATH"),
        ({"ZEEBE_MAX_MESSAGE_SIZE": "lots"}, "ZEEBE_MAX_MESSAGE_SIZE"),
        ({"ZEEBE_MAX_MESSAGE_SIZE": "0"}, "ZEEBE_MAX_MESSAGE_SIZE"),
    ],
)
def test_half_a_setting_is_refused_by_name(env: dict[str, str], named: str) -> None:
    with pytest.raises(ContractInvalid, match=named) as refused:
        GatewayAddress.from_environment(env)

    assert "s3cret" not in str(refused.value)


def test_a_blank_variable_counts_as_absent() -> None:
    env = {"CAMUNDA_CLIENT_ID": " ", "CAMUNDA_GRPC_ADDRESS": "", "ZEEBE_ADDRESS": "gateway:26500"}

    assert GatewayAddress.from_environment(env) == GatewayAddress(address="gateway:26500")


def test_the_default_tenant_comes_first_and_once() -> None:
    env = {"CAMUNDA_TENANT_IDS": "acme, <default>,acme", "CAMUNDA_TENANT_ID": "<default>"}
    connection = GatewayAddress.from_environment(env)

    assert connection.tenant_ids == ("<default>", "acme")
    assert connection.tenant_id == "<default>"


@pytest.mark.parametrize(
    ("text", "size"),
    [("4194304", 4_194_304), ("10MB", 10_485_760), ("10M", 10_485_760), ("512 kb", 524_288)],
)
def test_the_largest_message_may_have_a_unit(text: str, size: int) -> None:
    assert GatewayAddress.from_environment({"ZEEBE_MAX_MESSAGE_SIZE": text}).max_message_bytes == size


@pytest.mark.parametrize("env", [OAUTH, BASIC])
def test_no_secret_is_in_what_is_printed(env: dict[str, str]) -> None:
    connection = GatewayAddress.from_environment(env)

    assert "s3cret" not in f"{connection!r} {connection} {connection.credentials!r}"


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, None),
        ({"ZEEBE_REST_ADDRESS": "http://gateway:8080"}, "http://gateway:8080"),
        ({"ZEEBE_REST_ADDRESS": "gateway:8080"}, "http://gateway:8080"),
        ({"CAMUNDA_REST_ADDRESS": "https://proxy/zeebe/v2/"}, "https://proxy/zeebe"),
        ({**OAUTH, "ZEEBE_REST_ADDRESS": "gateway:8080"}, "https://gateway:8080"),
        ({**CLIENT, "CAMUNDA_CLUSTER_ID": "c1"}, "https://bru-2.zeebe.camunda.io/c1"),
    ],
)
def test_the_rest_address_is_a_url_as_safe_as_the_channel(env: dict[str, str], url: str | None) -> None:
    assert GatewayAddress.from_environment(env).rest_url == url


@pytest.mark.parametrize(
    ("env", "choice"),
    [
        ({}, "auto"),
        ({"ZEEBE_TRANSPORT": "rest"}, "rest"),
        ({"ZEEBE_TRANSPORT": " GRPC "}, "grpc"),
        ({"CAMUNDA_TRANSPORT": "auto", "ZEEBE_TRANSPORT": "rest"}, "auto"),
    ],
)
def test_the_transport_is_chosen(env: dict[str, str], choice: str) -> None:
    assert GatewayAddress.from_environment(env).transport == choice


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="ZEEBE_TRANSPORT must be auto, grpc or rest"):
        GatewayAddress.from_environment({"ZEEBE_TRANSPORT": "smoke"})


@pytest.mark.parametrize(
    ("connection", "addresses"),
    [
        (GatewayAddress("a:1"), ["a:1"]),
        (GatewayAddress("a:1", rest_url="http://b:2/path"), ["a:1", "b:2"]),
        (GatewayAddress("a:1", rest_url="https://b", transport="rest"), ["b:443"]),
        (GatewayAddress("a:1", rest_url="http://[::1]", transport="grpc"), ["a:1", "[::1]:80"]),
    ],
)
def test_the_addresses_in_use_are_known(connection: GatewayAddress, addresses: list[str]) -> None:
    assert connection.addresses() == addresses


@pytest.mark.parametrize(
    "text", ["ftp://gateway", "https://user:hunter2@gateway", "https://", "http://g?x=1", "g:port"]
)
def test_a_wrong_rest_address_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ContractInvalid) as refused:
        GatewayAddress.from_environment({"ZEEBE_REST_ADDRESS": text})

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ({"ZEEBE_ADDRESS": "http://gateway:26500", **OAUTH}, "the Zeebe address"),
        ({"ZEEBE_ADDRESS": "gateway:26500", "ZEEBE_INSECURE_CONNECTION": "true", **BASIC}, "the Zeebe address"),
        (
            {"ZEEBE_ADDRESS": "https://gateway", "ZEEBE_REST_ADDRESS": "http://gateway:8080", **BASIC},
            "the REST address",
        ),
        (
            {"ZEEBE_ADDRESS": "http://gateway", "ZEEBE_REST_ADDRESS": "http://g", "ZEEBE_TRANSPORT": "rest", **BASIC},
            "the REST address",
        ),
        ({"ZEEBE_ADDRESS": "https://gateway", **OAUTH, "CAMUNDA_OAUTH_URL": "http://login/token"}, "the token URL"),
    ],
)
def test_credentials_do_not_travel_unencrypted_to_another_host(env: dict[str, str], what: str) -> None:
    with pytest.raises(ContractInvalid, match=f"{what} is not encrypted") as refused:
        GatewayAddress.from_environment(env)

    assert "s3cret" not in str(refused.value)
    assert GatewayAddress.from_environment({**env, **PLAIN}).credentials is not None
