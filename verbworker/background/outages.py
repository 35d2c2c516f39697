"""Whether Postgres and the engine answer: noted where they are asked, with one log line each way."""

import logging
from typing import Final

_log = logging.getLogger(__name__)

_SAY_EVERY: Final = 60.0  # seconds, as in service_health: an outage of hours is one line a minute
_SAY_AGAIN: Final = 10.0  # after one that is over: a connection that comes and goes must not fill the log


class Outage:
    """The silence of one server. Services only report that it began: one that is well again may have asked nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a process does."""
        self._is_logged = False
        self._logged_at = float("-inf")

    def tell(self, at: float) -> str | None:
        """Return the line to write about a failure at this time, in seconds; None if it was written lately."""
        if at - self._logged_at < (_SAY_EVERY if self._is_logged else _SAY_AGAIN):
            return None
        self._is_logged, self._logged_at = True, at
        return f"{self._name} does not answer; work continues when it does"

    def note_answer(self) -> None:
        """Note that it answered; the first answer after an outage is logged if the outage was."""
        if self._is_logged:
            self._is_logged = False
            _log.info(f"{self._name} answers again")


POSTGRES: Final = Outage("Postgres")
ENGINE: Final = Outage("The engine")
