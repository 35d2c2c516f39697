"""How ingress and console read their settings: from the environment, and credentials as JSON in it or in a file."""

import json
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode

from verbworker.errors import ContractInvalid
from verbworker.http.connections import Network

STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _networks(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(ip_network(word.strip()) for word in value.split(",") if word.strip())
    except ValueError:
        raise ValueError("write addresses or networks, separated by commas: 10.0.0.7, 10.1.0.0/16") from None


Proxies = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]

Found = TypeVar("Found", bound=BaseSettings)
Known = TypeVar("Known", bound=BaseModel)


def read_settings(kind: type[Found], overrides: dict[str, object]) -> Found:
    """Read the settings; a None in `overrides` means the option was not given on the command line."""
    try:
        return kind.model_validate({name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        name = f"{kind.model_config['env_prefix']}{str(problem['loc'][0]).upper()}"
        reason = problem["msg"].removeprefix("Value error, ")
        raise ContractInvalid(f"{name}: {reason[:1].lower()}{reason[1:]}") from None


def read_credentials(kind: type[Known], given: SecretStr | None, file: Path | None, whose: str) -> Known:
    """Return the configured credentials; empty if none are set. Never quotes what it read."""
    text = given.get_secret_value() if given else ""
    if not text.strip() and file is not None:
        text = _read(file)
    try:
        return kind.model_validate(json.loads(text)) if text.strip() else kind()
    except ValidationError as error:
        where = ".".join(str(step) for step in error.errors(include_input=False)[0]["loc"])
        raise ContractInvalid(f"the {whose} credentials are invalid at {where or 'the top level'}") from None
    except ValueError:
        raise ContractInvalid(f"the {whose} credentials are not JSON") from None


def file_to_follow(given: SecretStr | None, file: Path | None) -> Path | None:
    """Return the file that credentials are read from; None where they were given themselves."""
    return None if given is not None and given.get_secret_value().strip() else file


def require_unique(names: Iterable[str], whose: str) -> None:
    """Raise `ContractInvalid` if two credentials have the same name: it identifies its holder in the records."""
    found = list(names)
    if len(found) != len(set(found)):
        raise ContractInvalid(f"two {whose} credentials have the same name; each needs its own")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContractInvalid(f"credentials_file: cannot read {path}: {error}") from None
