"""One step of an instance, from its start: the commands applied to it and everything to save afterwards."""

from datetime import datetime
from typing import Any, Final

import orjson

from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import TargetMissing
from verbworker.engine.embedded.kernel.definition import Definition
from verbworker.engine.embedded.kernel.state import EndedToken, State
from verbworker.engine.embedded.kernel.state_document import dump_state, load_state
from verbworker.engine.embedded.kernel.step import step
from verbworker.engine.protocol import EngineIncident, Start, Started, Variables
from verbworker.errors import CommandInvalid
from verbworker.job.job import TENANT_ID
from verbworker.stores.database import Database
from verbworker.stores.embedded.tokens import (
    KEYS_EACH,
    Change,
    IncidentRow,
    JobRow,
    NewInstance,
    StoredInstance,
    Tokens,
    instance_of,
    new_instance,
)

LONGEST_MESSAGE = 10_000  # characters of an error; incidents and the console hold it
_MOST_ENDED = 64  # tokens in a document; then they go to the history, so that an instance that loops stays small
DEFAULT_TENANT: Final = "<default>"


def serialize(variables: Variables) -> bytes:
    """Return the variables as JSON; `CommandInvalid` if they cannot be serialized."""
    try:
        return orjson.dumps(dict(variables))
    except TypeError as error:
        raise CommandInvalid(f"variables cannot be written as JSON: {error}") from error


def to_plain_json(variables: Variables) -> dict[str, Any]:
    """Return the variables as they will be read back: plain JSON values."""
    if all(name.isascii() and _is_plain(value) for name, value in variables.items()):
        return dict(variables)
    values: dict[str, Any] = orjson.loads(serialize(variables))
    return values


def _is_plain(value: object) -> bool:
    """Return whether a value is certainly read back as it is: what our own verbs answer is, nearly always."""
    return type(value) is bool or (type(value) is str and value.isascii())


def cut(words: str) -> str:
    """Limit an error message's length and replace characters that a text column cannot hold."""
    legible = words.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return legible if len(legible) <= LONGEST_MESSAGE else legible[: LONGEST_MESSAGE - 6] + " [...]"


def state_of(kept: StoredInstance, variables: dict[str, Any] | None = None) -> State:
    """Return the state of a stored instance; pass `variables` if they are already parsed."""
    value = orjson.loads(kept.state)
    value["variables"] = orjson.loads(kept.variables) if variables is None else variables
    return load_state(kept.instance_key, value)


def engine_incident(row: IncidentRow) -> EngineIncident:
    """Return a stored incident as every engine reports one."""
    place = row.key, instance_of(row.key), row.element_id, row.element_instance_key
    return EngineIncident(*place, row.kind, row.message, row.job or None, row.raised_at)


class InstanceStep:
    """An instance while commands move it. Nothing takes effect before its `change` is saved."""

    def __init__(
        self, definition: Definition, kept: StoredInstance, state: State | None = None, *, guard: int = 0
    ) -> None:
        self.kept = kept
        self.change = Change(kept, guard)
        self.state = state or (state_of(kept) if kept.revision else State(kept.instance_key))
        self._definition = definition
        self._has_new_variables = not kept.revision
        self._tokens: list[EndedToken] = []  # for the stored history

    def tell(self, command: told.Command, now: datetime) -> None:
        """Apply a command; one that raises `TargetMissing` or `CommandInvalid` changes nothing."""
        state, effects = step(self._definition, self.state, command, now)
        if state.last_key >= KEYS_EACH:
            raise CommandInvalid(f"instance {self.kept.instance_key} has used up its keys; its model loops endlessly")
        self._has_new_variables |= _differ(self.state.variables, state.variables)
        self.state = state
        for effect in effects:
            self._note(effect, command)
        if len(state.ended) >= _MOST_ENDED and not self.change.ended and self.kept.revision:
            self._tokens += state.ended
            state.ended = []
            self.change.tokens = orjson.dumps(self._tokens)

    def put(self, variables: Variables) -> None:
        """Set variables from outside the model."""
        self.state = self.state.copy()
        self.state.variables.update(variables)
        self._has_new_variables = True

    @property
    def is_quiet(self) -> bool:
        """Whether only this instance is affected: no message subscription is opened and no other instance may start."""
        change = self.change
        return not change.subscriptions and not (change.ended and self.kept.start_key is not None)

    def finish(self) -> Change:
        """Return the change, serialized."""
        value = dump_state(self.state)
        variables = value.pop("variables")
        self.change.variables = serialize(variables) if self._has_new_variables else None
        self.change.case_tenant = case_tenant if isinstance(case_tenant := variables.get(TENANT_ID), str) else ""
        # An ended instance has no state any more, only the tokens that it had.
        self.change.state = orjson.dumps(self.state.ended if self.change.ended else value)
        return self.change

    def snapshot(self) -> StoredInstance:
        """Return the instance as stored once the change is saved."""
        kept, change = self.kept, self.change
        return StoredInstance(
            *(kept.instance_key, kept.definition_key, kept.process_id, kept.tenant_id, kept.start_key),
            variables=kept.variables if change.variables is None else change.variables,
            state=change.state,
            revision=kept.revision + 1,
        )

    def _note(self, effect: told.Effect, command: told.Command) -> None:
        change = self.change
        match effect:
            case told.JobCreated(key, kind, node, element_instance, retries, headers):
                words = orjson.dumps(dict(headers)).decode()
                change.jobs[key] = JobRow(key, kind, self._element(node), element_instance, retries, words)
            case told.JobEnded(key):
                change.jobs.pop(key, None)
                change.jobs_set.pop(key, None)
                change.jobs_gone.append(key)
            case told.JobHeld(key):
                change.jobs_set[key] = True, 0 if isinstance(command, told.ExhaustJob) else None, 0
            case told.JobRested(key, kind, retries, backoff_ms):
                change.jobs_set[key] = False, retries, backoff_ms
                change.freed += () if backoff_ms else (kind,)
            case told.JobFreed(key):
                change.jobs_set[key] = False, None, 0
            case told.TimerSet(key, due):
                change.timers[key] = due
            case told.Subscribed(key, message, correlation_key):
                change.subscriptions[key] = message, correlation_key
            case told.WaitClosed(key):
                change.timers.pop(key, None)
                change.subscriptions.pop(key, None)
                change.closed.append(key)
            case told.IncidentRaised(key, kind, message, node, job, element_instance):
                place = self._element(node), element_instance
                change.incidents[key] = IncidentRow(key, job, *place, kind, cut(message))
            case told.IncidentGone(key):
                change.incidents.pop(key, None)
                change.incidents_gone.append(key)
            case told.Ended(status):
                change.ended = status

    def _element(self, node: str) -> str:
        return node or self._definition.process_id  # the process itself has no node


def _differ(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a step set any variable. By identity: 1 and true are equal, and not the same variable."""
    return len(before) != len(after) or any(before.get(name, before) is not value for name, value in after.items())


class Starts:
    """Creates instances. Nothing is stored before the first step is saved."""

    def __init__(self, database: Database, tokens: Tokens, definitions: DefinitionCache) -> None:
        self._database = database
        self._tokens = tokens
        self._definitions = definitions

    async def open(self, start: Start) -> NewInstance:
        """Allocate a key for an instance of the requested definition; raises `CommandInvalid`."""
        if start.definition_key is not None:
            opening = await self._tokens.open_key(self._database, start.definition_key)
            wanted = f"key '{start.definition_key}'"
        elif start.version >= 0:
            opening = await self._tokens.open_version(start.process_id, start.version)
            wanted = f"process ID '{start.process_id}' and version '{start.version}'"
        else:
            opening = await self._tokens.open_latest(start.process_id)
            wanted = f"process ID '{start.process_id}'"
        if opening is None:
            raise CommandInvalid(f"expected to find a process definition with {wanted}, but none found")
        return opening

    async def begin(self, start: Start, opening: NewInstance) -> InstanceStep:
        """Return the step that starts the instance; raises `CommandInvalid`."""
        compiled = await self._definitions.find(opening.definition_key)
        if not compiled.definition.root.starts:
            raise CommandInvalid(f"the process {opening.process_id} has no none start event; a message starts it")
        turn = InstanceStep(compiled.definition, new_instance(opening, start.tenant_id or DEFAULT_TENANT))
        try:
            turn.tell(told.Begin(to_plain_json(start.variables)), opening.now)
        except TargetMissing as error:
            raise CommandInvalid(f"the process {opening.process_id} cannot be started: {error}") from error
        return turn


def answer(opening: NewInstance) -> Started:
    """Return the answer for the caller of a start."""
    return Started(opening.instance_key, opening.definition_key, opening.process_id, opening.version)
