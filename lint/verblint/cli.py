"""The `verblint` command: check, draw, explain, rules."""

import gc
import os
import sys
from collections.abc import Sequence

from verblint.linter import Linter, lint_files
from verblint.paths import NoMatch, expand
from verblint.report import COULD_NOT_CHECK, FINDINGS, FORMATS, Problem, Report, printable, render, statistics
from verblint.settings import ENGINES, PROFILES, Project, SettingError, find_project, read_project
from verblint.startup import TYPE_CHECKING
from verblint.startup.streams import OutputError, finish_output, guard_output
from verblint.startup.value import replace, value

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any, NoReturn, TextIO

_STDIN = "-"
_INTERRUPTED = 130  # what shells use for SIGINT
_CHECK = """\
Check models. A PATH is a file, a folder, a pattern ("processes/**/*.bpmn") or - for standard input.

Exit code: 0 clean, 1 findings, 2 something could not be checked, 141 the reader of the output closed its pipe."""

_DRAW = """\
Draw models as SVG: from the diagram in the file, or with a layout made up where there is none. A PATH is a file, a
folder, a pattern or - for standard input. One model goes to standard output unless -o names a file.

Exit code: 0 drawn, 2 something could not be drawn, 141 the reader of the output closed its pipe."""


class UsageError(Exception):
    """An invalid command line; the message is shown to the user."""


@value(kw_only=True)
class Options:
    """The options of `verblint check`; None leaves the choice to the project's settings."""

    paths: tuple[str, ...] = ()
    form: str = "full"
    output_file: str = ""
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    engine: str = ""
    profile: str = ""
    verbs: str = ""
    policies: tuple[str, ...] | None = None
    config: str = ""
    baseline: str = ""
    write_baseline: str = ""
    stdin_filename: str = "<stdin>"
    fix: bool = False
    diff: bool = False
    statistics: bool = False
    show_settings: bool = False
    exit_zero: bool = False
    max_warnings: int | None = None
    jobs: int = 0


def run() -> None:  # pragma: no cover  # it ends its process, so tests start one
    """Run the command line and exit the process."""
    # Imports create many objects but no garbage, and model trees are taken apart after use.
    gc.disable()
    code = run_command()
    # All output is flushed. Deallocating every object would take longer than checking a model.
    os._exit(code)


def run_command(words: Sequence[str] | None = None) -> int:
    """Run a command line, write all its output, and return its exit code; changes the standard streams."""
    guard_output()
    code, failure = 0, None
    try:
        code = main(words)
    except OutputError as error:
        failure = error
    except SystemExit:
        pass  # argparse has printed the help
    return finish_output("verblint", code, failure)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Errors are one sentence on standard error.

    Raises only `OutputError`, for who called `guard_output`.
    """
    words = sys.argv[1:] if words is None else list(words)
    try:
        return check(check_options(words[1:])) if words[:1] == ["check"] else _show_pages(words)
    except (UsageError, SettingError) as error:
        return _fail(str(error))
    except OutputError:
        raise
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _show_pages(words: list[str]) -> int:
    """Run any command other than `check`."""
    from verblint.report import version
    from verblint.rule_pages import explain, rule_list

    given = parser().parse_args(words)
    if given.version:
        sys.stdout.write(f"verblint {version()}\n")
    elif given.command == "explain":
        sys.stdout.write(explain(given.rule))
    elif given.command == "rules":
        sys.stdout.write(rule_list(given.form))
    elif given.command == "draw":
        return _draw(given.paths, given.output, given.theme)
    else:
        parser().print_help(sys.stderr)
        return COULD_NOT_CHECK
    return 0


def _draw(paths: list[str], output: str, theme: str) -> int:
    """Draw models, and return the exit code."""
    from verblint.draw_files import draw_files

    files, problems = _expand_paths(paths)
    texts, more = draw_files(files, output, find_project().settings.limits, theme)
    for text in texts:
        _write(text)
    for problem in [*problems, *more]:
        _complain(str(problem))
    return COULD_NOT_CHECK if problems or more else 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"verblint: {sentence}\n")
    return COULD_NOT_CHECK


def check_options(words: Sequence[str]) -> Options:
    """Parse the options of `verblint check`. With paths only, argparse is not loaded."""
    if words and not any(word.startswith("-") for word in words):
        return Options(paths=tuple(words))
    given = parser().parse_args(["check", *words])
    return _options(given)


def parser() -> "ArgumentParser":
    """Return the parser of all commands."""
    from argparse import ArgumentParser

    from verblint.startup.help_width import formatter

    class Parser(ArgumentParser):
        """A parser that raises instead of exiting; so are those of its commands."""

        def __init__(self, **options: "Any") -> None:
            super().__init__(**options, allow_abbrev=False, formatter_class=formatter)

        def error(self, message: str) -> "NoReturn":
            """Raise UsageError with the message."""
            raise UsageError(f"{message}; see {self.prog} --help")

        def print_help(self, file: "Any" = None) -> None:
            """Write the help; argparse's own method ignores output that cannot be written."""
            (file or sys.stdout).write(self.format_help())

    top = Parser(prog="verblint", description="Keeps BPMN models for Camunda 8 hollow.")
    top.add_argument("--version", action="store_true", help="Print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser("check", help="Check models", description=_CHECK)
    _add_check(check)
    drawing = commands.add_parser("draw", help="Draw models as SVG", description=_DRAW)
    drawing.add_argument("paths", metavar="PATH", nargs="+")
    drawing.add_argument("-o", "--output", metavar="FILE", default="", help="File or, for several models, folder")
    drawing.add_argument(
        "--theme", choices=("auto", "light", "dark"), default="auto", help="Colours (auto: the system's)"
    )
    explain = commands.add_parser("explain", help="Explain a rule: what it requires and why")
    explain.add_argument("rule", metavar="RULE", help="Code or name of a rule: HB203, bare-flag")
    listing = commands.add_parser("rules", help="List all rules")
    listing.add_argument("--format", dest="form", choices=("text", "json", "markdown"), default="text")
    return top


def _add_check(check: "ArgumentParser") -> None:
    check.add_argument("paths", metavar="PATH", nargs="*")
    report = check.add_argument_group("the report")
    report.add_argument("--format", dest="form", choices=FORMATS, default="full")
    report.add_argument("--output-file", metavar="FILE", default="", help="Write the report to FILE")
    report.add_argument("--statistics", action="store_true", help="Print the number of findings of each rule")
    report.add_argument("--exit-zero", action="store_true", help="Exit with 0 despite findings; problems still fail")
    report.add_argument(
        "--max-warnings", metavar="N", type=_natural, help="Maximum number of warnings that still count as clean"
    )
    rules = check.add_argument_group("the rules")
    rules.add_argument(
        "--select", metavar="RULES", action="append", help="Check only these rules: HB2,bare-flag (HB0xx always)"
    )
    rules.add_argument("--ignore", metavar="RULES", action="append", help="Skip these rules")
    rules.add_argument("--engine", choices=ENGINES, default="", help="Engine that the models must deploy on")
    rules.add_argument("--profile", choices=PROFILES, default="", help="Set of elements that models may and must have")
    rules.add_argument("--verbs", metavar="DIR", default="", help="Folder of verb contracts")
    rules.add_argument("--policies", metavar="FILE", action="append", help="Policy file outside that folder")
    rules.add_argument("--config", metavar="FILE", default="", help="Read [tool.verblint] from FILE")
    rules.add_argument("--show-settings", action="store_true", help="Print the settings and exit")
    old = check.add_argument_group("old models")
    old.add_argument("--baseline", metavar="FILE", default="", help="Ignore the findings listed in FILE")
    old.add_argument("--write-baseline", metavar="FILE", default="", help="Write the findings to FILE")
    fixes = check.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="Apply the safe fixes")
    fixes.add_argument("--diff", action="store_true", help="Show what --fix would change")
    files = check.add_argument_group("files")
    files.add_argument(
        "--stdin-filename", metavar="NAME", default="<stdin>", help="Name of standard input in the report"
    )
    files.add_argument("--jobs", metavar="N", type=_natural, default=0, help="Number of processes (0: automatic)")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


_natural.__name__ = "number"


def _options(given: "Namespace") -> Options:
    words = vars(given) | {
        "paths": tuple(given.paths),
        "select": _split_words(given.select),
        "ignore": _split_words(given.ignore),
        "policies": None if given.policies is None else tuple(given.policies),
    }
    del words["command"], words["version"]
    options = Options(**words)
    if not options.paths and not options.show_settings:
        raise UsageError("name a file, a folder or a pattern to check; see verblint check --help")
    if options.fix and options.diff:
        raise UsageError("--fix changes files and --diff does not; choose one")
    if options.fix and "-" in options.paths:
        raise UsageError("--fix cannot write to standard input; use --diff")
    return options


def _split_words(given: list[str] | None) -> tuple[str, ...] | None:
    """Split comma-separated words from an option given any number of times."""
    if given is None:
        return None
    return tuple(word.strip() for words in given for word in words.split(",") if word.strip())


def check(options: Options) -> int:
    """Run the command and return the exit code."""
    project = _project(options)
    if options.show_settings:
        from verblint.settings_dump import settings_text

        _write(settings_text(project))
        return 0
    linter = _linter(project)
    files, problems = _expand_paths(options.paths)
    report = _lint(linter, files, options)
    report = Report.of([Report(problems=tuple(problems)), report])
    if options.fix or options.diff:
        from verblint.fixes.fix_files import apply_fixes

        report, changes = apply_fixes(linter, report, write=options.fix)
        if options.diff:
            _write(changes)
            return _exit_code(report, options, project, changed=bool(changes))
    return _finish(report, options, project)


def _finish(report: Report, options: Options, project: Project) -> int:
    """Write or apply the baseline, print the report and return the exit code."""
    if options.write_baseline:
        from verblint.baseline import read_baseline, write_baseline

        count = write_baseline(report, options.write_baseline)
        _complain(f"{options.write_baseline}: {count} written down")
        report = read_baseline(options.write_baseline).forgive(report)
    elif baseline := options.baseline or (project.baseline and project.path(project.baseline)):
        from verblint.baseline import read_baseline

        known = read_baseline(baseline)
        report = known.forgive(report)
        if outdated := known.count_stale(report):
            _complain(f"{baseline}: {outdated} of its entries no longer occur; write it again")
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
        count = len(error.faults)
        raise UsageError(f"the verb contracts have {count} fault{'s' * (count > 1)}:\n{error}") from None


def _expand_paths(paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    files: dict[str, None] = {}
    problems = []
    for argument in paths:
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
    processes = 1
    if len(files) > 1 and options.jobs != 1:
        from verblint.parallel import choose_processes, lint_in_parallel

        processes = choose_processes(files, options.jobs)
    return lint_in_parallel(linter, files, processes) if processes > 1 else lint_files(linter, files)


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
