"""JUnit XML: every finding is a failed test, every clean file a passed one."""

from collections.abc import Iterator
from html import escape

from verblint.report import Finding, Problem, Report, Suppressed, printable, subject


def render(report: Report) -> str:
    """Render one suite with a case for each finding, clean file and file that could not be checked."""
    cases = [*_cases(report)]
    suite = (
        f'name="verblint" tests="{len(cases)}" failures="{len(report.findings)}" '
        f'errors="{len(report.problems)}" skipped="{len(report.suppressed)}"'
    )
    body = "".join(f"    {case}\n" for case in cases)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites>\n  <testsuite {suite}>\n{body}  </testsuite>\n</testsuites>\n"
    )


def _cases(report: Report) -> Iterator[str]:
    spoiled = {finding.file for finding in report.findings} | {problem.subject for problem in report.problems}
    for file in report.files:
        if file not in spoiled:
            yield f'<testcase classname="{_quote(file)}" name="clean"/>'
    yield from map(_format_failure, report.findings)
    yield from map(_format_skip, report.suppressed)
    yield from map(_broken, report.problems)


def _format_failure(finding: Finding) -> str:
    lines = [f"{finding.file}:{finding.line}:{finding.column}: {finding.severity}", subject(finding), finding.hint]
    text = "\n".join(_quote(line) for line in lines if line)
    return _case(finding, f'<failure type="{finding.code}" message="{_quote(finding.message)}">{text}</failure>')


def _format_skip(entry: Suppressed) -> str:
    return _case(entry.finding, f'<skipped message="{_quote(entry.reason)}"/>')


def _broken(problem: Problem) -> str:
    error = f'<error type="could-not-check" message="{_quote(problem.message)}"/>'
    return f'<testcase classname="{_quote(problem.subject)}" name="checked">{error}</testcase>'


def _case(finding: Finding, outcome: str) -> str:
    name = f"{finding.code} {finding.slug} {finding.element_id}:{finding.line}:{finding.column}"
    return f'<testcase classname="{_quote(finding.file)}" name="{_quote(name)}">{outcome}</testcase>'


def _quote(text: str) -> str:
    return escape(printable(text))
