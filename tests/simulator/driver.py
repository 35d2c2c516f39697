"""Drives the twins by random operations, and what it chooses among."""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from tests.simulator.twins import ENGINE, TENANT, Operation, Stores, Twins
from verbworker.job.frame import Claim, Delivery, Frame
from verbworker.job.job import Job
from verbworker.runbook.event import ParkedToken, Wait
from verbworker.stores.database import Connection
from verbworker.stores.messages.inbox import ClaimedMessage

SECOND = timedelta(seconds=1)
_MODES = (("transactional", "rerun"), ("external", "rerun"), ("external", "hold"))
_MADE = re.compile(r"token_id=UUID\('[0-9a-f-]+'\)")  # differs between the twins
_EPOCH_MS = 1_793_577_600_000  # 2026-11-02

Act = TypeVar("Act", bound=Callable[["Driver"], Awaitable[None]])
OPERATIONS: "list[Callable[[Driver], Awaitable[None]]]" = []


def operation(act: Act) -> Act:
    """Have something done now and then."""
    OPERATIONS.append(act)
    return act


class Driver:
    """Does random things to both twins, with what earlier ones left."""

    def __init__(self, twins: Twins, dice: Random) -> None:
        self.twins = twins
        self.dice = dice
        self.uids: list[UUID] = []
        self.entries: list[UUID] = []
        self.claims: list[tuple[int, Claim]] = []
        self.frames: list[Frame] = []
        self.tokens: list[tuple[UUID, UUID]] = []
        self.claimed: list[tuple[int, ClaimedMessage]] = []
        self.contents = [b"first"]
        # Rows that were claimed together are due at the same time, and a smaller claim would take any of them.
        self.most = dice.choice((1, 9))
        # A message takes several steps in order to come anywhere.
        self.acts = [act for act in OPERATIONS for _ in range(3 if "message" in act.__name__ else 1)]

    async def act(self) -> None:
        """One random thing."""
        if not self.uids or self.dice.random() < 0.05:
            await next(act for act in OPERATIONS if act.__name__ == "open_case")(self)
            return
        if self.dice.random() < 0.2:
            await self.twins.move(self.dice.choice((1, 500, 2_000, 6_000, 31_000, 100_000)))
        await self.dice.choice(self.acts)(self)

    def place(self) -> int:
        """A case."""
        return self.dice.randrange(len(self.uids))

    def boot(self) -> int:
        """One of two processes."""
        return self.dice.randrange(2)

    def key(self) -> int:
        """A job key."""
        return self.dice.randint(1, 5)

    def pause(self) -> timedelta:
        """A while."""
        return self.dice.choice((timedelta(0), SECOND, 5 * SECOND, 60 * SECOND))

    async def both(self, operation: Operation) -> tuple[Any, Any]:
        """Do it on both sides."""
        return await self.twins.both(operation)

    def within(self, act: Callable[[Stores, Connection], Awaitable[Any]]) -> Operation:
        """Something inside a transaction."""

        async def operation(stores: Stores) -> Any:
            async with stores.database.transaction() as connection:
                return await act(stores, connection)

        return operation

    def delivery(self) -> Delivery:
        """A job as it is pushed, of one of the cases."""
        key, place = self.key(), self.place()
        mode, on_unknown = _MODES[key % 3]
        uid = self.uids[key % len(self.uids)]
        pinned = self.twins.store.tables["workflow_instance"][uid,]["instance_key"]
        instance_key = pinned if pinned is not None and self.dice.random() < 0.8 else 100 + key % 3
        late = self.dice.choice((0, 0, 0, -40_000, 10_000))
        job = Job(
            *(key, "sim.book", 3, _EPOCH_MS + self.twins.now + late, 60_000, instance_key, 50 + key, 7, 1, "line"),
            *("one", TENANT),
        )
        return Delivery(
            job=job,
            instance_uid=uid if self.dice.random() < 0.95 else None,
            entry_id=self.entries[place],
            mode=mode,
            on_unknown=on_unknown,
            max_runs=3,
            idempotency_window=timedelta(seconds=90),
            idempotency_key=f"key-{key}",
            retries=3,
            input_hash=sha256(self.dice.choice(self.contents)).digest(),
        )

    async def of_claim(self, act: Callable[[Stores, int, Claim], Awaitable[Any]]) -> None:
        """Do something with a claim that somebody had."""
        if self.claims:
            boot, claim = self.dice.choice(self.claims[-4:])
            await self.both(lambda stores: act(stores, boot, claim))

    def token(self, place: int) -> ParkedToken:
        """A wait of a case."""
        kind = self.dice.choice((Wait.HUMAN_GATE, Wait.EXTERNAL_SIGNAL, Wait.INCIDENT))
        return ParkedToken(
            *(TENANT, self.entries[place], self.uids[place], ENGINE, 100 + place, 60 + self.key() + 10 * place),
            *(self.dice.choice(("ask", "first")), kind, "reason"),
            gate="approve" if kind is Wait.HUMAN_GATE else None,
            message_name="paper" if kind is Wait.EXTERNAL_SIGNAL else None,
            job_key=self.dice.choice((self.key(), None)) if kind is not Wait.INCIDENT else self.key(),
            detail={"decisions": ["yes", "no"]} if kind is Wait.HUMAN_GATE else {},
            input_hash=self.dice.choice((None, sha256(b"first").digest(), sha256(b"first").digest())),
        )

    async def of_gate(self, act: Callable[[Stores, UUID], Awaitable[Any]]) -> None:
        """Do something at a gate."""
        if self.tokens:
            real, fake = self.dice.choice(self.tokens)
            await self.both(lambda stores: act(stores, real if stores is self.twins.real else fake))


async def in_order(work: Awaitable[Sequence[Any]]) -> list[Any]:
    """Rows whose order the statement leaves open."""
    return sorted(await work, key=lambda row: _MADE.sub("", repr(row)))
