"""What people and callers do in a schedule: ask for cases, send messages, decide, cancel; some of it twice."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from tests.simulator.shapes import MESSAGE, REGISTRY, TENANT, Shape
from verbworker.contract.message import Message
from verbworker.errors import EngineError, NotFound, RequestConflict, StoreError
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.gates.decide import Gates
from verbworker.work.messages.ingress import Ingress
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.router import Caller, Router

if TYPE_CHECKING:
    from tests.simulator.world import World

_TTL = timedelta(minutes=5)  # longer than faults last, and over before a schedule is


class People:
    """They sit behind a process that is never killed, and try again when they are not answered."""

    def __init__(self, world: "World", dice: Random) -> None:
        self._world = world
        self._twice = "twice" in world.plan.classes
        self.asked: dict[int, UUID] = {}
        self._known = [asyncio.Event() for _ in world.shapes]
        self.decided: list[tuple[UUID, str]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._delays = [dice.uniform(0.0, 0.5) for _ in world.shapes]
        self._again = [dice.uniform(0.0, 1.0) for _ in world.shapes]
        self._cancels = [dice.uniform(0.0, 4.0) for _ in world.shapes]
        self._cancelled = {int(dice.random() * len(world.shapes))} if "cancel" in world.plan.classes else set()
        database = cast(Database, world.database(world.entrance))
        engine = world.engine_for(world.entrance)
        owner = world.uuid()
        dispatches = Dispatches(database, engine_id=engine.engine_id, owner=owner)
        self._router = Router(REGISTRY, database, dispatches, cast(Any, None), engine_id=engine.engine_id)
        self._gates = Gates(database, engine)
        self._cancelling = Cancellation(database, dispatches, engine)
        inbox = Inbox(database, engine_id=engine.engine_id, owner=owner)
        self._ingress = Ingress(inbox, DeadLetters(database), ttl=_TTL)

    @property
    def are_done(self) -> bool:
        """Whether they have nothing left to do."""
        return all(task.done() for task in self._tasks)

    def begin(self) -> None:
        """Let them come."""
        for place, shape in enumerate(self._world.shapes):
            times = 2 if self._twice else 1
            for time in range(times):
                self._do(self._ask(place, shape, self._delays[place] + time * self._again[place]))
            for time in range(times):
                for number in range(shape.messages):
                    self._do(self._send(place, number, self._delays[place] + time * self._again[place]))
            if shape.has_gate:
                for by in ("ann", "bob")[:times]:
                    self._do(self._decide(place, by))
            if place in self._cancelled:
                self._do(self._cancel(place, self._cancels[place]))

    def _do(self, coro: Any) -> None:
        self._tasks.append(self._world.spawn(coro))

    async def _insist(self, act: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await act()
            except (StoreError, EngineError):
                await asyncio.sleep(0.7)

    async def _ask(self, place: int, shape: Shape, delay: float) -> None:
        await asyncio.sleep(delay)
        caller = Caller(TENANT, "caller", request_key=f"request-{place}")
        entry = await self._insist(lambda: self._router.invoke(shape.verb, {"number": f"case-{place}"}, caller=caller))
        known = self.asked.setdefault(place, entry.entry_id)
        assert known == entry.entry_id, "one request key made two entries"
        self._known[place].set()
        self._world.tell(f"entry {place} is {entry.entry_id}")
        self._world.poke()

    async def _entry(self, place: int) -> UUID:
        await self._known[place].wait()
        return self.asked[place]

    async def _send(self, place: int, number: int, delay: float) -> None:
        await asyncio.sleep(delay)
        message = Message(
            message_name=MESSAGE,
            message_id=f"message-{place}-{number}",
            correlation_key=f"case-{place}",
            tenant_id=TENANT,
        )
        await self._insist(lambda: self._ingress.take(message, sent_by="sender"))
        self._world.poke()

    async def _decide(self, place: int, by: str) -> None:
        """Decide at every gate that the entry comes to stand at, until it has ended."""
        entry_id = await self._entry(place)
        word = "yes" if by == "ann" else "no"
        while not (await self._insist(lambda: self._router._entry(entry_id))).status.is_final:
            gates = await self._insist(lambda: self._gates.list(TENANT, entry_id=entry_id))
            for gate in gates:
                try:
                    await self._gates.decide(gate.token_id, word, by=by, tenant_id=TENANT)
                    self.decided.append((gate.token_id, word))
                except (RequestConflict, NotFound, StoreError, EngineError) as error:
                    self._world.tell(f"{by} did not decide: {error}")
            await asyncio.sleep(1.5)

    def end(self, entry_id: UUID) -> None:
        """Cancel an entry, as an operator is told to."""
        self._do(self._cancel_entry(entry_id))

    async def _cancel(self, place: int, delay: float) -> None:
        entry_id = await self._entry(place)
        await asyncio.sleep(delay)
        await self._cancel_entry(entry_id)

    async def _cancel_entry(self, entry_id: UUID) -> None:
        try:
            await self._insist(
                lambda: self._cancelling.cancel(entry_id, tenant_id=TENANT, by="ann", reason="not needed")
            )
        except RequestConflict:
            return
