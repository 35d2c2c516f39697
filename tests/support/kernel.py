"""A game against the kernel: one instance in memory, moved by the names a drawing uses."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.support.drawing import Drawing
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.definition import compile_models
from verbworker.engine.embedded.kernel.state import State
from verbworker.engine.embedded.kernel.state_document import dump_state, load_state
from verbworker.engine.embedded.kernel.step import step
from verbworker.engine.embedded.kernel.token_life import TokenEvent

INSTANCE = 1 << 20
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Game:
    """One instance. After every move its state has gone through JSON and back, as it does in a database."""

    def __init__(self, drawing: Drawing) -> None:
        (self.definition,) = compile_models(drawing.xml(), "drawing.bpmn")
        self.state = State(INSTANCE)
        self.jobs: dict[int, told.JobCreated] = {}
        self.ended: str | None = None
        self.now = NOON
        self.effects: list[told.Effect] = []
        self.events: list[TokenEvent] = []

    def begin(self, **variables: Any) -> "Game":
        return self.tell(told.Begin(variables))

    def tell(self, command: told.Command) -> "Game":
        """Apply one command and keep what it asks of the world."""
        state, effects = step(self.definition, self.state, command, self.now)
        self.state = load_state(INSTANCE, json.loads(json.dumps(dump_state(state))))
        assert self.state == state
        self.effects = effects
        self.events += state.events
        for effect in effects:
            self._heed(effect)
        assert sorted(self.jobs) == sorted(self.state.jobs)
        return self

    def _heed(self, effect: told.Effect) -> None:
        match effect:
            case told.JobCreated(key):
                self.jobs[key] = effect
            case told.JobEnded(key):
                del self.jobs[key]
            case told.Ended(status):
                self.ended = status

    def open_jobs(self) -> list[str]:
        """The types of the jobs that somebody may work on, in order."""
        return sorted(job.type for job in self.jobs.values())

    def job(self, kind: str) -> int:
        return min(key for key, job in self.jobs.items() if job.type == kind)

    def complete(self, kind: str, **variables: Any) -> "Game":
        return self.complete_key(self.job(kind), **variables)

    def complete_key(self, key: int, **variables: Any) -> "Game":
        return self.tell(told.CompleteJob(key, variables))

    def throw(self, kind: str, code: str) -> "Game":
        return self.tell(told.ThrowError(self.job(kind), code))

    def exhaust(self, kind: str) -> "Game":
        return self.tell(told.ExhaustJob(self.job(kind), "no retry is left"))

    def fire(self, node: str) -> "Game":
        return self.fire_key(self._wait(node))

    def fire_key(self, key: int) -> "Game":
        return self.tell(told.Fire(key))

    def deliver(self, node: str, **variables: Any) -> "Game":
        return self.tell(told.Deliver(self._wait(node), variables))

    def resolve(self) -> "Game":
        return self.tell(told.Resolve(min(self.state.incidents)))

    def cancel(self) -> "Game":
        return self.tell(told.Cancel())

    def _wait(self, node: str) -> int:
        return next(key for key, wait in self.state.waits.items() if wait.node == node)
