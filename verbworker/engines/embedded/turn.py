"""A turn: one instance while commands move it, and everything that has to be saved afterwards."""

from datetime import datetime
from typing import Any

import orjson

from verbworker.engine import Variables
from verbworker.engines.embedded import commands as told
from verbworker.engines.embedded.definition import Definition
from verbworker.engines.embedded.state import State, dumped, loaded
from verbworker.engines.embedded.step import step
from verbworker.errors import CommandInvalid
from verbworker.stores.tokens import KEYS_EACH, Change, IncidentMade, JobMade, Kept

LONGEST_MESSAGE = 10_000


def written(variables: Variables) -> bytes:
    """Variables as JSON; `CommandInvalid` when they are not."""
    try:
        return orjson.dumps(dict(variables))
    except TypeError as error:
        raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error


def checked(variables: Variables) -> dict[str, Any]:
    """The variables as they will be read again: JSON and nothing else."""
    values: dict[str, Any] = orjson.loads(written(variables))
    return values


def cut(words: str) -> str:
    """An error message of bounded length, in characters that a text column can hold."""
    legible = words.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return legible if len(legible) <= LONGEST_MESSAGE else legible[: LONGEST_MESSAGE - 6] + " [...]"


def state_of(kept: Kept, variables: dict[str, Any] | None = None) -> State:
    """The state of a kept instance; `variables` are its own, where somebody has read them already."""
    value = orjson.loads(kept.state)
    value["variables"] = orjson.loads(kept.variables) if variables is None else variables
    return loaded(kept.instance_key, value)


class Turn:
    """One instance on the move. Nothing of it counts before its `change` is saved."""

    def __init__(self, definition: Definition, kept: Kept, state: State | None = None, *, guard: int = 0) -> None:
        self.kept = kept
        self.change = Change(kept, guard)
        self.state = state or (state_of(kept) if kept.revision else State(kept.instance_key))
        self._definition = definition
        self._has_new_variables = not kept.revision

    def tell(self, command: told.Command, now: datetime) -> None:
        """Apply a command; one that raises `NothingThere` or `CommandInvalid` changes nothing."""
        state, effects = step(self._definition, self.state, command, now)
        if state.last_key >= KEYS_EACH:
            raise CommandInvalid(f"instance {self.kept.instance_key} has used up its keys; it goes round for ever")
        self.state = state
        match command:
            case told.Begin(variables) | told.CompleteJob(_, variables) | told.Deliver(_, variables):
                self._has_new_variables |= bool(variables)
        for effect in effects:
            self._note(effect, command)

    def put(self, variables: Variables) -> None:
        """Set variables, as a person does from outside the model."""
        self.state = self.state.copy()
        self.state.variables.update(variables)
        self._has_new_variables = True

    @property
    def is_quiet(self) -> bool:
        """Whether nobody else has to be asked: no wait for a message was opened, and no other instance may begin."""
        change = self.change
        return not change.subscriptions and not (change.ended and self.kept.start_key is not None)

    def finish(self) -> Change:
        """The change, written down."""
        value = dumped(self.state)
        variables = value.pop("variables")
        self.change.variables = written(variables) if self._has_new_variables else None
        self.change.state = b"" if self.change.ended else orjson.dumps(value)
        return self.change

    def kept_now(self) -> Kept:
        """The instance as the database keeps it once the change is saved."""
        kept, change = self.kept, self.change
        return Kept(
            *(kept.instance_key, kept.definition_key, kept.process_id, kept.tenant_id, kept.start_key),
            variables=kept.variables if change.variables is None else change.variables,
            state=change.state,
            revision=kept.revision + 1,
        )

    def _note(self, effect: told.Effect, command: told.Command) -> None:
        change = self.change
        match effect:
            case told.JobMade(key, kind, node, element_instance, retries, headers):
                words = orjson.dumps(dict(headers)).decode()
                change.jobs[key] = JobMade(key, kind, node, element_instance, retries, words)
            case told.JobEnded(key):
                change.jobs.pop(key, None)
                change.jobs_set.pop(key, None)
                change.jobs_gone.append(key)
            case told.JobHeld(key):
                change.jobs_set[key] = True, 0 if isinstance(command, told.ExhaustJob) else None
            case told.JobFreed(key):
                change.jobs_set[key] = False, None
            case told.TimerSet(key, due):
                change.timers[key] = due
            case told.Subscribed(key, message, correlation_key):
                change.subscriptions[key] = message, correlation_key
            case told.WaitClosed(key):
                change.timers.pop(key, None)
                change.subscriptions.pop(key, None)
                change.closed.append(key)
            case told.IncidentMade(key, kind, message, node, job):
                change.incidents[key] = IncidentMade(key, job, node, kind, cut(message))
            case told.IncidentGone(key):
                change.incidents.pop(key, None)
                change.incidents_gone.append(key)
            case told.Ended(status):
                change.ended = status
