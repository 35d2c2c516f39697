"""Credentials as they are now: what is removed from their file counts no more."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from verbworker.errors import CannotRun, ContractInvalid

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]

Known = TypeVar("Known")


class LiveCredentials(Generic[Known]):
    """The credentials of a server. Their file is read again whenever it has changed.

    A file that cannot be read or is invalid changes nothing and is logged: half a file must not lock everybody out.
    """

    def __init__(self, read: Callable[[], Known], file: Path | None = None) -> None:
        # The stamp comes first: what changes while the file is read is read again.
        self._stamp = _stamp(file)
        self._read = read
        self._file = file
        self._found = read()

    def current(self) -> Known:
        """Return the credentials that are valid now; the same object until they change."""
        stamp = _stamp(self._file)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read_again()
        return self._found

    def _read_again(self) -> None:
        try:
            found = self._read()
            if not found and not _has_text(self._file):
                raise ContractInvalid("the credentials file is empty; to remove every credential, write {}")
        except (ContractInvalid, CannotRun) as error:
            _log.error("credentials not read again; the last ones stay valid", extra={"reason": str(error)})
            return
        _log.info("credentials read again")
        self._found = found


def _stamp(file: Path | None) -> _Stamp | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _has_text(file: Path | None) -> bool:
    try:
        return file is not None and bool(file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return False
