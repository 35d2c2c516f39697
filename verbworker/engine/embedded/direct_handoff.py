"""Direct handoff: a new job goes to a local waiter for its type before another worker can activate it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.waiters import Waiter, Waiters
from verbworker.engine.protocol import Ask
from verbworker.job.job import Job
from verbworker.stores.embedded.tokens import Activation


def job_of(taken: Activation, variables: dict[str, Any], ask: Ask, version: int) -> Job:
    """Return the job with the variables its worker asked for."""
    kept = taken.kept
    wanted = {name: variables[name] for name in ask.variables if name in variables} if ask.variables else variables
    return Job(
        key=taken.key,
        type=taken.type,
        retries=taken.retries,
        activated_ms=taken.activated_ms,
        timeout_ms=ask.timeout_ms,
        process_instance_key=kept.instance_key,
        element_instance_key=taken.element_instance_key,
        process_definition_key=kept.definition_key,
        process_version=version,
        process_id=kept.process_id,
        element_id=taken.element_id,
        tenant_id=kept.tenant_id,
        variables=wanted,
        headers=orjson.loads(taken.headers),
    )


@dataclass(frozen=True, slots=True)
class Promises:
    """The new jobs of one step that are promised to waiters."""

    turn: InstanceStep
    guests: dict[int, Waiter]
    unread: Callable[[list[Job]], None]
    kept: set[int] = field(default_factory=set)

    def keep(self, version: int, at_ms: int) -> None:
        """Deliver every promised job to its waiter after the step is saved."""
        kept = self.turn.kept_now()
        for key, guest in self.guests.items():
            made = self.turn.change.jobs[key]
            words = made.key, made.type, made.element_id, made.element_instance_key, made.retries, made.headers
            job = job_of(Activation(*words, at_ms, kept), self.turn.state.variables, guest.ask, version)
            self.kept.add(key)
            if not guest.bring(job):
                self.unread([job])


class DirectHandoff:
    """Promises jobs before they are saved, so that one statement saves and activates them."""

    def __init__(self, hall: Waiters, unread: Callable[[list[Job]], None]) -> None:
        self._hall = hall
        self._unread = unread

    @contextmanager
    def promise(self, turn: InstanceStep) -> Iterator[Promises]:
        """Promise the jobs that the step creates; promises not kept inside the block are withdrawn.

        If the answer to the save is lost, its jobs stay locked until their timeout, as with any worker that dies.
        """
        change, guests = turn.change, dict[int, Waiter]()
        for key, made in change.jobs.items():
            guest = self._hall.promise(made.type, turn.kept.tenant_id)
            if guest is not None:
                guests[key] = guest
                change.jobs[key] = replace(made, worker=guest.ask.worker, timeout_ms=guest.ask.timeout_ms)
        promises = Promises(turn, guests, self._unread)
        try:
            yield promises
        finally:
            for key, guest in guests.items():
                if key not in promises.kept:
                    guest.withdraw()
