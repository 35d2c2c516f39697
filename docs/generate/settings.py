"""The page of settings: those of every command, of console and ingress, and the variables of the Camunda clients."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic_settings import BaseSettings

from docs.generate.markdown import code, sentence, table
from verbworker.api.settings import IngressSettings
from verbworker.app.settings import Settings
from verbworker.console.settings import ConsoleSettings

ENGINE_VARIABLES = {
    "CAMUNDA_GRPC_ADDRESS, ZEEBE_GRPC_ADDRESS, ZEEBE_ADDRESS": "address of the gateway; `localhost:26500` without one",
    "CAMUNDA_REST_ADDRESS, ZEEBE_REST_ADDRESS": "address of its REST API, for user tasks, search and correlation",
    "CAMUNDA_TRANSPORT, ZEEBE_TRANSPORT": "`grpc`, `rest`, or `auto`: gRPC, or REST where gRPC is switched off",
    "CAMUNDA_CLUSTER_ID": "a SaaS cluster; both addresses follow from it",
    "CAMUNDA_CLUSTER_REGION": "its region; `bru-2` without one",
    "CAMUNDA_AUTH_STRATEGY": "`NONE`, `OAUTH` or `BASIC`; what is set decides without it",
    "CAMUNDA_CLIENT_ID, ZEEBE_CLIENT_ID": "OAuth client",
    "CAMUNDA_CLIENT_SECRET, ZEEBE_CLIENT_SECRET": "its secret",
    "CAMUNDA_OAUTH_URL, CAMUNDA_AUTHORIZATION_SERVER_URL, ZEEBE_AUTHORIZATION_SERVER_URL": "token server",
    "CAMUNDA_TOKEN_AUDIENCE, ZEEBE_TOKEN_AUDIENCE": "audience of tokens",
    "CAMUNDA_TOKEN_SCOPE, ZEEBE_TOKEN_SCOPE": "scope of tokens",
    "CAMUNDA_BASIC_AUTH_USERNAME": "user of Basic authentication",
    "CAMUNDA_BASIC_AUTH_PASSWORD": "its password",
    "CAMUNDA_CA_CERTIFICATE_PATH, ZEEBE_CA_CERTIFICATE_PATH, CAMUNDA_MTLS_CA_PATH": "certificates to trust",
    "CAMUNDA_MTLS_CERT_PATH": "client certificate",
    "CAMUNDA_MTLS_KEY_PATH": "its key",
    "ZEEBE_INSECURE_CONNECTION": "`true` for a channel without TLS",
    "ZEEBE_ALLOW_PLAINTEXT": "`true` if credentials may be sent unencrypted to another host",
    "CAMUNDA_TENANT_ID, CAMUNDA_DEFAULT_TENANT_ID, ZEEBE_DEFAULT_TENANT_ID": "tenant of commands in the engine",
    "CAMUNDA_TENANT_IDS, CAMUNDA_DEFAULT_JOB_WORKER_TENANT_IDS": "tenants whose jobs are taken",
    "ZEEBE_MAX_MESSAGE_SIZE": "largest gRPC message, as `4MB`",
}
"""The first variable of a row that has a value counts. A test compares this with the code that reads them."""


def page() -> str:
    """Return the page of settings."""
    return (
        "# Settings\n\n"
        "Settings come from the environment or from `verbworker.toml` in the working directory; the environment wins,"
        " and an option of the command line wins over both. In the file a setting has the name without the prefix, in"
        " lower case. A blank variable counts as absent, but for restrictions and secrets: `VERBWORKER_TENANT`, roles,"
        " quotas and keys. A wrong setting is one sentence and exit code 2. Durations are seconds unless the row says"
        " otherwise.\n\n"
        "## Every command\n\n"
        + _table(Settings)
        + "## Console\n\n"
        + _table(ConsoleSettings)
        + "## Ingress\n\n"
        + _table(IngressSettings)
        + "## Connection to Camunda\n\n"
        "The variables of Camunda's own clients. Of several names the first with a value counts.\n\n"
        + table(("variable", "meaning"), _engine_rows())
    )


def _table(settings: type[BaseSettings]) -> str:
    prefix = str(settings.model_config["env_prefix"])
    return table(("variable", "default", "meaning"), _rows(settings, prefix))


def _rows(settings: type[BaseSettings], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in settings.model_fields.items():
        is_kept = name.startswith("keep_") or name == "engine_retention"
        words = sentence(field.description or "")
        yield code(f"{prefix}{name.upper()}"), _default(field, is_kept=is_kept), words


def _default(field: Any, *, is_kept: bool) -> str:
    if field.default_factory is not None:
        return "the machine's name"
    match field.default:
        case None if is_kept:
            return code("forever")
        case None | () | {}:
            return ""
        case timedelta() as time if is_kept:
            return code(f"{time.days}d")
        case timedelta() as time:
            return code(f"{time.total_seconds():g}")
        case bool() as flag:
            return code(str(flag).lower())
    return code(field.default)


def _engine_rows() -> Iterator[tuple[str, str]]:
    for names, words in ENGINE_VARIABLES.items():
        yield ", ".join(code(name) for name in names.split(", ")), sentence(words)
