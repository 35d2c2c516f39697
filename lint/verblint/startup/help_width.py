"""`formatter`: argparse's help without `shutil`, which loads every kind of archive to ask how wide the terminal is."""

import os
from argparse import RawDescriptionHelpFormatter

_COLUMNS = 80  # what shutil assumes without a terminal


def formatter(prog: str) -> RawDescriptionHelpFormatter:
    """Return a formatter of the terminal's width. argparse makes one for each option it is given, help or no help."""
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
    except (ValueError, OSError):
        columns = 0
    return RawDescriptionHelpFormatter(prog, width=(columns or _COLUMNS) - 2)
