"""The configured logins as they are now: a key that is removed from the credentials file counts no more."""

from hashlib import sha256

from verbworker.app.api_keys import ApiKey
from verbworker.console.settings import ConsoleSettings, Logins, OidcLogin
from verbworker.http.keys import holder_of
from verbworker.http.live_credentials import LiveCredentials
from verbworker.http.settings import file_to_follow


class LiveLogins:
    """Who may log in, by the credentials of now."""

    def __init__(self, credentials: LiveCredentials[Logins]) -> None:
        self._source = credentials
        self._used: Logins | None = None

    @classmethod
    def of(cls, settings: ConsoleSettings) -> "LiveLogins":
        """Follow the credentials file of a console; credentials of the environment do not change."""
        return cls(LiveCredentials(settings.logins, file_to_follow(settings.credentials, settings.credentials_file)))

    @property
    def logins(self) -> Logins:
        """The logins themselves."""
        return self._source.current()

    @property
    def has_keys(self) -> bool:
        """Whether people can log in by a key."""
        return bool(self.logins.api_keys)

    def holder(self, key: str) -> ApiKey | None:
        """Return the holder of a key, or None if it is unknown."""
        self._refresh()
        return holder_of(key, self._keys)

    def knows(self, credential: bytes) -> bool:
        """Return whether the credential that began a session is still configured."""
        self._refresh()
        return credential in self._credentials

    def _refresh(self) -> None:
        logins = self.logins
        if logins is self._used:
            return
        self._used = logins
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
