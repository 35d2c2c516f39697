"""Check models in a project's test suite.

from verblint.testing import assert_hollow

def test_models_are_hollow() -> None:
    assert_hollow("processes/**/*.bpmn")
"""

from verblint.linter import Linter, lint_files
from verblint.paths import NoMatch, expand
from verblint.report import CLEAN, Report, render
from verblint.settings import Project, find_project


def assert_hollow(*patterns: str, project: Project | None = None) -> Report:
    """Raise AssertionError with every finding if a model is not hollow, or if a pattern matches no model.

    Without a project, the settings come from the nearest pyproject.toml. Returns the report for further assertions.
    """
    linter = Linter(find_project() if project is None else project)
    try:
        files = [path for pattern in patterns for path in expand(pattern)]
    except NoMatch as error:
        raise AssertionError(str(error)) from None
    for path in filter(linter.is_plain, files):
        raise AssertionError(f"{path} is plain by [tool.verblint], not hollow; leave it out of this pattern")
    report = lint_files(linter, files)
    if report.exit_code(linter.project.max_warnings) != CLEAN:
        problems = "".join(f"{problem}\n" for problem in report.problems)
        raise AssertionError(f"not hollow:\n{render(report, 'concise')}{problems}")
    return report
