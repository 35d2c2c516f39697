"""One schedule: workers, people and faults on one clock, until everything has ended or nothing moves any more."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.simulator import statements as statements
from tests.simulator.client import VERSION, SimulatedEngine
from tests.simulator.decisions import Decisions, Fault
from tests.simulator.determined import determined, words_of
from tests.simulator.engine import EngineModel
from tests.simulator.faults import Plan, draw
from tests.simulator.loop import Process, new_loop
from tests.simulator.people import People
from tests.simulator.shapes import OUTSIDE, SHAPES, Outside
from tests.simulator.store import SimulatedDatabase, Store
from tests.simulator.worker import Boot
from verbworker.engine.known_faults import lost_remedy
from verbworker.errors import EngineUnavailable, StoreUnavailable
from verbworker.job.job import Job

FAULTS_END = 45.0
LONGEST = 600.0
FORGETS = frozenset({"commands lost", "restored"})
"""Classes of faults in which the engine forgets what it had answered to, for good."""

LOST = lost_remedy(VERSION)
_IDLE_IN_TRANSACTION = 30.0
_SERVICES_AHEAD = 0.5
_UNCOMMITTED = 2.0  # how long a starved raft thread may take to commit


@dataclass(frozen=True, slots=True)
class Options:
    """What a schedule is run with."""

    allowed: frozenset[str]
    only: "frozenset[tuple[str, int]] | None" = None
    is_calm: bool = False
    is_traced: bool = False
    longest: float = LONGEST


@dataclass
class World:
    """Everything of one schedule."""

    seed: int
    options: Options
    trace: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = new_loop()
        self.decisions = Decisions(self.seed, self.options.only, self.options.is_calm)
        dice = self.decisions.dice("scenario")
        self.plan: Plan = draw(self.decisions.dice("faults"), self.options.allowed)
        self._uuids = self.decisions.dice("uuids")
        self.store = Store(self.loop, uuids=self.uuid, told=self.tell if self.options.is_traced else None)
        self.engine = EngineModel(self.loop, self.decisions, told=self.tell)
        self.engine.timeout_losses = self.plan.timeout
        self.engine.choose = self._choose
        self.engine.owner_of = self._owner_of
        self.outside = Outside(pause=self._pause, fails=self._fails)
        self.boots: dict[int, Boot] = {}
        self.boot_counts: dict[int, int] = {}
        self.cut_off: set[tuple[Process, str]] = set()
        self.is_engine_down = False
        self.shapes = [SHAPES[name] for name in dice.choices(sorted(SHAPES), k=dice.choice((1, 1, 2)))]
        self.workers = dice.choice((1, 2, 2, 3))
        self.slow_verbs = dice.choice((0.01, 0.01, 1.0, 20.0, 58.0))
        self._next_look = 0.0
        self._restarted_at = 0.0
        self._restarted_for: set[UUID] = set()
        self.restarts = 0
        self.entrance = Process("door")
        self.people = People(self, dice)

    # ---- the trace --------------------------------------------------------------------------------------------------

    def tell(self, words: str) -> None:
        """Note what happened, when somebody will read it."""
        if self.options.is_traced:
            self.trace.append(f"{self.loop.now:9.3f}  {words}")

    def uuid(self) -> UUID:
        """A uuid by the seed."""
        return UUID(int=self._uuids.getrandbits(128), version=4)

    def _owner_of(self, job_key: int) -> UUID | None:
        frame = self.store.tables["job_frame"].get(("sim", job_key))
        return None if frame is None else frame["instance_uid"]

    # ---- calls ------------------------------------------------------------------------------------------------------

    async def call(self, process: Process | None, side: str, name: str) -> str | None:
        """What happens to a call on its way; says how its answer is lost, when it is."""
        assert process is not None
        site = f"{process.name} {name}"
        await self._sleep(self.decisions.latency(site))
        if name == "start":
            kinds = self.plan.start or self.plan.engine
        else:
            kinds = self.plan.engine if side == "engine" else self.plan.store
        if process is self.entrance:
            kinds = tuple(kind for kind in kinds if kind[0] in ("lost", "refused", "slow"))
        fault = self.decisions.fault(site, kinds)
        if fault is not None:
            self.tell(f"FAULT {fault}")
            if fault.kind == "slow":
                await self._sleep(fault.amount)
            elif fault.kind == "kill before":
                self.kill(process)
                await self.loop.create_future()
            elif fault.kind == "freeze before":
                await self.freeze(process, fault.amount)
            elif fault.kind == "refused":
                raise _unavailable(side)
        if self.is_away(process, side):
            raise _unavailable(side)
        if side == "engine":
            self.tell(f"{process.name}: {name}")
        if fault is None or not (fault.kind == "lost" or fault.kind.endswith("after")):
            return None
        if fault.kind == "kill after":
            # The effect is there before the process is gone: the caller sees to that.
            self.loop.after(0.0, self.kill, process)
            return "kill"
        if fault.kind == "freeze after":
            return f"freeze {fault.amount}"
        return "lost"

    async def lose(self, process: Process, lost: str) -> None:
        """What comes after an effect whose answer is not heard in time."""
        if lost == "kill":
            await self.loop.create_future()
        if lost.startswith("freeze"):
            await self.freeze(process, float(lost.split()[1]))

    async def _sleep(self, seconds: float) -> None:
        future = self.loop.create_future()
        self.loop.call_later(seconds, _finish, future)
        await future

    def is_away(self, process: Process, side: str) -> bool:
        """Whether a process cannot reach a side."""
        is_down = self.is_engine_down if side == "engine" else self.store.is_down
        return is_down or (process, side) in self.cut_off

    # ---- processes --------------------------------------------------------------------------------------------------

    def boot(self, number: int) -> None:
        """Start a worker, again after it died."""
        count = self.boot_counts[number] = self.boot_counts.get(number, 0) + 1
        process = Process(f"w{number}.{count}")
        process.context.run(OUTSIDE.set, self.outside)
        databases = self.database(process), self.database(process, "verbs")
        self.boots[number] = Boot(self.loop, process, *databases, self.engine_for(process), self.uuid())
        self.tell(f"{process.name} starts")
        self.boots[number].open(self._ended)
        self.loop.after(_SERVICES_AHEAD, self.engine.kick)

    def poke(self) -> None:
        """There is something new, as a router or an ingress in the same process says."""
        for boot in self.boots.values():
            for poke in boot.pokes:
                self.loop.call_in(boot.process, 0.0, poke)

    def database(self, process: Process, pool: str = "store") -> SimulatedDatabase:
        """The database as a process reaches it by one of its pools."""
        return SimulatedDatabase(self.store, process, pool, self.call, lambda lost: self.lose(process, lost))

    def engine_for(self, process: Process) -> SimulatedEngine:
        """The engine as a process reaches it."""
        return SimulatedEngine(self.engine, process, self.call, lambda lost: self.lose(process, lost))

    def kill(self, process: Process) -> None:
        """kill -9; somebody starts it again."""
        if process.is_dead:
            return
        self.tell(f"{process.name} is killed")
        self.loop.kill(process)
        self.store.disconnect(process)
        number = int(process.name[1:].split(".")[0])
        self.loop.after(0.5 + 8 * self.decisions.share(f"{process.name} restart"), self.boot, number)

    async def freeze(self, process: Process, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later; what froze inside a transaction is ended by the server."""
        if not process.is_frozen:
            self.tell(f"{process.name} is frozen for {seconds:.1f} s")
            self.loop.freeze(process)
            self.loop.after(seconds, self._thaw, process)
            self.loop.after(_IDLE_IN_TRANSACTION, self._end_idle, process)
        await asyncio.sleep(0)

    def _thaw(self, process: Process) -> None:
        if process.is_frozen and not process.is_dead:
            self.tell(f"{process.name} goes on")
            self.loop.thaw(process)

    def _end_idle(self, process: Process) -> None:
        if process.is_frozen:
            self.store.disconnect(process)

    def _ended(self, process: Process, name: str, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self.deaths.append(f"{name} of {process.name} ended: {words_of(error)}")
        self.tell(f"DEATH {self.deaths[-1]}")

    def _choose(self, kind: str) -> Callable[[Job], None] | None:
        open_ = [boot for boot in self.boots.values() if self._is_open(boot)]
        if not open_:
            return None
        boot = open_[int(self.decisions.share("engine choice") * len(open_))]
        late = self.decisions.fault("delivery", self.plan.late)
        delay = 0.001 if late is None else late.amount

        def take(job: Job) -> None:
            self.tell(f"engine: job {job.key} ({job.type} at {job.element_id}) goes to {boot.process.name}")
            self.loop.call_in(boot.process, delay, boot.take, job)

        return take

    def _is_open(self, boot: Boot) -> bool:
        return not boot.process.is_dead and not self.is_away(boot.process, "engine")

    # ---- verbs ------------------------------------------------------------------------------------------------------

    def _pause(self, verb: str) -> float:
        share = self.decisions.share(f"{verb} takes")
        return self.slow_verbs * share * share

    def _fails(self, verb: str) -> bool:
        return self.decisions.fault(f"{verb} run", self.plan.verb) is not None

    # ---- the schedule -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the schedule."""
        with determined(self):
            for number in range(1, self.workers + 1):
                self.boot(number)
            self.people.begin()
            self._plan_faults()
            self.loop.after(FAULTS_END, self._calm)
            self.loop.run(self.options.longest, self._is_finished)
            self.store.is_closed = True
            self.loop.close()

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Something that people do."""
        return self.loop.spawn(self.entrance, coro)

    def _plan_faults(self) -> None:
        for number, (at, what, amount) in enumerate(self.plan.timed):
            fault = Fault("clock", number, f"{what} at {at:.3f} s", amount)
            if self.decisions.planned(fault):
                self.loop.after(at, self._strike, what, amount)

    def _strike(self, what: str, amount: float) -> None:
        self.tell(f"FAULT {what} {amount:.3f}")
        if what == "store down":
            self.store.is_down = True
            self.store.disconnect()
            self.loop.after(amount, self._store_up)
        elif what == "control away":
            process = self.boots[1].process
            self.cut_off.add((process, "store"))
            self.loop.after(amount, self.cut_off.discard, (process, "store"))
        elif what == "engine down":
            self.is_engine_down = True
            self.loop.after(amount, self._engine_up)
        else:
            self.is_engine_down = True
            horizon = LONGEST if what.startswith("restored") else _UNCOMMITTED
            again, reuse = what.startswith("records"), "reused" in what
            self.engine.crash(int(amount), again=again, reuse=reuse, horizon=horizon)
            self.loop.after(1.0 + self.decisions.share("engine restart"), self._engine_up)

    def _store_up(self) -> None:
        self.store.is_down = False

    def _engine_up(self) -> None:
        self.is_engine_down = False
        self.engine.kick()

    def _calm(self) -> None:
        """From here on nothing new goes wrong."""
        self.tell("no more faults")
        self.decisions.is_over = True
        for boot in self.boots.values():
            self._thaw(boot.process)

    def _is_finished(self) -> bool:
        if self.loop.now < self._next_look:
            return False
        self._next_look = self.loop.now + 1.0
        self._restart_if_stalled()
        return self.is_at_rest() and (self.loop.now > FAULTS_END or not self._are_faults_ahead())

    def _restart_if_stalled(self) -> None:
        """Do what the product tells an operator: only a restart frees a job that was handed out and never claimed."""
        if self.store.tables["stall"] and self.decisions.is_over and self.loop.now > self._restarted_at + 60.0:
            self.tell("OPERATOR restarts the engine, because the product names a case as stalled")
            self._restarted_at = self.loop.now
            self.restarts += 1
            self._strike("crash", 0.0)
            self._end_lost()

    def _end_lost(self) -> None:
        """Do the rest of what the operator is told: end what a restart did not bring back."""
        for stall in list(self.store.tables["stall"].values()):
            if stall["remedy"] == LOST and stall["entry_id"] in self._restarted_for:
                self.tell(f"OPERATOR ends {stall['entry_id']}, because the engine lost it")
                self.people.end(stall["entry_id"])
            self._restarted_for.add(stall["entry_id"])

    def _are_faults_ahead(self) -> bool:
        return any(at + amount > self.loop.now for at, _, amount in self.plan.timed)

    def is_at_rest(self) -> bool:
        """Whether everything has ended, or stopped where it should, and nothing is left to do."""
        tables = self.store.tables
        stopped = self.stopped() | self.given_up()
        return (
            self.people.are_done
            and not tables["job_delivery"]
            and all(self._uid(key) in stopped for key in self.engine.state.instances)
            and all(
                entry["ended_at"] is not None or entry["entry_id"] in stopped.values()
                for entry in tables["runbook_entry"].values()
            )
            and all(
                frame["acked_at"] is not None
                or (frame["state"] in ("incident", "failed") and frame["reported_at"] is not None)
                for frame in tables["job_frame"].values()
            )
        )

    def stopped(self) -> dict[UUID, UUID]:
        """The instances that stand in the incident they are meant to end in, in the engine too, by their uid."""
        found = {}
        for job in self.engine.state.jobs.values():
            process = self.engine.state.instances[job.instance][0]
            if job.state == "incident" and SHAPES[process].stops_with is not None and job.node == "two":
                instance = self.store.tables["workflow_instance"].get((self._uid(job.instance),))
                if instance is not None and instance["ended_at"] is None:
                    found[instance["instance_uid"]] = instance["entry_id"]
        return found

    def given_up(self) -> dict[UUID, UUID]:
        """The instances that wait for a message which the engine lost and a person finds among the dead letters."""
        if not self.plan.classes & FORGETS:
            return {}
        dead = {row["correlation_key"] for row in self.store.tables["dead_letter"].values() if row["state"] == "open"}
        return {
            row["instance_uid"]: row["entry_id"]
            for row in self.store.tables["workflow_instance"].values()
            if row["correlation"].get("corr_number") in dead and row["ended_at"] is None
        }

    def _uid(self, instance: int) -> UUID:
        return UUID(str(self.engine.state.instances[instance][1]["vw_instance_uid"]))


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _unavailable(side: str) -> Exception:
    return EngineUnavailable("cut off") if side == "engine" else StoreUnavailable("cut off")
