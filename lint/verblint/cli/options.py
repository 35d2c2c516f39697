"""The command line options of `verblint`."""

from collections.abc import Sequence

from verblint.report.render import FORMATS
from verblint.settings import ENGINES, PROFILES
from verblint.startup.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import NoReturn

_CHECK = """\
Check models. A PATH is a file, a folder, a pattern ("processes/**/*.bpmn") or - for standard input.

Exit code: 0 clean, 1 findings, 2 something could not be checked."""


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


def check_options(words: Sequence[str]) -> Options:
    """Parse the options of `verblint check`. With paths only, argparse is not loaded."""
    if words and not any(word.startswith("-") for word in words):
        return Options(paths=tuple(words))
    given = parser().parse_args(["check", *words])
    return _options(given)


def parser() -> "ArgumentParser":
    """Return the parser of all commands."""
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    class Parser(ArgumentParser):
        """A parser that raises instead of exiting."""

        def error(self, message: str) -> "NoReturn":
            """Raise UsageError with the message."""
            raise UsageError(f"{message}; see {self.prog} --help")

    top = Parser(prog="verblint", description="Keeps BPMN models for Camunda 8 hollow.", allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="print the version and leave")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser("check", help="check models", description=_CHECK, allow_abbrev=False)
    check.formatter_class = RawDescriptionHelpFormatter
    _add_check(check)
    explain = commands.add_parser("explain", help="what a rule wants and why", allow_abbrev=False)
    explain.add_argument("rule", metavar="RULE", help="a code or a name: HB203, bare-flag")
    listing = commands.add_parser("rules", help="all rules", allow_abbrev=False)
    listing.add_argument("--format", dest="form", choices=("text", "json", "markdown"), default="text")
    return top


def _add_check(check: "ArgumentParser") -> None:
    check.add_argument("paths", metavar="PATH", nargs="*")
    report = check.add_argument_group("the report")
    report.add_argument("--format", dest="form", choices=FORMATS, default="full")
    report.add_argument("--output-file", metavar="FILE", default="", help="write the report there")
    report.add_argument("--statistics", action="store_true", help="count the findings of each rule")
    report.add_argument("--exit-zero", action="store_true", help="findings do not fail the run; problems still do")
    report.add_argument("--max-warnings", metavar="N", type=_natural, help="so many warnings are still clean")
    rules = check.add_argument_group("the rules")
    rules.add_argument("--select", metavar="RULES", action="append", help="only these: HB2,bare-flag (HB0xx always)")
    rules.add_argument("--ignore", metavar="RULES", action="append", help="all but these")
    rules.add_argument("--engine", choices=ENGINES, default="", help="the engine the models must deploy on")
    rules.add_argument("--profile", choices=PROFILES, default="", help="what models may have and must have")
    rules.add_argument("--verbs", metavar="DIR", default="", help="the folder of verb contracts")
    rules.add_argument("--policies", metavar="FILE", action="append", help="a policy file outside that folder")
    rules.add_argument("--config", metavar="FILE", default="", help="read [tool.verblint] here")
    rules.add_argument("--show-settings", action="store_true", help="print what holds, and leave")
    old = check.add_argument_group("old models")
    old.add_argument("--baseline", metavar="FILE", default="", help="forgive what is written down there")
    old.add_argument("--write-baseline", metavar="FILE", default="", help="write down what is found")
    fixes = check.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply the safe fixes")
    fixes.add_argument("--diff", action="store_true", help="show what --fix would change")
    files = check.add_argument_group("files")
    files.add_argument("--stdin-filename", metavar="NAME", default="<stdin>", help="what to call standard input")
    files.add_argument("--jobs", metavar="N", type=_natural, default=0, help="processes; 0 decides by itself")


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
