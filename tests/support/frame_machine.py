"""The frames under random hands: every rule runs the shipped SQL and a model beside it, and both must agree."""

from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.frame_invariants import check, look
from tests.support.frame_model import MAX_RUNS, RETRIES, WINDOW, ModelFrame, ModelJob
from tests.support.frame_world import HOUR, World
from tests.support.frames import (
    FIRST,
    INCIDENT,
    LATER,
    RETRY,
    THROWN,
    YIELD,
    make_delivery,
    make_instance,
    make_job,
    make_verdict,
    open_pinned,
)
from verbworker.errors import Fenced
from verbworker.job.frame import Claim, Delivery, FrameStep, decide, decide_swept, incident_of
from verbworker.stores.jobs.frames import Frames, VerdictRow

T = TypeVar("T")
NOW = timedelta(0)
TABLES = ("job_frame", "job_frame_archive", "frame_event", "payload_head", "payload_version", "workflow_instance")
MOST_JOBS = 3
TREATMENTS = (("external", "rerun"), ("transactional", "rerun"), ("external", "hold"), ("external", "rerun"))
workers = st.sampled_from([0, 1, 2])
ENDINGS = ("fail", "fail later", "give back", "stop", "throw")
endings = st.sampled_from(ENDINGS)
moves = st.sampled_from([1, 1, 1, 0, -1, 4_000, 10_000])


class FrameMachine(RuleBasedStateMachine):
    """Three workers, a few jobs of one instance, and an engine that delivers anything at any time."""

    world: ClassVar[World]

    @initialize(worker=workers, treatment=st.sampled_from(TREATMENTS))
    def begin(self, worker: int, treatment: tuple[str, str]) -> None:
        self.uid = uuid4()
        self.jobs: dict[int, ModelJob] = {}
        self.claims: list[Claim] = []
        self.head = FIRST
        self.final: dict[int, tuple[object, ...]] = {}
        self.told: dict[int, bytes | None] = {}
        self.epochs: dict[int, tuple[int, object]] = {}
        self.count = 0
        self.run(self._begin())
        self.deliver(worker, treatment)

    async def _begin(self) -> None:
        await self.world.database.execute("TRUNCATE effect, " + ", ".join(f"verbworker.{table}" for table in TABLES))
        await open_pinned(self.world.database, make_instance(instance_uid=self.uid))

    # ---- deliveries ----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.jobs) < MOST_JOBS)
    @rule(worker=workers, treatment=st.sampled_from(TREATMENTS))
    def deliver_a_new_job(self, worker: int, treatment: tuple[str, str]) -> None:
        self.deliver(worker, treatment)

    def deliver(self, worker: int, treatment: tuple[str, str]) -> None:
        job = ModelJob(len(self.jobs) + 1, *treatment, clock=1_000_000)
        self.jobs[job.key] = job
        self.push(job, worker, 1)

    @rule(worker=workers, move=moves, data=st.data())
    def deliver_again(self, worker: int, move: int, data: st.DataObject) -> None:
        self.push(self.some_job(data, "started", "failed", "incident"), worker, move)

    @rule(worker=workers, data=st.data(), move=moves, is_forgotten=st.booleans())
    def vanish_and_deliver_again(self, worker: int, data: st.DataObject, move: int, is_forgotten: bool) -> None:
        job = self.some_job(data, "started")
        self.expire(job)
        if is_forgotten:
            self.end_window(job)
        self.push(job, worker, move)

    def push(self, job: ModelJob, worker: int, move: int) -> None:
        act = job.clock + move
        job.clock = max(job.clock, act)
        frames, delivery, kind = self.world.frames[worker], self.delivery(job, act), job.claim_kind(act)
        (claim,) = self.run(frames._push_many([delivery]))
        if claim is None:
            assert kind is None, f"job {job.key} was not claimed as {kind}"
            self.follow(job, delivery, frames)
            return
        assert kind == claim.claimed_from, f"job {job.key} was claimed as {claim.claimed_from}, expected {kind}"
        frame = job.claim(kind, act, frames.owner, delivery.idempotency_key)
        assert (claim.epoch, claim.runs, claim.retries_left) == (frame.epoch, frame.runs, frame.retries_left)
        assert (claim.generation, claim.idempotency_key) == (frame.generation, frame.key)
        assert kind != "takeover" or claim.runs <= MAX_RUNS  # I10
        job.keys_used.add((claim.generation, claim.idempotency_key))
        self.claims.append(claim)

    def delivery(self, job: ModelJob, act: int, **changes: Any) -> Delivery:
        return make_delivery(
            make_job(job.key, at=act, **changes),
            mode=job.mode,
            on_unknown=job.on_unknown,
            max_runs=MAX_RUNS,
            idempotency_window=WINDOW,
            instance_uid=self.uid,
            retries=RETRIES,
            input_hash=sha256(self.head).digest(),
        )

    def follow(self, job: ModelJob, delivery: Delivery, frames: Frames) -> None:
        """Do what the decision table says; it must agree with the claim that was refused (I9)."""
        act = delivery.job.activated_ms
        standing = self.run(frames.observe(job.key))
        assert standing is not None
        step = decide(standing, delivery.job, self.uid, frames.owner)
        assert step is job.step(act, frames.owner)
        if step in (FrameStep.HOLD_POISON, FrameStep.HOLD_UNKNOWN):
            epoch = self.run(frames.hold(standing, act, code=step.name, message=""))
            job.hold(act, frames.owner)
            assert job.frame is not None
            assert epoch == job.frame.epoch

    @rule(
        worker=workers,
        data=st.data(),
        change=st.sampled_from([{"process_instance_key": 1}, {"type": "kyc.other"}, {"tenant_id": "other"}]),
    )
    def deliver_a_stranger(self, worker: int, data: st.DataObject, change: dict[str, Any]) -> None:
        job, frames = self.some_job(data, "started", "failed", "incident"), self.world.frames[worker]
        if job.frame is not None and job.frame.place == "archive" and "process_instance_key" in change:
            return  # another instance's job under an archived key gets a frame of its own; see test_frames_relay
        self.expire(job)
        delivery = self.delivery(job, job.clock + 20_000, **change)
        assert self.run(frames._push_many([delivery])) == [None]  # I12
        standing = self.run(frames.observe(job.key))
        assert standing is not None
        assert decide(standing, delivery.job, self.uid, frames.owner) is FrameStep.QUARANTINE

    # ---- while it runs -------------------------------------------------------------------------------------------

    @rule(data=st.data(), is_beat=st.booleans())
    def beat_or_settle(self, data: st.DataObject, is_beat: bool) -> None:
        claim = self.some_claim(data)
        frame, frames = self.frame_of(claim), self.of(claim)
        is_ours = frame.place != "archive" and (frame.owner, frame.epoch) == (claim.owner, claim.epoch)
        if is_beat:
            lost = self.run(frames.heartbeat({claim.job_key: claim.epoch}))
            assert lost == (set() if is_ours else {claim.job_key})
            frame.is_live = frame.is_live or frame.is_owned_by(claim.owner, claim.epoch)
            return
        try:  # a connection was lost, and the worker looks at what it left (C5)
            state = self.run(frames.settle(claim)).value
        except Fenced:
            state = None
        assert state == (frame.state if is_ours else None)

    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        job = self.some_job(data, "started", "failed")
        self.expire(job)
        if job.frame is not None and job.frame.state == "failed":
            job.frame.is_due = True
            self.change(job, "next_retry_at = clock_timestamp()")

    def end_window(self, job: ModelJob) -> None:
        if job.frame is not None and job.frame.state != "completed":
            job.frame.is_in_window = False
            self.change(job, "keyed_at = clock_timestamp() - interval '2 days'")

    def expire(self, job: ModelJob) -> None:
        if job.frame is not None and job.frame.state == "started":
            job.frame.is_live = False
            self.change(job, "lease_until = clock_timestamp() - interval '1 second'")

    @rule(worker=workers, data=st.data(), is_forgotten=st.booleans())
    def sweep(self, worker: int, data: st.DataObject, is_forgotten: bool) -> None:
        job = self.some_job(data, "started", "failed", "incident")
        if is_forgotten and job.frame is not None and job.frame.state == "started":
            self.end_window(job)
        self.take(job, worker)

    @rule(worker=workers, data=st.data(), move=moves)
    def sweep_and_deliver_again(self, worker: int, data: st.DataObject, move: int) -> None:
        job = self.some_job(data, "started", "failed")
        self.take(job, worker)
        self.push(job, worker, move)

    def take(self, job: ModelJob, worker: int) -> None:
        """Have the sweep of one worker look at a frame whose lease is over, and do what it decides."""
        leases, owner = self.world.leases[worker], self.world.frames[worker].owner
        self.change(job, "lease_until = clock_timestamp() + interval '1 hour'")
        assert self.run(leases.take([job.key], 10)) == [], "a frame was taken within its lease"
        self.change(job, "lease_until = clock_timestamp() - interval '1 second'")
        is_swept = job.is_swept()
        taken = self.run(leases.take([job.key], 10))
        assert bool(taken) == is_swept
        assert self.run(leases.take([job.key], 10)) == [], "a frame was taken twice"
        for one in taken:
            step = job.sweep(owner)
            assert decide_swept(one.frame) is step
            if step is FrameStep.CLAIM_AGAIN:
                assert self.run(leases.run_again([one])) == {job.key}
            elif step in (FrameStep.HOLD_POISON, FrameStep.HOLD_UNKNOWN):
                assert self.run(leases.hold(one, step, incident_of(step, one.frame)))

    @rule(worker=workers, data=st.data(), past=st.sampled_from([0, 0, 1]), move=moves)
    def close_as_gone_and_deliver_again(self, worker: int, data: st.DataObject, past: int, move: int) -> None:
        job = self.some_job(data, "failed", "incident")
        frame, owner = job.frame, self.world.frames[worker].owner
        if frame is None:
            return
        may_close = past == 0 and frame.state != "completed" and not frame.acked and frame.place != "archive"
        frames = self.world.frames[worker]
        closed = self.run(frames.close(job.key, frame.epoch - past, code="JobGone", message="the job is gone"))
        assert closed == may_close
        if closed:
            job.close(owner)
        self.push(job, worker, move)

    # ---- pops ----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), is_based_on_head=st.sampled_from([True, True, False]))
    def complete(self, data: st.DataObject, is_based_on_head: bool) -> None:
        self.pop(self.some_claim(data), self.head if is_based_on_head else FIRST)

    @precondition(lambda self: len(self.jobs) + 2 <= MOST_JOBS)
    @rule(worker=workers, first=st.sampled_from(TREATMENTS), second=st.sampled_from(TREATMENTS))
    def complete_two_branches(self, worker: int, first: tuple[str, str], second: tuple[str, str]) -> None:
        """Two jobs read one head and both complete: the second one must merge first."""
        base = self.head
        self.deliver(worker, first)
        self.deliver(worker, second)
        earlier, later = self.claims[-2:]
        self.pop(earlier, base)
        self.pop(later, base)

    def pop(self, claim: Claim, base: bytes) -> None:
        job, frame = self.jobs[claim.job_key], self.frame_of(claim)
        self.count += 1
        output = f"{claim.job_key}:{claim.epoch}:{self.count}".encode()
        try:
            popped = self.run(self._act(job, self.of(claim), make_verdict(claim, self.uid, base=base, output=output)))
        except Fenced:
            popped = None
        if not frame.is_owned_by(claim.owner, claim.epoch):
            assert popped is None, f"job {claim.job_key}: a claim that was fenced recorded its outcome"
        elif base != self.head:
            assert popped is False
        else:
            assert popped is True
            frame.end("completed")
            frame.output = self.head = output
            job.effects += 1

    async def _act(self, job: ModelJob, frames: Frames, verdict: VerdictRow) -> bool:
        """Effect and verdict in one transaction, as a transactional verb has them."""
        try:
            async with self.world.database.transaction() as connection:
                await connection.execute("INSERT INTO effect VALUES ($1)", job.key)
                if job.mode == "external":  # their verdicts are stored in batches
                    (popped,) = await frames._pop_all_in(connection, [verdict])
                    if popped is None:
                        raise Fenced(f"job {job.key} was claimed by another worker")
                else:
                    popped = await frames.pop_completed_in(connection, verdict)
                if not popped:
                    raise LookupError
        except LookupError:
            return False
        return True

    @rule(data=st.data(), ending=endings, worker=workers, move=moves)
    def end_otherwise_and_deliver_again(self, data: st.DataObject, ending: str, worker: int, move: int) -> None:
        claim = self.some_claim(data)
        frame = self.frame_of(claim)
        is_owned = frame.is_owned_by(claim.owner, claim.epoch)
        if ending.startswith("fail") and is_owned and frame.retries_left == 1:
            ending = "stop"  # as the executor does; test_frames_pop shows that the database insists
        assert self.run(self._end(claim, ending)) == is_owned, f"{ending} by epoch {claim.epoch}"
        if is_owned:
            frame.end_otherwise(ending)
        self.push(self.jobs[claim.job_key], worker, move)

    @rule(data=st.data())
    def come_back_as_a_zombie(self, data: st.DataObject) -> None:
        zombies = [claim for claim in self.claims if claim.epoch < self.frame_of(claim).epoch]
        if zombies:
            claim = data.draw(st.sampled_from(zombies))
            for ending in ENDINGS:
                assert not self.run(self._end(claim, ending)), f"{ending} by a zombie"
            assert self.run(self.of(claim).heartbeat({claim.job_key: claim.epoch})) == {claim.job_key}
            self.run(self.of(claim).record_report(claim.job_key, claim.epoch))

    async def _end(self, claim: Claim, ending: str) -> bool:
        frames = self.of(claim)
        try:
            match ending:
                case "fail" | "fail later":
                    await frames.pop_failed(claim, RETRY if ending == "fail" else LATER)
                case "give back":
                    await frames.pop_yielded(claim, YIELD)
                case "stop":
                    await frames.pop_incident(claim, INCIDENT)
                case _:
                    await frames.pop_thrown(claim, THROWN)
        except Fenced:
            return False
        return True

    # ---- people and the engine -----------------------------------------------------------------------------------

    @rule(worker=workers, data=st.data(), past=st.sampled_from([0, 0, 0, 1]))
    def report(self, worker: int, data: st.DataObject, past: int) -> None:
        self.tell(self.some_job(data, "failed", "incident"), worker, past)

    @rule(worker=workers, data=st.data(), move=moves)
    def report_and_deliver_again(self, worker: int, data: st.DataObject, move: int) -> None:
        job = self.some_job(data, "incident")
        self.tell(job, worker, 0)
        self.push(job, worker, move)

    def tell(self, job: ModelJob, worker: int, past: int) -> None:
        if job.frame is None:
            return
        self.run(self.world.frames[worker].record_report(job.key, job.frame.epoch - past))
        if past == 0 and job.frame.state in ("failed", "incident"):
            # The engine's time and the database's are one clock here.
            job.frame.reported = job.clock
            self.change(job, f"reported_at = reported_at - reported_at + to_timestamp({job.clock} / 1000.0)")

    @rule(worker=workers, data=st.data(), as_new=st.booleans(), past=st.sampled_from([0, 0, 0, 1]))
    def release(self, worker: int, data: st.DataObject, as_new: bool, past: int) -> None:
        job, frames = self.some_job(data, "incident"), self.world.frames[worker]
        self.end_window(job)
        standing = self.run(frames.read(job.key))
        if job.frame is None or standing is None:
            return
        new_key = f"vw1-{job.key}-{job.frame.generation + 1}" if as_new else None
        seen = replace(standing, epoch=standing.epoch - past)
        freed = self.run(frames.release(seen, retries=1, new_key=new_key))
        if past or job.frame.state != "incident":
            assert freed is None
            return
        job.frame.release(new_key)
        assert freed == (job.frame.retries_left, job.frame.generation)

    @precondition(lambda self: self.final)
    @rule(first=workers, second=workers)
    def relay(self, first: int, second: int) -> None:
        waiting = [job for job in self.jobs.values() if (frame := job.frame) and frame.state == "completed"]
        for worker in (first, second):
            offered = self.run(self.world.frames[worker].claim_unsent(older_than=NOW, hold=NOW, limit=100))
            assert {one.job_key for one in offered} == {job.key for job in waiting if job.frame and not job.frame.acked}
            for one in offered:
                # I5: whoever tells the engine, however often, tells it the same.
                assert self.told.setdefault(one.job_key, one.output) == one.output

    @precondition(lambda self: self.final)
    @rule(worker=workers, data=st.data(), move=moves, settled=st.lists(st.sampled_from([NOW, HOUR]), max_size=2))
    def acknowledge_and_archive(self, worker: int, data: st.DataObject, move: int, settled: list[timedelta]) -> None:
        job, frames = self.some_job(data, "completed", "started"), self.world.frames[worker]
        frames.acknowledge(job.key, "ok")
        self.run(frames.flush())
        job.acknowledge()
        for gap in settled:
            self.run(frames.archive(older_than=NOW, settled=gap))
            for one in self.jobs.values():
                if one.frame is not None:
                    one.frame.archive(is_settled=gap == NOW)
        self.push(job, worker, move)

    # ---- choices -------------------------------------------------------------------------------------------------

    def some_job(self, data: st.DataObject, *states: str) -> ModelJob:
        """A job whose frame is in one of these states, or any job."""
        by_state: dict[str, list[ModelJob]] = {}
        for job in self.jobs.values():
            if job.frame is not None and job.frame.state in states:
                by_state.setdefault(job.frame.state, []).append(job)
        # First the state, so that a rare one is met as often as a common one.
        fitting = data.draw(st.sampled_from(list(by_state.values()))) if by_state else list(self.jobs.values())
        return data.draw(st.sampled_from(fitting))

    def some_claim(self, data: st.DataObject) -> Claim:
        """A claim somebody was given: as often one that still counts as a zombie's."""
        kinds: dict[bool, list[Claim]] = {True: [], False: []}
        for claim in self.claims:
            kinds[self.frame_of(claim).is_owned_by(claim.owner, claim.epoch)].append(claim)
        is_current: bool = data.draw(st.booleans())
        return data.draw(st.sampled_from(kinds[is_current] or self.claims))

    def frame_of(self, claim: Claim) -> ModelFrame:
        frame = self.jobs[claim.job_key].frame
        assert frame is not None
        return frame

    def of(self, claim: Claim) -> Frames:
        return next(frames for frames in self.world.frames if frames.owner == claim.owner)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.world.run(work)

    def change(self, job: ModelJob, assignment: str) -> None:
        statement = f"UPDATE verbworker.job_frame SET {assignment} WHERE job_key = $1"
        self.run(self.world.database.execute(statement, job.key))

    # ---- what must hold after every step -------------------------------------------------------------------------

    @invariant()
    def frames_are_as_specified(self) -> None:
        seen = self.run(look(self.world.database, self.uid))
        assert seen.head == self.head
        assert seen.frames.keys() == {key for key, job in self.jobs.items() if job.frame is not None}
        for job in self.jobs.values():
            assert seen.effects.get(job.key, 0) == job.effects <= 1  # I4
            if job.frame is not None:
                check(job, job.frame, seen.frames[job.key], seen.places[job.key], self)
