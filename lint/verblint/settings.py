"""What a project may decide about its own linting."""

from verblint.bpmn.reader import Limits
from verblint.startup.value import field, value

ENGINES = ("8.6", "8.7", "8.8", "8.9", "8.10")
# Their content is data in `verblint.contracts.profiles`, which is loaded only where a profile narrows something.
HOLLOW = "hollow"
STRICT_V1 = "strict-v1"
PROFILES = (HOLLOW, STRICT_V1)


@value
class Settings:
    """The decisions that rules ask for; the defaults are the strict ones."""

    engine: str = "8.8"
    limits: Limits = field(default_factory=Limits)
    service_tasks: int = 15
    allow_identity_mappings: bool = False
    profile: str = HOLLOW

    @property
    def engine_version(self) -> tuple[int, int]:
        """The engine profile as numbers, so that 8.10 is newer than 8.9."""
        major, minor = self.engine.split(".")
        return int(major), int(minor)
