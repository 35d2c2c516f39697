"""Workflow commands of GitHub Actions, which show each finding beside its line in a pull request."""

from verblint.report import Finding, Problem, Report, printable


def render(report: Report) -> str:
    """Render one command per finding and problem."""
    commands = [*map(_finding, report.findings), *map(_problem, report.problems)]
    return "".join(command + "\n" for command in commands)


def _finding(finding: Finding) -> str:
    properties = {
        "file": finding.file,
        "line": finding.line,
        "endLine": finding.end_line,
        "col": finding.column,
        "endColumn": finding.end_column,
        "title": f"{finding.code} {finding.slug}",
    }
    element = f" [{finding.element_id}]" if finding.element_id else ""
    hint = f"\n{finding.hint}" if finding.hint else ""
    return _command(finding.severity, properties, f"{finding.message}{element}{hint}")


def _problem(problem: Problem) -> str:
    return _command("error", {"file": problem.subject, "title": "could not be checked"}, str(problem))


def _command(level: str, properties: dict[str, object], message: str) -> str:
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value != "")
    return f"::{level} {given}::{_escape(message)}"


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _escape(text: str) -> str:
    # Text from a model must not become a command, nor hide what follows in a log.
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)
