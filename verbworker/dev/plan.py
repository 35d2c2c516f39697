"""The plan of a session: which application, which models, on which engine."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session is for."""

    app: str
    models: tuple[str, ...]
    sql: tuple[Path, ...] = ()
    verbs: str = ""
    engine: str = "embedded"
    engine_id: str = "dev"
    tenant: str = "default"

    @property
    def words(self) -> list[str]:
        """What a hand is told."""
        return ["--app", self.app, "--verbs", self.verbs, *self.models]

    def settings(self, dsn: str) -> dict[str, str]:
        """What every command needs to know to take part."""
        return {
            "VERBWORKER_DSN": dsn,
            "VERBWORKER_ENGINE": self.engine,
            "VERBWORKER_ENGINE_ID": self.engine_id,
            "VERBWORKER_TENANT": self.tenant,
        }
