"""The completion of a job in another transaction: a verb's effect, its verdict and the token move together."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from verbworker.engine.embedded.activation import DirectHandoff, PromisedJobs
from verbworker.engine.embedded.instance_cache import CachedInstance
from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.kernel.commands import CompleteJob
from verbworker.stores.database import Connection
from verbworker.stores.embedded.finishes import Finishes
from verbworker.stores.embedded.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CompletionParts:
    """What completions need of their engine."""

    tokens: Tokens
    finishes: Finishes
    handoff: DirectHandoff
    keep: Callable[[CachedInstance], None]
    """Caches an instance again that was not moved."""
    cache: Callable[[InstanceStep], None]
    """Caches a saved instance and wakes the waiters of its jobs."""
    save: Callable[[Connection, CompleteJob], Awaitable[Callable[[], None]]]
    """Completes a job after reading what is needed; the answer is called after the commit."""


@dataclass(slots=True)
class Completion:
    """One job's completion. Until it ends, the jobs that it makes are promised to local waiters."""

    parts: CompletionParts
    command: CompleteJob
    turn: InstanceStep | None = None
    """The step, if a cached instance was enough to make it."""
    version: int = 0
    known: CachedInstance | None = None
    """The cached instance, while it may be as it was."""
    _promises: PromisedJobs | None = None
    _saved: Callable[[], None] | None = None

    async def finish(self, verdict: Sequence[object]) -> bool:
        """Store a verdict and complete the job by the statement of a batch, or write nothing; return whether it did."""
        turn = self.turn
        if turn is None or turn.change.is_rich:
            return False
        self.known = None
        promises = self._promises = self.parts.handoff.promise(turn)
        at_ms = await self.parts.finishes.finish(verdict, turn.finish())
        if at_ms:
            self._saved = lambda: self._keep(turn, promises, at_ms)
        return bool(at_ms)

    async def finish_in(self, connection: Connection, verdict: Sequence[object]) -> str:
        """Store a verdict and complete the job by one statement, or write nothing; return the answer."""
        turn = self.turn
        if turn is None or turn.change.is_rich:
            return "refused"
        self.known = None
        promises = self._promises = self.parts.handoff.promise(turn)
        answer, at_ms = await self.parts.finishes.finish_in(connection, verdict, turn.finish())
        if answer == "done":
            self._saved = lambda: self._keep(turn, promises, at_ms)
        else:
            self._withdraw()
            self.turn = None
        return answer

    def _keep(self, turn: InstanceStep, promises: PromisedJobs, at_ms: int) -> None:
        self.parts.cache(turn)
        promises.keep(self.version, at_ms)

    async def save_in(self, connection: Connection) -> None:
        """Complete the job after its verdict was stored; raises as the engine's `complete` does."""
        turn, self.known = self.turn, None
        if turn is not None and (await self.parts.tokens.save_in(connection, [turn.finish()]))[0]:
            self._saved = lambda: self.parts.cache(turn)
        else:
            self._saved = await self.parts.save(connection, self.command)

    def end(self, *, is_saved: bool) -> None:
        """Wake waiters after the commit, or withdraw what was promised."""
        try:
            if is_saved and self._saved is not None:
                self._saved()
        finally:
            self._withdraw()
        if self.known is not None:
            self.parts.keep(self.known)

    def _withdraw(self) -> None:
        """Withdraw the promises that were not kept."""
        if self._promises is not None:
            promises, self._promises = self._promises, None
            promises.withdraw()
