"""Carries the roles of keys to the engine's task list, which knows people by their names only."""

from verbworker.background.poll_loop import PollLoop
from verbworker.console.access.live_logins import LiveLogins
from verbworker.console.settings import Logins
from verbworker.stores.people.people import People

_EVERY_S = 2.0  # a look at the time of a file


class KeyRoles:
    """Stores what the roles of each key are now, at the start and when the credentials change.

    Without it the task list would go on with the roles of the last login by a key, also of one that is removed.
    """

    def __init__(self, logins: LiveLogins, people: People) -> None:
        self._logins = logins
        self._people = people
        self._stored: Logins | None = None
        self.service = PollLoop("key roles", self.store, every=_EVERY_S)

    async def store(self) -> int:
        """Store the roles if the credentials have changed; return 0, because nothing is left to do then."""
        found = self._logins.logins
        if found is self._stored:
            return 0
        before = () if self._stored is None else self._stored.api_keys
        by_tenant: dict[str, dict[str, frozenset[str] | None]] = {key.tenant: {} for key in (*before, *found.api_keys)}
        for key in found.api_keys:
            by_tenant[key.tenant][key.name] = key.roles
        for tenant, roles in by_tenant.items():
            await self._people.change_keys(tenant, roles)
        self._stored = found
        return 0
