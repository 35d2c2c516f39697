"""The `verblint` command: check, explain, rules."""

import sys
from collections.abc import Sequence

from verblint.cli.options import UsageError, check_options
from verblint.project import SettingError
from verblint.report.report import COULD_NOT_CHECK

_INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Errors are one sentence on standard error."""
    words = sys.argv[1:] if words is None else list(words)
    try:
        return _run(words)
    except (UsageError, SettingError) as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader closed the pipe; nothing more may be written, not even at exit.
        sys.stdout = None
        return COULD_NOT_CHECK
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(words: list[str]) -> int:
    if words and words[0] == "check":
        from verblint.cli.check import check

        return check(check_options(words[1:]))
    return _other(words)


def _other(words: list[str]) -> int:
    """Run any command other than `check`, which must start fast."""
    from verblint.cli.options import parser
    from verblint.report.render import version
    from verblint.rule_pages import explain, rule_list

    given = parser().parse_args(words)
    if given.version:
        sys.stdout.write(f"verblint {version()}\n")
    elif given.command == "explain":
        sys.stdout.write(explain(given.rule))
    elif given.command == "rules":
        sys.stdout.write(rule_list(given.form))
    else:
        parser().print_help(sys.stderr)
        return COULD_NOT_CHECK
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"verblint: {sentence}\n")
    return COULD_NOT_CHECK
