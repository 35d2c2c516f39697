"""Recently used instances. The cache saves a read; every save verifies the revision."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from verbworker.engine.embedded.instance_step import InstanceStep, state_of
from verbworker.engine.embedded.kernel.commands import Command, TargetMissing
from verbworker.engine.embedded.kernel.definition import Definition
from verbworker.engine.embedded.kernel.state import State
from verbworker.stores.embedded.tokens import StoredInstance

_MOST = 4096  # instances; the least recently used go first
_MOST_BYTES = 64 * 1024 * 1024  # of their payloads, in every worker


@dataclass(slots=True)
class CachedInstance:
    """An instance as this process last saw it; a save checks the revision, so a stale one saves nothing."""

    kept: StoredInstance
    variables: dict[str, Any]
    state: State | None = None

    def read(self) -> State:
        """Return the state, parsed on first use."""
        if self.state is None:
            self.state = state_of(self.kept, self.variables)
        return self.state

    def step(self, definition: Definition, command: Command, guard: int) -> InstanceStep | None:
        """Return the step that a command makes; None if other rows are needed first or the command does not apply."""
        turn = InstanceStep(definition, self.kept, self.read(), guard=guard)
        try:
            turn.tell(command, self.kept.now or datetime.now(UTC))
        except TargetMissing:
            return None
        # Timers count from the database's clock, which is unknown for a cached instance.
        is_whole = turn.is_quiet and not (turn.change.timers and self.kept.now is None)
        return turn if is_whole else None

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.kept.variables) + len(self.kept.state)


class InstanceCache:
    """The most recently used instances, bounded in number and in bytes."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, CachedInstance] = OrderedDict()
        self._bytes = 0
        self._turns: dict[int, asyncio.Future[None]] = {}

    def take(self, instance_key: int) -> CachedInstance | None:
        """Remove and return a cached instance."""
        known = self._known.pop(instance_key, None)
        if known is not None:
            self._bytes -= known.size
        return known

    def keep(self, known: CachedInstance) -> None:
        """Cache an instance, unless a later revision is cached."""
        before = self.take(known.kept.instance_key)
        if before is not None and before.kept.revision >= known.kept.revision:
            known = before
        self._known[known.kept.instance_key] = known
        self._bytes += known.size
        while len(self._known) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= self._known.popitem(last=False)[1].size

    def turn(self, instance_key: int) -> "InstanceTurn":
        """Serialize moves of one instance within this process: concurrent ones would only conflict."""
        return InstanceTurn(self._turns, instance_key)


class InstanceTurn:
    """The turn of one command at an instance, as an asynchronous context. Turns come in the order of their requests."""

    __slots__ = ("_key", "_turns", "_until")

    def __init__(self, turns: dict[int, "asyncio.Future[None]"], key: int) -> None:
        self._turns = turns
        self._key = key
        self._until: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> None:
        before = self._turns.get(self._key)
        self._turns[self._key] = self._until
        if before is not None:
            try:
                await asyncio.shield(before)
            except asyncio.CancelledError:
                # Whoever waits for us waits for those before us as well.
                before.add_done_callback(lambda _: self._end())
                raise

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._turns.get(self._key) is self._until:
            del self._turns[self._key]
        self._until.set_result(None)
