"""The lines of earlier sessions, in a file that only its owner can read."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_NAME = Path("verbworker") / "repl-history"
# Lines hold names and arguments of cases, so other users of the machine must not read them.
_OWN_FOLDER = 0o700
_OWN_FILE = 0o600


def place(environment: Mapping[str, str]) -> Path:
    """Return the path of the history file: below `XDG_STATE_HOME`, or the default state directory."""
    home = Path(environment.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / _NAME


def open_history(environment: Mapping[str, str]) -> History:
    """Open the history file, or an in-memory history if nothing can be written."""
    try:
        file = place(environment)
        file.parent.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, _OWN_FILE))
        file.chmod(_OWN_FILE)
    except (OSError, RuntimeError):  # a full or read-only disk, or no home directory
        return InMemoryHistory()
    return KeptHistory(str(file))


class KeptHistory(FileHistory):
    """A file history that tolerates disk errors: lines that cannot be written last for this session."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, the latest first; none if they cannot be read."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Store a line if possible."""
        with suppress(OSError):
            super().store_string(string)
