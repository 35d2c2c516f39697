"""Move instances in one transaction: the path for steps that affect more than their own instance."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from verbworker.engine.embedded.definition_cache import DefinitionCache
from verbworker.engine.embedded.instance_step import InstanceStep
from verbworker.engine.embedded.kernel import commands as told
from verbworker.engine.embedded.kernel.commands import TargetMissing
from verbworker.engine.protocol import Variables
from verbworker.errors import EngineError, JobGone
from verbworker.stores.database import Connection
from verbworker.stores.embedded.subscriptions import StoredMessage, Subscriber, Subscriptions
from verbworker.stores.embedded.tokens import Change, StoredInstance, Tokens, instance_of, new_instance


@dataclass(frozen=True, slots=True)
class EngineStores:
    """The stores and definitions that a transaction needs."""

    tokens: Tokens
    subscriptions: Subscriptions
    definitions: DefinitionCache


class EngineTransaction:
    """All moves of one transaction. Takes keys before rows, so that two transactions rarely conflict."""

    def __init__(self, connection: Connection, stores: EngineStores) -> None:
        self.connection = connection
        self._tokens = stores.tokens
        self._subscriptions = stores.subscriptions
        self._definitions = stores.definitions
        self.changes: list[Change] = []

    async def tell(self, instance_key: int, command: told.Command, *, guard: int = 0, message_key: int = 0) -> bool:
        """Apply a command; return False if the guard blocks it. Raises `TargetMissing` if the target is gone."""
        # Read without a lock first: a lock would be held while waiting for message turns.
        (kept,) = await self._tokens.load_in(self.connection, [instance_key])
        if await self._run_command(kept, command, guard, message_key):
            return True
        kept = await self._tokens.hold(self.connection, instance_key)
        return await self._run_command(kept, command, guard, message_key)

    async def _run_command(
        self, kept: StoredInstance | None, command: told.Command, guard: int, message_key: int
    ) -> bool:
        if kept is None:
            raise TargetMissing("there is no such instance")
        turn = await self.turn(kept, guard=guard)
        turn.tell(command, _now(kept))
        if message_key:
            turn.change.taken.append(message_key)
        return await self.settle(turn, _now(kept))

    async def turn(self, kept: StoredInstance, *, guard: int = 0) -> InstanceStep:
        """Return a step of an instance."""
        compiled = await self._definitions.find(kept.definition_key, self.connection)
        return InstanceStep(compiled.definition, kept, guard=guard)

    async def put(self, instance_key: int, variables: Variables) -> None:
        """Set variables of an instance; raises `TargetMissing` if it has ended."""
        kept = await self._tokens.hold(self.connection, instance_key)
        if kept is None:
            raise TargetMissing("there is no such instance")
        turn = await self.turn(kept)
        turn.put(variables)
        await self.settle(turn, _now(kept))

    async def resolve(self, incident_key: int) -> None:
        """Resolve an incident; raises `JobGone` if it does not exist."""
        try:
            await self.tell(instance_of(incident_key), told.Resolve(incident_key))
        except TargetMissing as error:
            raise JobGone(f"no such incident: {incident_key}") from error

    async def settle(self, turn: InstanceStep, now: datetime) -> bool:
        """Deliver buffered messages to a moved instance, save it, and start instances that its end unblocks."""
        if not await self._save(turn, now):
            return False
        over: InstanceStep | None = turn
        while over is not None and over.change.ended and over.kept.start_key is not None:
            over = await self._begin_next(over.kept)
        return True

    async def settle_all(self, turns: Sequence[InstanceStep]) -> None:
        """Settle instances locked by this transaction; those that affect no other share one statement."""
        quiet = [turn.finish() for turn in turns if turn.is_quiet]
        saved = await self._tokens.save_in(self.connection, quiet) if quiet else []
        self.changes += [change for change, is_saved in zip(quiet, saved, strict=True) if is_saved]
        for turn in turns:
            if not turn.is_quiet:
                await self.settle(turn, _now(turn.kept))

    async def _save(self, turn: InstanceStep, now: datetime) -> bool:
        await self._meet(turn, now)
        if turn.change.ended and turn.kept.start_key is not None:
            await self._subscriptions.take_turn(self.connection, turn.kept.tenant_id, [("", turn.kept.start_key)])
        change = turn.finish()
        (saved,) = await self._tokens.save_in(self.connection, [change])
        if saved:
            self.changes.append(change)
        return bool(saved)

    async def _meet(self, turn: InstanceStep, now: datetime) -> None:
        taken_turns: set[tuple[str, str]] = set()
        while waits := turn.change.subscriptions:
            if turns := set(waits.values()) - taken_turns:
                await self._subscriptions.take_turn(self.connection, turn.kept.tenant_id, sorted(turns))
                taken_turns |= turns
            met = await self._subscriptions.find_message(self.connection, turn.kept, waits, turn.change.taken)
            if met is None:
                return
            turn.change.taken.append(met.message_key)
            turn.tell(told.Deliver(met.wait_key, orjson.loads(met.variables)), now)

    async def _begin_next(self, ended: StoredInstance) -> InstanceStep | None:
        """Start the next buffered message's instance: one instance per key runs at a time."""
        following = await self._subscriptions.next_start(self.connection, ended)
        if following is None:
            return None
        begin = told.Begin(orjson.loads(following.variables), following.element_id)
        place = ended.tenant_id, ended.start_key
        turn, now = await self._begin(following.definition_key, begin, *place, following.message_key)
        await self._save(turn, now)
        return turn

    async def begin(
        self, definition_key: int, begin: told.Begin, *, tenant_id: str, start_key: str | None, message_key: int = 0
    ) -> int:
        """Start an instance and return its key."""
        turn, now = await self._begin(definition_key, begin, tenant_id, start_key or None, message_key)
        await self.settle(turn, now)
        return turn.kept.instance_key

    async def _begin(
        self, definition_key: int, begin: told.Begin, tenant_id: str, start_key: str | None, message_key: int
    ) -> tuple[InstanceStep, datetime]:
        opening = await self._tokens.open_key(self.connection, definition_key)
        if opening is None:
            raise EngineError(f"there is no definition with the key {definition_key}")
        turn = await self.turn(new_instance(opening, tenant_id, start_key))
        turn.tell(begin, opening.now)
        if message_key:
            turn.change.taken.append(message_key)
        return turn, opening.now

    # ---- messages ------------------------------------------------------------------------------------------------

    async def publish(self, message: StoredMessage, ttl_ms: int) -> None:
        """Deliver a message to every subscriber, and buffer it for later ones until its TTL ends."""
        await self._take_turn(message)
        if await self._subscriptions.is_buffered(self.connection, message):
            return
        message_key = await self._subscriptions.buffer(self.connection, message, ttl_ms) if ttl_ms > 0 else 0
        had = await self._deliver(message, message_key)
        await self._start(message, message_key, besides=list(had))

    async def correlate(self, message: StoredMessage) -> int | None:
        """Deliver a message to every current subscriber; return one instance, preferably a started one."""
        await self._take_turn(message)
        started = await self._start(message, 0, besides=())
        had = await self._deliver(message, 0, besides=list(started))
        return next(iter((*started.values(), *had.values())), None)

    async def _take_turn(self, message: StoredMessage) -> None:
        place = message.name, message.correlation_key
        await self._subscriptions.take_turn(self.connection, message.tenant_id, [place])

    async def _deliver(self, message: StoredMessage, message_key: int, besides: Sequence[str] = ()) -> dict[str, int]:
        """Deliver a message once per process, however many of its instances wait for it."""
        had: dict[str, int] = {}
        variables = orjson.loads(message.variables)
        for process, waits in (await self._subscriptions.waiting(self.connection, message)).items():
            for wait in waits if process not in besides else ():
                if await self._reaches(wait, told.Deliver(wait.wait_key, variables), message_key):
                    had[process] = wait.instance_key
                    break
        return had

    async def _reaches(self, wait: Subscriber, deliver: told.Deliver, message_key: int) -> bool:
        try:
            return await self.tell(wait.instance_key, deliver, message_key=message_key)
        except TargetMissing:
            # The instance moved on meanwhile: the next subscriber gets the message.
            return False

    async def _start(self, message: StoredMessage, message_key: int, besides: Sequence[str]) -> dict[str, int]:
        started: dict[str, int] = {}
        variables = orjson.loads(message.variables)
        for start in await self._subscriptions.starting(self.connection, message):
            if start.process_id not in besides and start.process_id not in started:
                started[start.process_id] = await self.begin(
                    start.definition_key,
                    told.Begin(variables, start.element_id),
                    tenant_id=message.tenant_id,
                    start_key=message.correlation_key,
                    message_key=message_key,
                )
        return started


def _now(kept: StoredInstance) -> datetime:
    if kept.now is None:
        raise AssertionError("an instance that was just read has the time of its reading")
    return kept.now
