"""The options of the command line: one that means the same in two commands is defined once."""

import ast
from collections import Counter
from pathlib import Path

import verbworker

CLI = Path(verbworker.__file__).parent / "cli"


def definitions() -> list[tuple[str, str]]:
    """Flag and help of every option that the sources of the command line define."""
    calls = (
        node
        for path in sorted(CLI.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Option"
    )
    return [
        (str(ast.literal_eval(call.args[0])), ast.unparse(keyword.value))
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "help" and call.args and isinstance(call.args[0], ast.Constant)
    ]


def test_an_option_with_one_meaning_is_defined_once() -> None:
    found = Counter(definitions())

    assert len(found) > 40
    # A reason is required by some commands and may be left out in others, which takes two definitions.
    assert [option for option, times in found.items() if times > 1] == [("--reason", "'Reason, for the record.'")]
