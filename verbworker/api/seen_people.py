"""Stores the people whose tokens arrive, each once in a while."""

import time
from collections.abc import Callable

from verbworker.api.guard import Sender
from verbworker.stores.database import Database
from verbworker.stores.people.people import People

_AGAIN_AFTER_S = 600.0  # as seldom as key sets are read; a change of name or roles is stored at once
_MOST = 10_000  # senders to remember; more are stored again earlier


class SeenPeople:
    """Remembers who was stored with which roles, so that a request seldom costs a statement."""

    def __init__(self, database: Database, *, now: Callable[[], float] = time.monotonic) -> None:
        self._people = People(database)
        self._now = now
        self._stored: dict[Sender, float] = {}

    async def note(self, sender: Sender) -> None:
        """Store a sender who has an identity and a tenant."""
        if sender.tenant_id is None or sender.person.person_id is None:
            return
        if self._now() - self._stored.get(sender, float("-inf")) < _AGAIN_AFTER_S:
            return
        if len(self._stored) >= _MOST:
            self._stored.clear()
        self._stored[sender] = self._now()
        await self._people.note(sender.tenant_id, sender.person)
