"""How often the feeds of a process together repeat polls that the engine refused because it is too busy."""

# Polls per second. The upper one lets a moment of backpressure pass unnoticed; at the lower one 32 workers cost the
# engine 64 polls a second, which a starved broker still answers.
_MOST = 40.0
_LEAST = 2.0
_MOMENT = 1.0  # seconds: refusals within it are one complaint, and the first complaint after a pause changes nothing


class PollRetries:
    """A rate that all feeds of a process share: halved while the engine refuses polls, raised by each answer.

    Every verb has a feed of its own, so pauses of single feeds do not suffice: with 36 verbs in four workers, each
    polling once a second, a broker that was short of processors stayed too busy for any of them, although it had
    nothing else to do.
    """

    def __init__(self) -> None:
        self._rate = _MOST
        self._moment = self._refused_at = float("-inf")
        self._next_at = float("-inf")

    def schedule(self, now: float) -> float:
        """Record a refusal and schedule the next poll; return how many seconds away it is."""
        if now - self._refused_at > 2 * _MOMENT:
            self._moment = now
        elif now - self._moment >= _MOMENT:
            self._rate, self._moment = max(_LEAST, self._rate / 2), now
        self._refused_at = now
        due = max(now, self._next_at)
        self._next_at = due + 1 / self._rate
        return due - now

    def note_answer(self) -> None:
        """Record that the engine answered a poll."""
        self._rate = min(_MOST, self._rate + 1)
