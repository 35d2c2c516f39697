"""The configured logins as they are now: a key that is removed from the credentials file counts no more."""

import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from verbworker.app.api_keys import ApiKey
from verbworker.console.settings import ConsoleSettings, Logins, OidcLogin
from verbworker.errors import ContractInvalid
from verbworker.http.keys import holder_of

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class LiveLogins:
    """Who may log in. The credentials file is read again whenever it has changed.

    A file that cannot be read or is invalid changes nothing and is logged: half a file must not lock everybody out.
    """

    def __init__(self, logins: Logins, file: Path | None = None, read: Callable[[], Logins] | None = None) -> None:
        self._file = file
        self._read = read
        self._stamp = _stamp(file)
        self._use(logins)

    @classmethod
    def of(cls, settings: ConsoleSettings, logins: Logins) -> "LiveLogins":
        """Follow the credentials file of a console, whose logins were read just now; without a file nothing changes."""
        is_given = settings.credentials is not None and settings.credentials.get_secret_value().strip()
        return cls(logins, None if is_given else settings.credentials_file, settings.logins)

    @property
    def has_keys(self) -> bool:
        """Whether people can log in by a key."""
        self._refresh()
        return bool(self._keys)

    def holder(self, key: str) -> ApiKey | None:
        """Return the holder of a key, or None if it is unknown."""
        self._refresh()
        return holder_of(key, self._keys)

    def knows(self, credential: bytes) -> bool:
        """Return whether the credential that began a session is still configured."""
        self._refresh()
        return credential in self._credentials

    def _refresh(self) -> None:
        stamp = _stamp(self._file)
        if self._read is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            found = self._read()
            if not found and not _has_text(self._file):
                raise ContractInvalid("the credentials file is empty; to remove every login, write {}")
        except ContractInvalid as error:
            _log.error("credentials not read again; the last ones stay valid", extra={"reason": str(error)})
            return
        _log.info("credentials read again", extra={"keys": len(found.api_keys)})
        self._use(found)

    def _use(self, logins: Logins) -> None:
        self._keys = [(bytes.fromhex(key.sha256), key) for key in logins.api_keys]
        self._credentials = {credential_of_key(key) for key in logins.api_keys}
        if logins.oidc is not None:
            self._credentials.add(credential_of_issuer(logins.oidc))


def credential_of_key(key: ApiKey) -> bytes:
    """Return the digest that names a key in its sessions: other roles, holder or tenant are another credential."""
    roles = () if key.roles is None else ("roles", *sorted(key.roles))
    return _digest("key", key.tenant, key.name, key.sha256, *roles)


def credential_of_issuer(oidc: OidcLogin) -> bytes:
    """Return the digest that names an issuer in its sessions: if roles are read otherwise, it is another credential."""
    return _digest("oidc", oidc.issuer, oidc.client_id, oidc.roles_claim or "", *sorted(oidc.roles))


def _digest(*words: str) -> bytes:
    return sha256("\x00".join(words).encode()).digest()


def _stamp(file: Path | None) -> _Stamp | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _has_text(file: Path | None) -> bool:
    return file is not None and bool(file.read_text(encoding="utf-8").strip())
