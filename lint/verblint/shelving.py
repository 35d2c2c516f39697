"""Shelving: writes `verblint/shelf.py`, the list of rules that a run can choose from without loading them."""

import sys
from pathlib import Path

from verblint.rulebook import rules

_HEAD = '''"""The shelf: code, name, severity and subject of every rule. Written by `python -m verblint.shelving`."""

SHELF: tuple[tuple[str, str, str, tuple[str, ...], tuple[str, ...]], ...] = (
'''


def shelf_text() -> str:
    """The module as it should be."""
    rows = (
        f'    ("{rule.code}", "{rule.slug}", "{rule.severity}", {_tuple(rule.on)}, {_tuple(rule.words)}),\n'
        for rule in rules()
    )
    return _HEAD + "".join(rows) + ")\n"


def _tuple(names: tuple[str, ...]) -> str:
    written = ", ".join(f'"{name}"' for name in names)
    return f"({written},)" if len(names) == 1 else f"({written})"


def main() -> None:
    """Write the shelf beside this module."""
    Path(__file__).with_name("shelf.py").write_text(shelf_text(), encoding="utf-8")
    sys.stdout.write(f"{len(rules())} rules on the shelf\n")


if __name__ == "__main__":
    main()
