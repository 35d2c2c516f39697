"""verblint keeps BPMN models for Camunda 8 hollow: the engine waits and branches, verbs do the work."""

from verblint.startup import NoCollection

with NoCollection():
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


def __getattr__(name: str) -> str:
    """Read `__version__` when it is asked for: the metadata of the installed package take a while to open."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from verblint.report import version

    return version()
