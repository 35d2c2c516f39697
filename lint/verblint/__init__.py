"""verblint keeps BPMN models for Camunda 8 hollow: the engine waits and branches, verbs do the work.

The names below are imported on first use, so that `import verblint.bpmn.reader` loads only the reader.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from verblint.bpmn.reader import ModelError, read
    from verblint.linter import Linter, lint
    from verblint.report import Finding, Problem, Report, Severity, Suppressed
    from verblint.rule import Rule
    from verblint.settings import Project, Settings, find_project, read_project

__all__ = [
    "Finding",
    "Linter",
    "ModelError",
    "Problem",
    "Project",
    "Report",
    "Rule",
    "Settings",
    "Severity",
    "Suppressed",
    "find_project",
    "lint",
    "read",
    "read_project",
]

_HOMES = {
    "bpmn.reader": ("ModelError", "read"),
    "linter": ("Linter", "lint"),
    "report": ("Finding", "Problem", "Report", "Severity", "Suppressed"),
    "rule": ("Rule",),
    "settings": ("Project", "Settings", "find_project", "read_project"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"verblint.{home}"), name)
    raise AttributeError(f"module 'verblint' has no attribute {name!r}")
