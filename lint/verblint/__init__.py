"""verblint keeps BPMN models for Camunda 8 hollow: the engine waits and branches, verbs do the work."""

from verblint.finding import Finding, Severity
from verblint.linting import Linter, lint
from verblint.project import Project, find_project, read_project
from verblint.reader import ModelError, read
from verblint.report import Problem, Report, Suppressed
from verblint.rule import Rule
from verblint.settings import Settings

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
