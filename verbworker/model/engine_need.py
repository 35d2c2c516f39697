"""The first engine that accepts a model: older ones refuse it, with words that only their authors understand."""

from dataclasses import dataclass

from verblint.bpmn.element import ZEEBE
from verblint.bpmn.zeebe_schema import SHAPES, Version
from verbworker.model.element_tree import open_tree
from verbworker.model.weave import CANCEL_LISTENERS_SINCE

_OLDEST = (8, 6)  # the first engine that the linter has a profile for


@dataclass(frozen=True, slots=True)
class EngineNeed:
    """What of a model only later engines have, and since when."""

    what: str
    since: Version

    def refusal(self, version: str, number: Version) -> str | None:
        """Return why a cluster of this version does not take the model; None if it does."""
        if number >= self.since:
            return None
        known = _format(max(number, _OLDEST))
        return (
            f"the cluster is Zeebe {version}, and the woven model has {self.what} engine {_format(self.since)};"
            f' set engine = "{known}" in [tool.verblint], run verblint check --fix, and deploy again'
        )


_TASK_LISTENERS = EngineNeed("task listeners, which need", SHAPES["taskListener"].since)
_CANCEL_LISTENER = EngineNeed("a cancel listener, which needs", CANCEL_LISTENERS_SINCE)


def read_need(content: bytes) -> EngineNeed | None:
    """Return what decides the first engine of a deployed model; None if every supported one takes it."""
    with open_tree(content) as root:
        if any(found.get("eventType") == "cancel" for found in root.walk("executionListener", ZEEBE)):
            return _CANCEL_LISTENER
        return next((_TASK_LISTENERS for _ in root.walk("taskListener", ZEEBE)), None)


def _format(version: Version) -> str:
    return ".".join(map(str, version))
