"""What a project may decide about its own linting."""

from verblint.reader import Limits
from verblint.value import field, value

ENGINES = ("8.6", "8.7", "8.8", "8.9", "8.10")


@value
class Settings:
    """The decisions that rules ask for; the defaults are the strict ones."""

    engine: str = "8.8"
    limits: Limits = field(default_factory=Limits)
    service_tasks: int = 15
    allow_identity_mappings: bool = False
    strict_v1: bool = False

    @property
    def engine_version(self) -> tuple[int, int]:
        """The engine profile as numbers, so that 8.10 is newer than 8.9."""
        major, minor = self.engine.split(".")
        return int(major), int(minor)
