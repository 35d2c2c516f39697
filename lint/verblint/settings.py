"""Settings that rules read."""

from verblint.bpmn.reader import Limits
from verblint.startup.value import field, value

ENGINES = ("8.6", "8.7", "8.8", "8.9", "8.10")
# Defined in `verblint.contracts.profiles`, which is imported only if the profile restricts something.
HOLLOW = "hollow"
STRICT_V1 = "strict-v1"
PROFILES = (HOLLOW, STRICT_V1)


@value
class Settings:
    """Settings that rules read; the defaults are the strictest."""

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
