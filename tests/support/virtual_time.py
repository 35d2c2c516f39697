"""Virtual time: an event loop whose clock jumps to the next thing that is due, so that nothing is ever waited for.

For tests of waiting itself: backoffs of minutes take no time, and a hang is an error at once.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
T = TypeVar("T")


class Hung(Exception):
    """Everybody waits for something that will never happen."""


class _Leaping(selectors.DefaultSelector):
    """A selector that never sleeps: it says how long it should have slept."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Hung("nothing is due any more, and the test has not ended")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for code that waits for its own timers and events only: no sockets, no threads."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def virtual_time(test: Callable[Given, Coroutine[Any, Any, T]]) -> Callable[Given, T]:
    """Run a test on a loop of its own, in no time."""

    @functools.wraps(test)
    def run(*args: Given.args, **given: Given.kwargs) -> T:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(test(*args, **given))

    return run


async def turns(count: int = 50) -> None:
    """Let everything happen that is due right now, and no time pass."""
    for _ in range(count):
        await asyncio.sleep(0)
