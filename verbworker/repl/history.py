"""History: the lines of earlier sessions, in a file that only its owner can read."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_NAME = Path("verbworker") / "repl-history"
_OWN_FOLDER = 0o700
_OWN_FILE = 0o600


def place(environment: Mapping[str, str]) -> Path:
    """Where the lines are kept: under the state home that XDG names, or the usual one."""
    home = Path(environment.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / _NAME


def opened(environment: Mapping[str, str]) -> History:
    """The kept lines, or a memory that ends with the session where nothing can be written."""
    try:
        file = place(environment)
        file.parent.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, _OWN_FILE))
        file.chmod(_OWN_FILE)
    except (OSError, RuntimeError):  # a full or foreign disk, or nobody's home
        return InMemoryHistory()
    return KeptHistory(str(file))


class KeptHistory(FileHistory):
    """A history that survives a disk which does not: what cannot be kept is remembered for this session."""

    def load_history_strings(self) -> Iterable[str]:
        """The kept lines, the latest first; none when they cannot be read."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Keep a line when that is possible."""
        try:
            super().store_string(string)
        except OSError:
            return
