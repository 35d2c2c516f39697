"""Settings: one class, one environment prefix, and `verbworker.toml` for what is not secret."""

import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from verbworker.contract.quota import Quota, Quotas
from verbworker.contract.text import holds_controls, is_tenant
from verbworker.errors import ContractInvalid
from verbworker.http.environment import advise, without_blanks
from verbworker.payload.signature import KeyRing

FILE = Path("verbworker.toml")
FOREVER = "forever"
_PREFIX = "VERBWORKER_"
_OF_SERVERS = ("CONSOLE_", "INGRESS_")  # these have settings of their own
_NO_SETTINGS = ("DEBUG", "FAILPOINT")
_RESTRICTIONS = ("ROLES", "UNKNOWN_ROLES", "TENANT_QUOTAS", *(f"QUOTA_{one.name.upper()}" for one in fields(Quota)))
_NEVER_BLANK = ("TENANT", "INTEGRITY_KEYS", "INTEGRITY_KEY", "SEAL_KEYS", "SEAL_KEY")
_OF_A_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP|SCTP)")
_ONLY_OUTSIDE = ("integrity_keys", "seal_keys")
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([dh])")
_UNITS = {"d": 86_400.0, "h": 3_600.0}


def _seconds(value: object) -> object:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            seconds = timedelta(seconds=float(value))
        except (ValueError, OverflowError):
            raise ValueError("use a number of seconds") from None
        if seconds <= timedelta(0):
            raise ValueError("it must be more than 0 seconds")
        return seconds
    return value


def _parse_age(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() == FOREVER:
        return None
    found = _AGE.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        return _seconds(value if found is None else float(found[1]) * _UNITS[found[2]])
    except ValueError:
        raise ValueError(f"use days, hours or seconds above 0 (90d, 12h or 3600), or {FOREVER}") from None


def _name(text: str) -> str:
    if holds_controls(text):
        raise ValueError("it holds control characters")
    return text


def _tenant(text: str) -> str:
    if not is_tenant(text):
        raise ValueError("it must be the name of one tenant")
    return text


def _words(value: object) -> object:
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _web_address(value: object) -> object:
    parts = urlsplit(value) if isinstance(value, str) else None
    if parts is not None and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("write https://host or https://host/path")
    return value


def _keys(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('use JSON: {"key id": "secret"}') from None


def _quotas(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('use JSON: {"tenant": {"open_cases": 1000}}') from None


Seconds = Annotated[timedelta, BeforeValidator(_seconds)]
Kept = Annotated[timedelta | None, BeforeValidator(_parse_age)]
Name = Annotated[str, AfterValidator(_name)]
Words = Annotated[tuple[Name, ...], NoDecode, BeforeValidator(_words)]
Roles = Annotated[frozenset[Name] | None, NoDecode, BeforeValidator(_words)]
WebAddress = Annotated[str, BeforeValidator(_web_address)]
Limit = Annotated[int, Field(ge=1)] | Literal["unlimited"] | None
Keys = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_keys)]


class TenantQuota(BaseModel):
    """The quotas of one tenant, where they differ from the usual ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    open_cases: Limit = None
    starts_per_minute: Limit = None
    messages_per_minute: Limit = None
    message_bytes_per_minute: Limit = None
    waiting_messages: Limit = None

    def over(self, usual: Quota) -> Quota:
        """Return these quotas, and the usual ones where this has none."""
        own = {name: None if limit == "unlimited" else limit for name, limit in self if limit is not None}
        return replace(usual, **own)


TenantQuotas = Annotated[dict[Name, TenantQuota], NoDecode, BeforeValidator(_quotas)]


class Settings(BaseSettings):
    """Everything an operator may set. The environment wins over `verbworker.toml`; durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, toml_file=FILE, extra="forbid", hide_input_in_errors=True, frozen=True
    )

    dsn: SecretStr | None = Field(
        default=None, description="Postgres URI, with parameters of libpq such as sslmode and connect_timeout"
    )
    dsn_file: Path | None = Field(default=None, description="file with the Postgres URI")
    owner_login: Literal["refuse", "allow"] = Field(
        default="refuse",
        description="what doctor says of a login that is the owner of the tables or a superuser",
    )
    control_connections: int = Field(default=4, ge=2, description="connections for claims, heartbeats, verdicts")
    verb_connections: int | None = Field(default=None, ge=1, description="connections for transactional verbs")
    engine_connections: int = Field(default=6, ge=2, description="connections for the embedded engine")
    statement_timeout: Seconds = Field(default=timedelta(seconds=30), description="of statements in verbs")
    lock_timeout: Seconds = Field(default=timedelta(seconds=10), description="of locks in verbs")

    engine: Literal["zeebe", "embedded"] = Field(default="zeebe", description="the process engine")
    engine_id: str | None = Field(default=None, description="unique name of this cluster")
    engine_leases: Literal["off", "on"] = Field(
        default="off", description="take jobs under a lease of Camunda 8.10; the same for all workers of a cluster"
    )
    operate_url: WebAddress | None = Field(
        default=None, description="address of Operate, for links to instances: https://host/operate"
    )
    tasklist_url: WebAddress | None = Field(
        default=None, description="address of Tasklist, for links to tasks: https://host/tasklist"
    )
    tenant: Annotated[str, AfterValidator(_tenant)] = Field(default="default", description="tenant of commands")
    roles: Roles = Field(
        default=None, description="roles of the person who runs commands, separated by commas (default: not declared)"
    )
    unknown_roles: Literal["allow", "refuse"] = Field(
        default="allow", description="what a gate with an audience does with a person whose roles are not declared"
    )
    tenant_ids: Words = Field(default=(), description="tenants whose jobs are run, separated by commas")
    worker_name: str = Field(default_factory=socket.gethostname, min_length=1, description="name in the engine")
    engine_timeout: Seconds = Field(default=timedelta(seconds=60), description="job timeout in the engine")
    lease: Seconds = Field(default=timedelta(seconds=30), description="lease of a running job's frame")
    sweep_every: Seconds = Field(default=timedelta(seconds=3), description="interval of the sweep for expired leases")
    sweep_grace: Seconds = Field(
        default=timedelta(seconds=5), description="delay between the end of a lease and the takeover of its job"
    )
    poll_wait: Seconds = Field(default=timedelta(seconds=5), description="longest wait of one poll")
    streaming: bool = Field(default=True, description="receive jobs by push under low load")
    grace: Seconds = Field(default=timedelta(seconds=30), description="time for running verbs to finish at shutdown")
    gate_timeout: Seconds = Field(default=timedelta(minutes=5), description="job timeout of gates in the engine")
    reconcile_after: Seconds = Field(default=timedelta(minutes=10), description="silence before a case is checked")
    stall_grace: Seconds = Field(
        default=timedelta(seconds=30),
        description="delay before a case without progress is reported",
    )
    archive_after: Seconds = Field(default=timedelta(minutes=10), description="age of archived frames")

    # Retention: days (90d), hours (12h), seconds, or forever. Rows of open cases are never deleted.
    engine_retention: Kept = Field(
        default=timedelta(days=7), description="ended instances of the embedded engine, after their end"
    )
    keep_archive: Kept = Field(default=timedelta(days=90), description="archived frames, by whole months")
    keep_frame_events: Kept = Field(default=timedelta(days=30), description="events of jobs, for frames explain")
    keep_frame_conflicts: Kept = Field(default=timedelta(days=90), description="conflicts of job keys")
    keep_worker_boots: Kept = Field(default=timedelta(days=90), description="names of workers, after their last start")
    keep_payloads: Kept = Field(default=timedelta(days=7), description="payloads of a case, after its end")
    keep_messages: Kept = Field(default=timedelta(days=30), description="messages, after delivery or discarding")
    keep_dead_letters: Kept = Field(default=timedelta(days=90), description="dead letters, after they were resolved")
    keep_plain_incidents: Kept = Field(
        default=timedelta(days=90), description="incidents of plain processes, after they were resolved"
    )
    keep_sessions: Kept = Field(default=timedelta(days=1), description="sessions of the console, after their end")
    keep_entries: Kept = Field(
        default=None, description="runbook entries, at least 1 day after their end; needs export_dir"
    )
    export_dir: Path | None = Field(
        default=None, description="directory for deleted entries; without it none is deleted"
    )

    # Quotas of every tenant, and of those with their own. Nothing is limited by default.
    quota_open_cases: int | None = Field(default=None, ge=1, description="most open cases of a tenant")
    quota_starts_per_minute: int | None = Field(default=None, ge=1, description="most starts of a tenant per minute")
    quota_messages_per_minute: int | None = Field(
        default=None, ge=1, description="most messages of a tenant per minute"
    )
    quota_message_bytes_per_minute: int | None = Field(
        default=None, ge=1, description="most bytes of the payloads of a tenant's messages per minute"
    )
    quota_waiting_messages: int | None = Field(
        default=None, ge=1, description="most messages of a tenant that no case has taken yet"
    )
    tenant_quotas: TenantQuotas = Field(
        default={},
        description='quotas of single tenants, as JSON: {"acme": {"open_cases": 50, "waiting_messages": "unlimited"}}',
    )

    http_host: str = Field(default="127.0.0.1", description="address of /live, /ready and /metrics")
    http_port: int = Field(default=8090, ge=0, le=65535, description="their port, or 0 for none")
    log_format: Literal["json", "text"] = Field(default="json", description="format of log lines")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="lowest level logged")
    log_tracebacks: bool = Field(
        default=False, description="log full tracebacks of verbs; their messages may hold data of cases"
    )
    otel: bool = Field(default=False, description="trace cases and their jobs with OpenTelemetry")

    integrity_keys: Keys = Field(default={}, description="signing secrets by key id, as JSON; environment only")
    integrity_keys_file: Path | None = Field(default=None, description="file with the same JSON")
    integrity_key: str | None = Field(default=None, description="key id that signs; the others only verify")
    seal_keys: Keys = Field(
        default={}, description="secrets that sign the record's seals, by key id, as JSON; environment only"
    )
    seal_keys_file: Path | None = Field(default=None, description="file with the same JSON")
    seal_key: str | None = Field(default=None, description="key id that signs seals; the others only verify")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = without_blanks(env_settings, [f"{_PREFIX}{name}" for name in (*_RESTRICTIONS, *_NEVER_BLANK)])
        return init_settings, given, TomlConfigSettingsSource(settings_cls)

    def database(self, *, otherwise: str = "pass --dsn") -> str:
        """Return the database's address; raise `ContractInvalid` if none is set, with what to do `otherwise`."""
        dsn = self.dsn.get_secret_value() if self.dsn else ""
        if not dsn.strip() and self.dsn_file is not None:
            dsn = _read(self.dsn_file, "dsn_file").strip()
        if not dsn.strip():
            raise ContractInvalid(f"no database is set; set VERBWORKER_DSN or {otherwise}")
        return dsn

    def cluster(self) -> str:
        """Return the engine's id; raise `ContractInvalid` if none is set. Only the embedded engine has a default."""
        if self.engine == "embedded" and not (self.engine_id or "").strip():
            return "embedded"
        if not (self.engine_id or "").strip():
            raise ContractInvalid(
                "no engine id is set; choose a unique name for this cluster and set VERBWORKER_ENGINE_ID or pass"
                " --engine-id (a recreated cluster reuses job keys, so it needs another name)"
            )
        return (self.engine_id or "").strip()

    def quotas(self) -> Quotas:
        """Return the quotas of all tenants; a quota that a tenant's own do not name is the usual one."""
        usual = Quota(**{one.name: getattr(self, f"quota_{one.name}") for one in fields(Quota)})
        return Quotas(usual, {tenant: own.over(usual) for tenant, own in self.tenant_quotas.items()})

    def keep(self) -> dict[str, timedelta | None]:
        """Return how long each kind of row is kept, by setting name; None means forever."""
        return {name: getattr(self, name) for name in type(self).model_fields if name.startswith("keep_")}

    def key_ring(self) -> KeyRing | None:
        """Return the keys that sign payloads, or None if no key is set."""
        return _ring("integrity", self.integrity_keys, self.integrity_keys_file, self.integrity_key)

    def seal_ring(self) -> KeyRing | None:
        """Return the keys that sign the record's seals, or None if no key is set."""
        return _ring("seal", self.seal_keys, self.seal_keys_file, self.seal_key)


def load(**overrides: object) -> Settings:
    """Read the settings; a None in `overrides` was not given on the command line."""
    given = {name: value for name, value in overrides.items() if value is not None}
    _refuse_wrong_file()
    _refuse_mistyped_restriction()
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise ContractInvalid(_sentence(error.errors(include_url=False, include_input=False)[0])) from None
    except SettingsError as error:
        raise ContractInvalid(f"the settings cannot be read: {error}") from None


def unknown_settings(environment: Mapping[str, str], *servers: type[BaseSettings]) -> list[str]:
    """Return a sentence for each variable that looks like a setting but is not one: it may be mistyped.

    The settings of console and ingress are checked by them alone: they are the `servers`.
    """
    known, checked = [name.upper() for name in Settings.model_fields], set[str]()
    for server in servers:
        prefix = str(server.model_config["env_prefix"]).removeprefix(_PREFIX)
        known += [f"{prefix}{name.upper()}" for name in server.model_fields]
        checked.add(prefix)
    foreign = tuple(prefix for prefix in _OF_SERVERS if prefix not in checked)
    found = []
    for name, value in sorted(environment.items()):
        start, word = name.upper()[: len(_PREFIX)], name.upper()[len(_PREFIX) :]
        if start != _PREFIX or word in (*known, *_NO_SETTINGS) or word.startswith(foreign):
            continue
        if not _is_kubernetes(name, value):
            found.append(f"{name} is not a setting and is ignored{advise(word, known, _PREFIX)}")
    return found


def _refuse_mistyped_restriction() -> None:
    """Refuse what is nearly the name of a restriction: ignored as others are, it would allow everything."""
    meant = tuple(f"did you mean {_PREFIX}{name}?" for name in _RESTRICTIONS)
    for words in unknown_settings(os.environ):
        if words.endswith(meant):
            raise ContractInvalid(words.replace(" and is ignored", ""))


def _is_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes set the variable, as it does for each service beside a pod."""
    return _OF_A_SERVICE.search(name) is not None or (name.endswith("_PORT") and "://" in value)


def _refuse_wrong_file() -> None:
    """Report what is wrong with `verbworker.toml` itself; pydantic would not name the file."""
    if not FILE.is_file():
        return
    try:
        content = tomllib.loads(_read(FILE, "settings file"))
    except tomllib.TOMLDecodeError as error:
        raise ContractInvalid(f"{FILE} is not valid TOML: {error}") from None
    if unknown := sorted(content.keys() - Settings.model_fields.keys()):
        raise ContractInvalid(f"{FILE}: unknown setting {unknown[0]!r}; known are {', '.join(Settings.model_fields)}")
    for name in _ONLY_OUTSIDE:
        if name in content:
            raise ContractInvalid(f"{FILE} contains {name}; put secrets into VERBWORKER_{name.upper()} or {name}_file")


def _sentence(problem: Any) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else "of this command"
    where = f"VERBWORKER_{name.upper()}" if f"VERBWORKER_{name.upper()}" in os.environ else f"{name} in {FILE}"
    reason = problem["msg"].removeprefix("Value error, ")
    return f"setting {name}: {reason[:1].lower()}{reason[1:]} (from {where} or the command line)"


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ContractInvalid(f"{name}: cannot read {path}: {reason}") from None


def _ring(purpose: str, given: Mapping[str, SecretStr], file: Path | None, active: str | None) -> KeyRing | None:
    keys = {kid: secret.get_secret_value() for kid, secret in given.items()}
    if file is not None:
        keys |= _keys_in(file, f"{purpose}_keys_file")
    setting = f"VERBWORKER_{purpose.upper()}_KEY"
    if not keys:
        if active is not None:
            raise ContractInvalid(f"{setting} is set, but no keys are set")
        return None
    if active is None and len(keys) > 1:
        raise ContractInvalid(f"several {purpose} keys are set; set {setting} to the one that signs")
    return KeyRing(active or next(iter(keys)), {kid: secret.encode() for kid, secret in keys.items()})


def _keys_in(path: Path, name: str) -> dict[str, str]:
    try:
        keys = json.loads(_read(path, name))
    except ValueError:
        keys = None
    if not isinstance(keys, dict) or not all(isinstance(secret, str) for secret in keys.values()):
        raise ContractInvalid(f'{name}: {path} must be JSON: {{"key id": "secret"}}')
    return keys
