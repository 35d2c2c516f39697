"""Random operations for the twins: each is something that the worker's code does to its stores."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from random import Random
from typing import Any
from uuid import UUID

from tests.simulator.twins import ENGINE, TENANT, Operation, Stores, Twins
from verbworker.beginning import Beginning
from verbworker.event import EntryMode, Kind, Token, Wait
from verbworker.frame import Claim, Delivery, Frame, Step
from verbworker.job import Job
from verbworker.message import Burial, Message, Undeliverable
from verbworker.outcome import Incident, Retry, Thrown, Yielded
from verbworker.stores import payloads
from verbworker.stores._database import Connection, keyed
from verbworker.stores._sql import query
from verbworker.stores.deliveries import _Write
from verbworker.stores.frames import Verdict
from verbworker.stores.inbox import Claimed
from verbworker.stores.instances import Instance
from verbworker.stores.runbook import Request

_SECOND = timedelta(seconds=1)
_MODES = (("transactional", "rerun"), ("external", "rerun"), ("external", "hold"))
_MADE = re.compile(r"token_id=UUID\('[0-9a-f-]+'\)")  # differs between the twins
_EPOCH_MS = 1_793_577_600_000  # 2026-11-02


class Hands:
    """Does random things to both twins, with what earlier ones left."""

    def __init__(self, twins: Twins, dice: Random) -> None:
        self.twins = twins
        self.dice = dice
        self.uids: list[UUID] = []
        self.entries: list[UUID] = []
        self.claims: list[tuple[int, Claim]] = []
        self.frames: list[Frame] = []
        self.tokens: list[tuple[UUID, UUID]] = []
        self.claimed: list[tuple[int, Claimed]] = []
        self.contents = [b"first"]
        names = [name for name in sorted(dir(self)) if name.startswith("do_")]
        # A message takes several steps in order to come anywhere.
        self.acts = [getattr(self, name) for name in names for _ in range(3 if "message" in name else 1)]

    async def act(self) -> None:
        """One random thing."""
        if not self.uids or self.dice.random() < 0.05:
            await self.do_open()
            return
        if self.dice.random() < 0.2:
            await self.twins.move(self.dice.choice((1, 500, 2_000, 6_000, 31_000, 100_000)))
        await self.dice.choice(self.acts)()

    # ---- choices ----------------------------------------------------------------------------------------------------

    def place(self) -> int:
        return self.dice.randrange(len(self.uids))

    def boot(self) -> int:
        return self.dice.randrange(2)

    def key(self) -> int:
        return self.dice.randint(1, 5)

    def pause(self) -> timedelta:
        return self.dice.choice((timedelta(0), _SECOND, 5 * _SECOND, 60 * _SECOND))

    async def both(self, operation: Operation) -> tuple[Any, Any]:
        return await self.twins.both(operation)

    def within(self, act: Callable[[Stores, Connection], Awaitable[Any]]) -> Operation:
        """Something inside a transaction."""

        async def operation(stores: Stores) -> Any:
            async with stores.database.transaction() as connection:
                return await act(stores, connection)

        return operation

    # ---- entries and instances ----------------------------------------------------------------------------------------

    async def do_open(self) -> None:
        if len(self.uids) >= 3:
            return
        uid, entry_id = (UUID(int=self.dice.getrandbits(128), version=4) for _ in range(2))
        number = self.dice.randint(0, 2)
        request = Request(
            *(entry_id, TENANT, f"request-{number}", b"hash", "sim.line", "1", EntryMode.DURABLE, "sentence"),
            *("invocation", b"{}", "caller"),
            process_id="line",
        )
        keys = {"corr_number": f"case-{number}"}
        instance = Instance(
            *(uid, TENANT, entry_id, "sim.line", "1", "sim.line/v1", ENGINE, "line", b"first"), correlation=keys
        )
        beginning = Beginning(uid, entry_id, TENANT, b"first", keys, None, {"a": 1})

        async def open_(stores: Stores, connection: Connection) -> bool:
            if not await stores.runbook.open_in(connection, request):
                return False
            await stores.instances.open_in(connection, instance)
            await stores.dispatches[0].add_in(connection, beginning, "line")
            return True

        made, _ = await self.both(self.within(open_))
        if made is True:
            self.uids.append(uid)
            self.entries.append(entry_id)

    async def do_earlier(self) -> None:
        key = f"request-{self.dice.randint(0, 3)}"
        await self.both(lambda stores: stores.runbook.earlier(TENANT, key))

    async def do_pin(self) -> None:
        uid, key = self.uids[self.place()], self.dice.randint(100, 103)
        await self.both(lambda stores: stores.instances.pin(uid, instance_key=key, definition_key=7, version=1))

    async def do_look_at_instance(self) -> None:
        uid, entry_id = self.uids[self.place()], self.entries[self.place()]
        await self.both(lambda stores: stores.instances.known(uid))
        await self.both(lambda stores: stores.instances.key_of(uid))
        await self.both(lambda stores: stores.instances.of_entry(entry_id))
        await self.both(self.within(lambda stores, connection: stores.instances.hold_in(connection, uid)))
        await self.both(self.within(lambda stores, connection: stores.instances.hold_carrier_in(connection, entry_id)))

    async def do_quiet(self) -> None:
        longer = self.pause()
        await self.both(lambda stores: _sorted(stores.instances.quiet(ENGINE, longer_than=longer, limit=9)))

    async def do_payload(self) -> None:
        uid, content = self.uids[self.place()], self.dice.choice(self.contents)
        digest = sha256(content).digest()
        await self.both(self.within(lambda stores, connection: payloads.head_in(connection, uid)))
        await self.both(self.within(lambda stores, connection: payloads.hold_head(connection, uid)))
        await self.both(self.within(lambda stores, connection: payloads.is_known_in(connection, uid, digest)))

    async def do_dispatch(self) -> None:
        boot, uid, pause, entry_id = self.boot(), self.uids[self.place()], self.pause(), self.entries[self.place()]
        sure = self.dice.random() < 0.3
        await self.both(lambda stores: _sorted(stores.dispatches[boot].claim(9, patience=pause)))
        await self.both(
            lambda stores: stores.dispatches[boot].postpone(uid, by=pause, reason="away", surely_unstarted=sure)
        )
        await self.both(lambda stores: stores.dispatches[boot].is_doubtful(uid))
        await self.both(lambda stores: stores.dispatches[boot].backlog())
        if self.dice.random() < 0.1:
            await self.both(self.within(lambda stores, connection: stores.dispatches[0].withdraw_in(connection, uid)))
        await self.both(lambda stores: stores.runbook.entry(entry_id))

    # ---- frames -------------------------------------------------------------------------------------------------------

    def delivery(self) -> Delivery:
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

    async def do_claim(self) -> None:
        boot = self.boot()
        some = {delivery.job.key: delivery for delivery in (self.delivery() for _ in range(self.dice.randint(1, 2)))}
        kind = self.dice.choice(("_open_many", "_push_many", "_push_many"))
        claims, _ = await self.both(lambda stores: getattr(stores.frames[boot], kind)(list(some.values())))
        self.claims += [(boot, claim) for claim in claims if claim is not None]

    async def do_resume(self) -> None:
        boot, key = self.boot(), self.key()
        await self.both(lambda stores: stores.frames[boot].resume(key))

    async def do_observe(self) -> None:
        key = self.key()
        frame, _ = await self.both(lambda stores: stores.frames[0].observe(key))
        await self.both(lambda stores: stores.frames[0].read(key))
        if frame is not None:
            self.frames.append(frame)

    async def _of_claim(self, act: Callable[[Stores, int, Claim], Awaitable[Any]]) -> None:
        if self.claims:
            boot, claim = self.dice.choice(self.claims[-4:])
            await self.both(lambda stores: act(stores, boot, claim))

    async def do_settle(self) -> None:
        await self._of_claim(lambda stores, boot, claim: stores.frames[boot].settle(claim))

    async def do_beat(self) -> None:
        boot = self.boot()
        mine = {claim.job_key: claim.epoch for owner, claim in self.claims if owner == boot}
        if mine:
            await self.both(lambda stores: stores.frames[boot].heartbeat(mine))

    async def do_complete(self) -> None:
        keys = {"corr_later": "value"} if self.dice.random() < 0.3 else {}
        is_head, is_own, is_same = (self.dice.random() < share for share in (0.8, 0.9, 0.1))
        some, output = self.dice.choice(self.contents), f"content {len(self.contents)}".encode()
        heads = {uid: self.twins.store.tables["payload_head"][uid,]["content"] for uid in self.uids}

        async def pop(stores: Stores, boot: int, claim: Claim) -> bool:
            uid = self.uids[claim.job_key % len(self.uids) if is_own else 0]
            base = heads[uid] if is_head else some
            content = base if is_same else output
            digests = sha256(base).digest(), content, sha256(content).digest()
            verdict = Verdict(claim, uid, *digests, "seal", {"orch_a": True}, keys)
            async with stores.database.transaction() as connection:
                await keyed(connection)
                return await stores.frames[boot].pop_completed_in(connection, verdict)

        self.contents.append(output)
        await self._of_claim(pop)

    async def do_end_otherwise(self) -> None:
        delay = self.dice.choice((0.0, 5.0))
        ending = self.dice.choice(("pop_thrown", "pop_failed", "pop_yielded", "pop_incident", "pop_failed"))
        outcome = {
            "pop_thrown": Thrown("CODE", "no"),
            "pop_failed": Retry("TransientExternal", "Busy", "busy", delay),
            "pop_yielded": Yielded("Shutdown", "stops", delay),
            "pop_incident": Incident("PermanentContract", "Wrong", "wrong"),
        }[ending]
        await self._of_claim(lambda stores, boot, claim: getattr(stores.frames[boot], ending)(claim, outcome))

    async def do_hold(self) -> None:
        if self.frames:
            boot, frame = self.boot(), self.dice.choice(self.frames)
            at = frame.activated_ms + self.dice.choice((0, 1, 100_000))
            await self.both(lambda stores: stores.frames[boot].hold(frame, at, code="CrashLoop", message="too often"))

    async def do_report(self) -> None:
        key, epoch, boot = self.key(), self.dice.randint(1, 4), self.boot()
        await self.both(lambda stores: stores.frames[boot].reported(key, epoch))

    async def do_acknowledge(self) -> None:
        acks = {self.key(): self.dice.choice(("ok", "gone"))}
        await self.both(lambda stores: stores.frames[0].acknowledge_in(stores.database, acks))

    async def do_relay(self) -> None:
        older, hold = self.pause(), self.pause()
        await self.both(
            lambda stores: _sorted(stores.frames[0].unacknowledged(older_than=older, hold=hold, limit=10))
        )

    async def do_note(self) -> None:
        key = self.key()
        await self.both(lambda stores: stores.frames[0].note(key, "kind", epoch=1, detail="detail"))
        await self.both(lambda stores: stores.frames[0].quarantine(key, {"a": 1}))
        await self.both(lambda stores: stores.frames[0].boot(name="w", host="h", pid=1))

    async def do_close(self) -> None:
        key, epoch, boot = self.key(), self.dice.randint(1, 4), self.boot()
        if self.dice.random() < 0.3:
            await self.both(lambda stores: stores.frames[boot].close(key, epoch, code="JobGone", message="gone"))

    async def do_displace(self) -> None:
        if self.frames and self.dice.random() < 0.5:
            boot, frame, delivery = self.boot(), self.dice.choice(self.frames), self.delivery()
            delivery = replace(delivery, job=replace(delivery.job, key=frame.job_key))
            await self.both(lambda stores: stores.frames[boot].displace(frame, delivery))

    async def do_read_archived(self) -> None:
        key = self.key()
        await self.both(lambda stores: stores.frames[0].observe(key))
        await self.both(lambda stores: stores.database.fetch(query("frames", "read_archived"), ENGINE, key))

    # ---- steps ----------------------------------------------------------------------------------------------------

    async def do_twins(self) -> None:
        delivery = self.delivery()
        uid = self.uids[self.place()]
        twins, _ = await self.both(lambda stores: _sorted(stores.steps.twins(delivery.job, uid, delivery.input_hash)))
        for twin in twins:
            act = self.dice.choice(("repeat", "succeed"))
            await self._of_claim(lambda stores, boot, claim, act=act, twin=twin: getattr(stores.steps, act)(claim, twin))
        await self._of_claim(lambda stores, boot, claim: stores.steps.is_cleared(claim))

    async def do_adopt(self) -> None:
        uid, was, job = self.uids[self.place()], self.dice.randint(100, 103), self.delivery().job
        await self.both(lambda stores: stores.instances.adopt(uid, job, instead_of=was))
        await self.both(lambda stores: stores.instances.miss(uid, was))
        await self.both(lambda stores: stores.instances.pin_to(uid, job, b"hash"))

    # ---- the sweep ------------------------------------------------------------------------------------------------

    async def do_sweep(self) -> None:
        boot, pause = self.boot(), self.pause()
        keys, _ = await self.both(lambda stores: _sorted(stores.leases[boot].open(100)))
        taken, _ = await self.both(lambda stores: _sorted(stores.leases[boot].take(keys, 100)))
        started = [one for one in taken if one.frame.state == "started"]
        some = [one for one in started if self.dice.random() < 0.5]
        if some:
            await self.both(lambda stores: stores.leases[boot].run_again(some))
        for one in taken:
            if one in started and one not in some:
                incident = Incident("PermanentContract", "CrashLoop", "too often")
                await self.both(lambda s, one=one: s.leases[boot].hold(one, Step.HOLD_POISON, incident))
            if self.dice.random() < 0.3:
                await self.both(lambda stores, one=one: stores.leases[boot].postpone(one, pause))
        if self.dice.random() < 0.3:
            short = self.dice.choice((_SECOND, 60 * _SECOND))
            await self.both(
                lambda stores: _sorted(stores.leases[boot].ask(ended_every=short, held_every=short, limit=100))
            )

    async def do_deliver_without_frame(self) -> None:
        boot, job = self.boot(), self.delivery().job
        job = replace(job, type="verbworker.park")
        uid = self.dice.choice((None, self.uids[self.place()]))
        kind = self.dice.choice(("new", "beat", "end"))
        write = _Write(job, uid, is_new=kind == "new", is_end=kind == "end")

        async def act(stores: Stores) -> Any:
            rows = stores.deliveries[boot]
            rows._handled.clear()
            if kind != "end":
                rows._handled[job.key] = 1
            return await rows._write_many([write])

        await self.both(act)

    async def do_sweep_rows(self) -> None:
        boot, pause = self.boot(), self.pause()
        grace = self.dice.choice((timedelta(0), 5 * _SECOND))
        taken, doubles = await self.both(lambda s: _sorted(s.deliveries[boot].take(grace=grace, limit=100)))
        for real, fake in zip(taken, doubles, strict=True):
            pair = {True: real, False: fake}
            if self.dice.random() < 0.5:
                await self.both(lambda s, pair=pair: s.deliveries[boot].remove(pair[s is self.twins.real]))
            else:
                await self.both(
                    lambda s, pair=pair: s.deliveries[boot].postpone(
                        pair[s is self.twins.real], grace=grace, pause=pause
                    )
                )

    async def do_stall(self) -> None:
        after, later = self.pause(), self.pause()
        found, doubles = await self.both(
            lambda s: _sorted(s.stalls.find(ENGINE, after=after, gates_after=later, limit=100))
        )
        for real, fake in zip(found, doubles, strict=True):
            pair = {True: real, False: fake}
            await self.both(
                self.within(
                    lambda s, c, pair=pair: s.stalls.note_in(c, pair[s is self.twins.real], "reason", "remedy")
                )
            )
        if self.dice.random() < 0.5:
            await self.both(lambda stores: stores.stalls.clear(ENGINE))
        await self.both(lambda stores: stores.stalls.counts(ENGINE))
        entry_id = self.entries[self.place()]
        await self.both(lambda stores: stores.stalls.last_step(entry_id))

    # ---- the runbook --------------------------------------------------------------------------------------------------

    def token(self, place: int) -> Token:
        kind = self.dice.choice((Wait.HUMAN_GATE, Wait.EXTERNAL_SIGNAL, Wait.INCIDENT))
        return Token(
            *(TENANT, self.entries[place], self.uids[place], ENGINE, 100 + place, 60 + self.key() + 10 * place),
            *(self.dice.choice(("ask", "first")), kind, "reason"),
            gate="approve" if kind is Wait.HUMAN_GATE else None,
            message_name="paper" if kind is Wait.EXTERNAL_SIGNAL else None,
            job_key=self.dice.choice((self.key(), None)) if kind is not Wait.INCIDENT else self.key(),
            detail={"decisions": ["yes", "no"]} if kind is Wait.HUMAN_GATE else {},
        )

    async def do_append(self) -> None:
        entry_id, once = self.entries[self.place()], self.dice.choice(("a", "b", "c"))
        kind = self.dice.choice((Kind.STEP_COMPLETED, Kind.RESUMED, Kind.COMPENSATED))
        await self.both(lambda stores: stores.runbook.append(entry_id, kind, once=once, detail={"verb": "sim.a"}))
        await self.both(self.within(lambda stores, c: stores.runbook.is_told_in(c, entry_id, once)))
        await self.both(self.within(lambda stores, c: stores.runbook.verbs_in(c, entry_id, kind)))
        await self.both(self.within(lambda stores, c: stores.runbook.first_in(c, entry_id, kind)))

    async def do_park(self) -> None:
        token = self.token(self.place())
        if token.kind is Wait.INCIDENT:
            return
        real, fake = await self.both(self.within(lambda stores, c: stores.runbook.park_in(c, token)))
        if token.kind is Wait.HUMAN_GATE:
            self.tokens.append((real[0], fake[0]))

    async def do_unpark(self) -> None:
        token = self.token(self.place())
        where = token.element_instance_key
        await self.both(self.within(lambda s, c: _sorted(s.runbook.unpark_in(c, ENGINE, where, closed_as="resumed"))))
        places = [token.element_id]
        if self.dice.random() < 0.2:
            await self.both(
                self.within(
                    lambda s, c: _sorted(
                        s.runbook.unpark_elements_in(c, ENGINE, token.instance_key, places, closed_as="fired")
                    )
                )
            )

    async def do_hold_up(self) -> None:
        token = replace(self.token(self.place()), kind=Wait.INCIDENT, gate=None, job_key=self.key())
        once = str(self.dice.random())
        act = self.dice.choice(("hold_up_in", "let_go_in"))
        await self.both(self.within(lambda s, c: getattr(s.runbook, act)(c, token, once, {"verb": "sim.a"})))

    async def do_cancel(self) -> None:
        entry_id, longer = self.entries[self.place()], self.pause()
        if self.dice.random() < 0.3:
            await self.both(self.within(lambda s, c: s.runbook.request_cancel_in(c, entry_id, "ann", "reason")))
        await self.both(self.within(lambda s, c: s.runbook.is_cancelling_in(c, entry_id)))
        await self.both(lambda stores: stores.runbook.cancelling(ENGINE, longer_than=longer, limit=5))

    async def do_end(self) -> None:
        if self.dice.random() < 0.15:
            entry_id = self.entries[self.place()]
            kind = self.dice.choice((Kind.RESULT, Kind.CANCELLED))
            detail = {"result": self.dice.choice(("ok", "err"))}
            await self.both(
                self.within(lambda s, c: s.runbook.end_in(c, entry_id, outcome=b"{}", detail=detail, kind=kind))
            )

    # ---- gates --------------------------------------------------------------------------------------------------------

    async def _of_gate(self, act: Callable[[Stores, UUID], Awaitable[Any]]) -> None:
        if self.tokens:
            real, fake = self.dice.choice(self.tokens)
            await self.both(lambda stores: act(stores, real if stores is self.twins.real else fake))

    async def do_look_at_gates(self) -> None:
        entry_id, closed = self.dice.choice((None, self.entries[self.place()])), self.dice.random() < 0.5
        await self.both(lambda stores: stores.gates.gates(TENANT, entry_id=entry_id, closed=closed))
        await self._of_gate(lambda stores, token_id: stores.gates.get(token_id))

    async def do_decide(self) -> None:
        telling = self.dice.choice((None, 30 * _SECOND))

        async def decide(stores: Stores, token_id: UUID) -> Any:
            async with stores.database.transaction() as connection:
                held = await stores.gates.hold_in(connection, token_id, TENANT)
                at = await stores.gates.decide_in(connection, token_id, "yes", "why", "ann", telling=telling)
                closed = await stores.gates.close_in(connection, token_id, closed_as="decided")
                return held, at, closed

        await self._of_gate(decide)

    async def do_tell_gate(self) -> None:
        gone, pause = self.dice.random() < 0.5, self.pause()
        await self._of_gate(lambda stores, token_id: stores.gates.count_telling(token_id, patience=pause))
        await self._of_gate(lambda stores, token_id: stores.gates.postpone(token_id, by=pause))
        if self.dice.random() < 0.3:
            await self._of_gate(lambda stores, token_id: stores.gates.answered(token_id, gone=gone))
        await self._of_gate(lambda stores, token_id: stores.gates.seen(token_id))
        await self.both(lambda stores: stores.gates.due(ENGINE, 5, patience=pause))
        await self.both(lambda stores: stores.gates.silent(ENGINE, longer_than=pause, limit=5))

    async def do_hear(self) -> None:
        uid = self.uids[self.place()]
        await self.both(lambda stores: stores.gates.heard(uid, decisions=True, messages=True))

    # ---- messages -----------------------------------------------------------------------------------------------------

    async def do_receive_message(self) -> None:
        number, boot = self.dice.randint(0, 3), self.boot()
        message = Message(
            message_name="paper",
            message_id=f"message-{number}",
            correlation_key=f"case-{number % 3}",
            tenant_id=TENANT,
            payload=self.dice.choice((None, {"a": 1})),
        )
        ttl = self.dice.choice((20 * _SECOND, 3600 * _SECOND))
        await self.both(lambda stores: stores.inboxes[boot].receive(message, sent_by="sender", ttl=ttl))

    async def do_claim_message(self) -> None:
        boot, pause = self.boot(), self.pause()
        claimed, _ = await self.both(lambda stores: _sorted(stores.inboxes[boot].claim(9, patience=pause)))
        self.claimed += [(boot, one) for one in claimed]
        await self.both(lambda stores: stores.inboxes[boot].strand())
        await self.both(lambda stores: stores.inboxes[boot].backlog())

    async def do_deliver_message(self) -> None:
        if not self.claimed:
            return
        boot, claimed = self.dice.choice(self.claimed)
        uid, slack = self.uids[0], self.pause()
        declared = {"sim.line": "corr_number"}
        await self.both(lambda stores: stores.inboxes[boot].candidates(claimed, declared))
        await self.both(lambda stores: stores.inboxes[boot].aim(claimed, uid))
        match self.dice.choice(("sent", "postpone", "bury", "sent")):
            case "sent":
                await self.both(lambda stores: stores.inboxes[boot].sent(claimed, slack=slack))
            case "postpone":
                await self.both(lambda stores: stores.inboxes[boot].postpone(claimed, by=slack, reason="later"))
            case _:
                why = Undeliverable(Burial.NO_CASE, "no case")
                await self.both(lambda stores: stores.letters.bury(stores.inboxes[boot], claimed, why))

    async def do_consume_message(self) -> None:
        uid, key = self.uids[0], f"case-{self.dice.randint(0, 2)}"
        await self.both(self.within(lambda s, c: s.inboxes[0].consume_in(c, uid, "paper", key)))


async def _sorted(work: Awaitable[list[Any]]) -> list[Any]:
    """Rows whose order the statement leaves open."""
    return sorted(await work, key=lambda row: _MADE.sub("", repr(row)))
