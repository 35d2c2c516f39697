"""The messages of an inline engine: subscriptions, and messages buffered for later ones."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from verbworker.engine.inline.clock import Clock
from verbworker.engine.protocol import Signal, Variables


@dataclass(slots=True)
class BufferedMessage:
    """A message: it reaches each process once, across all versions and instances."""

    name: str
    correlation_key: str
    variables: Variables
    message_id: str = ""
    deadline: datetime | None = None
    reached: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Subscription:
    """An open wait for a message."""

    wait: int
    instance: int
    process_id: str
    name: str
    correlation_key: str


class InlineMessages:
    """Subscriptions in the order they were opened, and messages in the order they arrived."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: list[BufferedMessage] = []
        self.subscriptions: dict[int, Subscription] = {}

    def has(self, signal: Signal) -> bool:
        """Return whether a message with this id is buffered, which makes this one a repetition."""
        wanted = (signal.name, signal.correlation_key, signal.message_id)
        return bool(signal.message_id) and any(
            (message.name, message.correlation_key, message.message_id) == wanted for message in self._alive()
        )

    def keep(self, message: BufferedMessage) -> None:
        """Buffer a message until its deadline."""
        self._kept.append(message)

    def waiting(self, message: BufferedMessage) -> list[Subscription]:
        """Return the subscriptions that match a message."""
        wanted = (message.name, message.correlation_key)
        return [known for known in self.subscriptions.values() if (known.name, known.correlation_key) == wanted]

    def find_kept(self, process_id: str, name: str, correlation_key: str) -> BufferedMessage | None:
        """Return the oldest message that has not reached this process yet."""
        for message in self._alive():
            if (message.name, message.correlation_key) == (name, correlation_key) and process_id not in message.reached:
                return message
        return None

    def _alive(self) -> Iterator[BufferedMessage]:
        now = self._clock.now
        self._kept = [message for message in self._kept if message.deadline is not None and message.deadline > now]
        return iter(self._kept)
