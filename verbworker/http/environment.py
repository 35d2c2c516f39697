"""The environment as settings read it: blank variables count as absent, and the engine's own have other names."""

from collections.abc import Sequence
from difflib import get_close_matches

from pydantic_settings import EnvSettingsSource, PydanticBaseSettingsSource

_OF_THE_ENGINE = (
    *("ZEEBE_ADDRESS", "ZEEBE_GRPC_ADDRESS", "ZEEBE_REST_ADDRESS", "ZEEBE_TRANSPORT", "ZEEBE_MAX_MESSAGE_SIZE"),
    *("ZEEBE_INSECURE_CONNECTION", "ZEEBE_ALLOW_PLAINTEXT", "CAMUNDA_CLUSTER_ID", "CAMUNDA_CLUSTER_REGION"),
    *("CAMUNDA_AUTH_STRATEGY", "CAMUNDA_CLIENT_ID", "CAMUNDA_CLIENT_SECRET", "CAMUNDA_OAUTH_URL"),
    *("CAMUNDA_TOKEN_AUDIENCE", "CAMUNDA_TOKEN_SCOPE", "CAMUNDA_BASIC_AUTH_USERNAME", "CAMUNDA_BASIC_AUTH_PASSWORD"),
    *("CAMUNDA_CA_CERTIFICATE_PATH", "CAMUNDA_MTLS_CERT_PATH", "CAMUNDA_MTLS_KEY_PATH", "CAMUNDA_TENANT_IDS"),
)
_PREFIXES = ("ENGINE_", "ZEEBE_", "CAMUNDA_")
_BY_WORD = {name.partition("_")[2]: name for name in _OF_THE_ENGINE}


def without_blanks(source: PydanticBaseSettingsSource, strict: Sequence[str]) -> PydanticBaseSettingsSource:
    """Return the source of the environment without its blank variables.

    Those in `strict` (full names) stay: a restriction or a secret that came out blank must not open anything.
    """
    if isinstance(source, EnvSettingsSource):
        given = source.env_vars.items()
        source.env_vars = {name: text for name, text in given if (text or "").strip() or name.upper() in strict}
    return source


def advise(word: str, known: Sequence[str], prefix: str) -> str:
    """Return the variable that was most likely meant by an unknown one, as a question; empty without one."""
    bare = next((word.removeprefix(start) for start in _PREFIXES if word.startswith(start)), word)
    if bare in _BY_WORD:
        return f"; did you mean {_BY_WORD[bare]}?"
    nearest = get_close_matches(word, known, 1)
    return f"; did you mean {prefix}{nearest[0]}?" if nearest else ""
