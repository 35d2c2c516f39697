"""Settings: one class, one environment prefix, and `verbworker.toml` for what is not secret."""

from pathlib import Path

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from verbworker.errors import ContractInvalid

FILE = Path("verbworker.toml")


class Settings(BaseSettings):
    """Everything an operator may set. The environment wins over `verbworker.toml`."""

    model_config = SettingsConfigDict(env_prefix="VERBWORKER_", toml_file=FILE, extra="forbid")

    dsn: SecretStr | None = Field(default=None, description="the Postgres database, as a URI")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    def database(self) -> str:
        """The database's address, or one sentence on how to give it."""
        if self.dsn is None:
            raise ContractInvalid("no database is set; set VERBWORKER_DSN or pass --dsn")
        return self.dsn.get_secret_value()


def load(**overrides: object) -> Settings:
    """Read the settings; what is None in `overrides` was not given on the command line."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ContractInvalid(f"setting {name}: {first['msg']} (VERBWORKER_{name.upper()} or {FILE})") from None
