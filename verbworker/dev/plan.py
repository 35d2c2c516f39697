"""The plan of a session: which application, which models, on which engine."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session runs."""

    app: str
    models: tuple[str, ...]
    sql: tuple[Path, ...] = ()  # files and folders
    verbs: str = ""
    engine: str = "embedded"
    engine_id: str = "dev"
    tenant: str = "default"

    @property
    def words(self) -> list[str]:
        """The arguments of a worker process."""
        return ["--app", self.app, "--verbs", self.verbs, *self.models]

    def settings(self, dsn: str) -> dict[str, str]:
        """Return the settings that every command of the session needs."""
        return {
            "VERBWORKER_DSN": dsn,
            "VERBWORKER_ENGINE": self.engine,
            "VERBWORKER_ENGINE_ID": self.engine_id,
            "VERBWORKER_TENANT": self.tenant,
            # One login does everything here, on a database of this folder alone.
            "VERBWORKER_OWNER_LOGIN": "allow",
        }
