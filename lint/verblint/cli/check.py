"""The `check` command: lints files, prints a report and returns an exit code."""

import os
import sys
from collections.abc import Iterator

from verblint.cli.options import Options
from verblint.linter import Linter, lint_files
from verblint.paths import NoMatch, expand
from verblint.project import Project, find_project, read_project
from verblint.report.render import printable, render, statistics
from verblint.report.report import COULD_NOT_CHECK, FINDINGS, Problem, Report
from verblint.startup.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing `typing` would take a tenth of the startup time.
    from typing import TextIO

_STDIN = "-"
# With less work, starting processes costs more than it saves.
_BYTES_WORTH_PROCESSES = 3_000_000


def check(options: Options) -> int:
    """Run the command and return the exit code."""
    project = _project(options)
    if options.show_settings:
        from verblint.cli.settings_dump import settings_text

        _write(settings_text(project))
        return 0
    linter = _linter(project)
    files, problems = _expand_paths(options)
    report = _lint(linter, files, options)
    report = Report.of([Report(problems=tuple(problems)), report])
    if options.fix or options.diff:
        from verblint.fixes.fix_files import mend

        report, changes = mend(linter, report, write=options.fix)
        if options.diff:
            _write(changes)
            return _exit_code(report, options, project, changed=bool(changes))
    return _finish(report, options, project)


def _finish(report: Report, options: Options, project: Project) -> int:
    """Write or apply the baseline, print the report and return the exit code."""
    if options.write_baseline:
        from verblint.report.baseline import read_baseline, write_baseline

        count = write_baseline(report, options.write_baseline)
        _complain(f"{options.write_baseline}: {count} written down")
        report = read_baseline(options.write_baseline).forgive(report)
    elif baseline := options.baseline or (project.baseline and project.path(project.baseline)):
        from verblint.report.baseline import read_baseline

        known = read_baseline(baseline)
        report = known.forgive(report)
        if outdated := known.count_stale(report):
            _complain(f"{baseline}: {outdated} of its entries no longer occur; write it anew")
    _show(report, options)
    return _exit_code(report, options, project)


def _project(options: Options) -> Project:
    """Return the project's settings, overridden by the command line."""
    project = read_project(options.config) if options.config else find_project()
    if options.engine:
        project = replace(project, settings=replace(project.settings, engine=options.engine))
    if options.profile:
        project = replace(project, settings=replace(project.settings, profile=options.profile))
    if options.verbs:
        # Paths on the command line are relative to the current folder, not to the project's.
        project = replace(project, verbs=os.path.abspath(options.verbs))
    if options.policies is not None:
        project = replace(project, policies=tuple(map(os.path.abspath, options.policies)))
    if options.select is not None:
        project = replace(project, select=options.select)
    if options.ignore is not None:
        project = replace(project, ignore=(*project.ignore, *options.ignore))
    if options.max_warnings is not None:
        project = replace(project, max_warnings=options.max_warnings)
    return project


def _linter(project: Project) -> Linter:
    if not project.verbs:
        return Linter(project)
    from verblint.contracts.contract_files import ContractError

    try:
        return Linter(project)
    except ContractError as error:
        from verblint.cli.options import UsageError

        count = len(error.faults)
        raise UsageError(f"the verb contracts have {count} fault{'s' * (count > 1)}:\n{error}") from None


def _expand_paths(options: Options) -> tuple[list[str], list[Problem]]:
    files: dict[str, None] = {}
    problems = []
    for argument in options.paths:
        try:
            for path in [_STDIN] if argument == _STDIN else expand(argument):
                # Annotations need paths as git writes them. `..` stays: after a symbolic link it may lead to another
                # folder.
                files[path if os.pardir in path else os.path.normpath(path)] = None
        except NoMatch as error:
            problems.append(Problem("", str(error)))
    return list(files), problems


def _lint(linter: Linter, files: list[str], options: Options) -> Report:
    if _STDIN in files:
        content = linter.read(sys.stdin.buffer)
        read = linter.lint(content, options.stdin_filename)
        return Report.of([read, lint_files(linter, [path for path in files if path != _STDIN])])
    if options.jobs == 1 or (not options.jobs and not _is_much(files)):
        return lint_files(linter, files)
    from verblint.parallel import available_processes, lint_in_parallel

    processes = min(options.jobs or available_processes(), len(files))
    return lint_in_parallel(linter, files, processes) if processes > 1 else lint_files(linter, files)


def _is_much(files: list[str]) -> bool:
    return len(files) > 1 and sum(_sizes(files)) > _BYTES_WORTH_PROCESSES


def _sizes(files: list[str]) -> Iterator[int]:
    for path in files:
        try:
            yield os.stat(path).st_size
        except (OSError, ValueError):
            continue


def _show(report: Report, options: Options) -> None:
    to_terminal = not options.output_file and sys.stdout.isatty()
    colour = to_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    text = render(report, options.form, colour=colour)
    if options.output_file:
        from verblint.fixes.write import write_whole

        write_whole(options.output_file, text.encode("utf-8", "backslashreplace"))
    else:
        _write(text)
    for problem in report.problems:
        _complain(str(problem))
    if options.statistics:
        # Machine-readable output must not be followed by a table.
        _write(statistics(report), sys.stdout if options.form in ("full", "concise") else sys.stderr)


def _exit_code(report: Report, options: Options, project: Project, *, changed: bool = False) -> int:
    code = report.exit_code(project.max_warnings)
    if code != COULD_NOT_CHECK and options.exit_zero:
        return 0
    return FINDINGS if changed and code == 0 else code


def _write(text: str, stream: "TextIO | None" = None) -> None:
    stream = stream or sys.stdout
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))


def _complain(sentence: str) -> None:
    _write(f"verblint: {printable(sentence)}\n", sys.stderr)
