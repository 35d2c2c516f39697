"""The course every engine runs: how many steps are still to come, and how long a crowd and a single instance took."""

import asyncio
import json
import sys
import time

STEPS = 5
TEXT = "x" * 1700  # about 2 KB with its envelope


class Course:
    """Times a crowd of instances, then single ones. Whoever started us hears when the crowd sets off and arrives."""

    def __init__(self) -> None:
        self._left = 0
        self._is_over = asyncio.Event()
        self._began = self._cpu_began = self._set_off = 0.0
        self._seconds = self._cpu = 0.0
        self._alone: list[float] = []

    def expect(self, instances: int) -> None:
        """So many instances are about to run."""
        self._left = instances * STEPS
        self._is_over.clear()
        self._set_off = time.perf_counter()

    def stepped(self) -> None:
        """One step is durable."""
        self._left -= 1
        if not self._left:
            self._is_over.set()

    async def ended(self) -> None:
        """Wait for the last step of the last instance."""
        async with asyncio.timeout(600):
            await self._is_over.wait()

    def begin(self) -> None:
        """The crowd sets off."""
        say({"began": True})
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def worked(self) -> None:
        """The crowd has arrived."""
        self._seconds = time.perf_counter() - self._began
        self._cpu = time.process_time() - self._cpu_began
        say({"worked": True})

    def noted_alone(self) -> None:
        """A single instance has arrived."""
        self._alone.append(time.perf_counter() - self._set_off)

    def tell(self) -> None:
        """Print the result as one line of JSON."""
        say({"seconds": self._seconds, "cpu": self._cpu, "alone": self._alone})


def say(words: object) -> None:
    """One line to whoever started us."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
