"""verblint keeps BPMN models for Camunda 8 hollow: the engine waits and branches, verbs do the work."""

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
