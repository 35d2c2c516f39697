"""Links to what Camunda's own pages show of a case: Operate for instances, Tasklist for tasks."""

from dataclasses import dataclass
from typing import Self

from verbworker.app.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineLinks:
    """The addresses of Operate and Tasklist; without one there are no links to it."""

    operate_url: str | None = None
    tasklist_url: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the links of some settings."""
        return cls(settings.operate_url, settings.tasklist_url)

    def instance(self, instance_key: int | None) -> str | None:
        """Return the page of a process instance in Operate."""
        return _page(self.operate_url, "processes/", instance_key)

    def task(self, task_key: int | None) -> str | None:
        """Return the page of a user task in Tasklist, by the key of the task, or of the job of a job-based one."""
        return _page(self.tasklist_url, "", task_key)


NO_LINKS = EngineLinks()
"""For a caller without addresses."""


def _page(base: str | None, path: str, key: int | None) -> str | None:
    return None if base is None or key is None else f"{base.rstrip('/')}/{path}{key}"
