"""Write the files derived from the rules: the rule index and the list in the README."""

import sys
from pathlib import Path

from verblint.rule_pages import rule_list
from verblint.rulebook.loader import rules

README = Path(__file__).parents[2] / "README.md"
SHELF_FILE = Path(__file__).with_name("index.py")
_BEGIN, _END = "<!-- rules: written by python -m verblint.rulebook.build_index -->\n", "<!-- /rules -->\n"
_HEAD = '''"""Code, name, severity and subject of every rule. Written by `python -m verblint.rulebook.build_index`."""

SHELF: tuple[tuple[str, str, str, tuple[str, ...], tuple[str, ...]], ...] = (
'''


def shelf_text() -> str:
    """Return the expected source of the index module."""
    rows = (
        f'    ("{rule.code}", "{rule.slug}", "{rule.severity}", {_tuple(rule.on)}, {_tuple(rule.words)}),\n'
        for rule in rules()
    )
    return _HEAD + "".join(rows) + ")\n"


def readme_text(written: str) -> str:
    """Return the README with an up-to-date list of rules."""
    before, _, rest = written.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{rule_list('markdown')}{_END}{after}"


def _tuple(names: tuple[str, ...]) -> str:
    written = ", ".join(f'"{name}"' for name in names)
    return f"({written},)" if len(names) == 1 else f"({written})"


def main() -> None:
    """Write both files; this needs a checkout."""
    if not README.exists():
        raise SystemExit(f"{README} is not there: this writes into a checkout of verblint")
    SHELF_FILE.write_text(shelf_text(), encoding="utf-8")
    README.write_text(readme_text(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{len(rules())} rules\n")


if __name__ == "__main__":
    main()
