"""When tenants are served in turn: while more is due than a claim takes, and only if several tenants have it."""

from collections.abc import Sequence

from verbworker.stores.database import Row

# Serving in turn costs Postgres 0.1 to 0.3 ms more a claim, so a backlog of one tenant is looked through for others
# only at its beginning and at every eighth claim.
_LOOK_EVERY = 8


class Turns:
    """Chooses the statement for the next claim: the oldest rows first, or the tenants in turn.

    Whatever is due is taken while claims find less than they ask for. `served` is the tenant that the next turn begins
    behind.
    """

    def __init__(self) -> None:
        self.served = ""
        self._since_look = _LOOK_EVERY
        self._has_backlog = False
        self._has_several = False

    @property
    def is_next(self) -> bool:
        """Whether the next claim serves the tenants in turn."""
        return self._has_backlog and (self._has_several or self._since_look >= _LOOK_EVERY)

    def note(self, rows: Sequence[Row], most: int) -> None:
        """Note what a claim of at most `most` rows took."""
        if rows and "served" in rows[0]:
            self.served, self._has_several = rows[0]["served"] or "", bool(rows[0]["has_several"])
            self._since_look = 0
        self._since_look += 1
        self._has_backlog = len(rows) >= most
        if not self._has_backlog:
            self._since_look, self._has_several = _LOOK_EVERY, False
