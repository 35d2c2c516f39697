"""What a consumer of a message bus gives to `verbworker consume`: envelopes, each with its acknowledgement."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Delivery:
    """One envelope from a bus: its bytes (JSON), and how to tell the bus that it need not deliver it again.

    `acknowledge` is called once the message is committed in the inbox, or its dead letter is. A delivery that is not
    acknowledged must come again. With `tenant_id` an envelope of any other tenant is a dead letter of that tenant.
    """

    body: bytes
    acknowledge: Callable[[], Awaitable[object]]
    tenant_id: str | None = None


class Consumer(Protocol):
    """An async generator function. It connects, yields deliveries, and disconnects when it is closed.

    It is asked for the next delivery only when the one before is acknowledged. If it raises an `OSError`, or any error
    after it has worked once, it is called again after a pause. When it returns, the process ends.
    """

    def __call__(self) -> AsyncIterator[Delivery]:
        """Connect and yield deliveries."""
