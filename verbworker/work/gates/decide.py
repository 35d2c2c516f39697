"""Human gates: a person decides once, and the decision is stored before it is sent to the engine."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.contract.person import Person, as_person
from verbworker.contract.text import require_name
from verbworker.engine.protocol import Engine
from verbworker.errors import (
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    LeaseLost,
    NotFound,
    RequestConflict,
    StoreError,
)
from verbworker.job.outcome import NO_RESULT
from verbworker.retrying import STORED, TRANSACTION, is_away
from verbworker.runbook.event import Kind
from verbworker.stores.cases.gates import GateStore, HumanGate, SilentGate, UnsentDecision
from verbworker.stores.cases.page_key import PageKey
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Connection, Database
from verbworker.stores.people.people import People
from verbworker.work.gates.assignees import Assignees, tasks_of
from verbworker.work.gates.gate_writes import (
    CLAIMED_FOR,
    LONGEST_WORD,
    DecisionInput,
    GateWrites,
    require_choice,
    require_open,
    require_readable,
)
from verbworker.work.jobs.lease_tokens import redeliver

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS = 16  # calls of the engine; more would only queue there
_PROBED = 200  # gates per round; the others come next
_COUNT_EVERY_S = 10.0  # between two looks at the gauges, as for starts
_LOOK_EVERY = 0.1  # seconds; a person waits for the answer, and each look is one small query


class DecisionSender:
    """Sends decisions to the engine, and asks it whether it still waits at a gate.

    An outage goes to `report` if one is given: a relay's service logs it once a minute, not once per gate.
    """

    def __init__(
        self, database: Database, engine: Engine, *, report: Callable[[Exception], None] | None = None
    ) -> None:
        self._database = database
        self._engine = engine
        self._report = report
        self._gates = GateStore(database)
        self._runbook = Runbook(database)
        self._suspensions = Suspensions(database, engine_id=engine.engine_id)

    @property
    def engine_id(self) -> str:
        """Return the id of the engine that decisions are sent to."""
        return self._engine.engine_id

    async def again(self, token_id: UUID, job_key: int, lease_token: str | None = None) -> str | None:
        """Resend a decision to a job, because an earlier attempt may have been lost."""
        await self._gates.count_attempt(token_id, retry_after=CLAIMED_FOR)
        return await self.send(UnsentDecision(token_id, job_key, attempts=2), lease_token)

    async def send(self, unsent: UnsentDecision, lease_token: str | None = None) -> str | None:
        """Send a decision whose attempt was counted; return the engine's answer, or None if it must be sent again.

        A leased task is delivered again first: the worker that gets it sends the decision with its token.
        """
        try:
            await self._complete(unsent, lease_token)
        except JobGone:
            return await self._record_answer(unsent, gone=True)
        except LeaseLost:
            _log.info("decision is sent with the next delivery of its task", extra={"job_key": unsent.job_key})
            await self._postpone(unsent, None)
            return None
        except InstanceSuspended as error:
            await self._hold_back(unsent, error)
            return None
        except EngineError as error:
            self._log_delay("decision not sent yet; it will be sent again", unsent, error)
            await self._postpone(unsent, error)
            return None
        return await self._record_answer(unsent, gone=False)

    async def _complete(self, unsent: UnsentDecision, lease_token: str | None) -> None:
        if unsent.user_task_key is not None:
            # The engine asks our own listener meanwhile, which finds the decision stored and agrees.
            await tasks_of(self._engine).complete_user_task(unsent.user_task_key)
        elif unsent.job_key is not None:
            try:
                await self._engine.complete(unsent.job_key, NO_RESULT, lease_token=lease_token)
            except LeaseLost:
                await redeliver(self._engine, unsent.job_key)
                raise

    async def _hold_back(self, unsent: UnsentDecision, suspension: InstanceSuspended) -> None:
        """Park the entry of a suspended instance; the decision is sent again, and accepted when it is resumed."""
        try:
            await self._suspensions.park_gate(unsent.token_id)
        except StoreError as error:
            self._log_delay("suspended entry not parked yet", unsent, error)
        await self._postpone(unsent, suspension)

    async def _record_answer(self, unsent: UnsentDecision, *, gone: bool) -> str | None:
        try:
            if unsent.user_task_key is not None and unsent.attempts > 1:
                await self._suspensions.resume_gate(unsent.token_id)  # a native task has no job to ask about
            return await self._gates.record_answer(unsent.token_id, gone=gone)
        except StoreError as error:
            # The relay sends it once more, and learns that the task is gone.
            self._log_delay("answer of the engine not stored; the decision will be sent again", unsent, error)
            return None

    async def _postpone(self, unsent: UnsentDecision, error: EngineError | None) -> None:
        pause = timedelta(seconds=STORED.after(unsent.attempts))
        try:
            await self._gates.postpone(unsent.token_id, by=pause, reason=None if error is None else str(error))
        except StoreError as error:
            self._log_delay("decision not postponed; it will be sent again later", unsent, error)

    def _log_delay(self, words: str, unsent: UnsentDecision, error: Exception) -> None:
        if self._report is not None and is_away(error):
            self._report(error)
        else:
            keys = {"job_key": unsent.job_key, "user_task_key": unsent.user_task_key}
            _log.warning(words, extra={**keys, "reason": str(error)})

    async def probe(self, gate: SilentGate, timeout_ms: int, lease_token: str | None = None) -> bool:
        """Ask whether the engine still waits at a gate. If its task is gone, close it and note that in the runbook."""
        try:
            await self._engine.extend(gate.job_key, timeout_ms, lease_token=lease_token)
        except JobGone:
            await self._close(gate)
            return False
        except EngineError as error:
            if self._report is not None and isinstance(error, EngineUnavailable):
                self._report(error)
            # A job that is not active is alive as well: its next delivery is due.
            _log.debug("gate not probed", extra={"job_key": gate.job_key, "reason": str(error)})
        else:
            await self._gates.record_sighting(gate.token_id)
        return True

    async def _close(self, gate: SilentGate) -> None:
        async with self._database.transaction() as connection:
            if await self._gates.close_in(connection, gate.token_id, closed_as="gone"):
                detail = {"gate": gate.gate, "token_id": str(gate.token_id)}
                once = f"gone:{gate.element_instance_key}"
                await self._runbook.append_in(connection, gate.entry_id, Kind.GATE_GONE, once=once, detail=detail)


class GateRelay:
    """Sends decisions that the engine has not accepted, and finds gates it no longer has. Any number may run."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        *,
        every: float = 1.0,
        timeout: timedelta = timedelta(minutes=5),
    ) -> None:
        self._gates = GateStore(database)
        self._timeout = timeout
        self._rounds = 0
        self._probe_each = max(1, round(timeout.total_seconds() / 2 / _COUNT_EVERY_S))
        every_s = min(_COUNT_EVERY_S, timeout.total_seconds() / 2)
        self.service = PollLoop("gates", self.drain, every=every, chore=self.tend, chore_every=every_s)
        self._sender = DecisionSender(database, engine, report=self.service.report)
        self._assignees = Assignees(database, engine, report=self.service.report)

    async def drain(self) -> int:
        """Send each due decision and each claim to the engine once; return how many there were."""
        due = await self._gates.due(self._sender.engine_id, _CONCURRENT_CALLS, retry_after=CLAIMED_FOR)
        await self.service.for_each(due, _CONCURRENT_CALLS, self._sender.send)
        claims = await self._gates.take_claims(self._sender.engine_id, _CONCURRENT_CALLS, retry_after=CLAIMED_FOR)
        sent = await self.service.for_each(claims, _CONCURRENT_CALLS, self._assignees.send)
        # What could not be sent waits for the next round, so that an unavailable engine does not keep this one busy.
        return len(due) + sent.count(True)

    async def tend(self) -> None:
        """Set the gauges of decisions that the engine does not have, and probe twice in the time of a gate's task."""
        waiting, oldest = await self._gates.backlog(self._sender.engine_id)
        metrics.UNSENT_DECISIONS.set(waiting)
        metrics.UNSENT_DECISIONS_AGE.set(oldest)
        is_due = self._rounds % self._probe_each == 0
        self._rounds += 1
        if is_due:
            await self.probe()

    async def probe(self) -> int:
        """Check the gates whose task was not redelivered in time; return how many of them are gone."""
        silent = await self._gates.silent(self._sender.engine_id, longer_than=self._timeout * 2, limit=_PROBED)
        alive = await self.service.for_each(silent, _CONCURRENT_CALLS, self._probe)
        return alive.count(False)

    async def _probe(self, gate: SilentGate) -> bool:
        return await self._sender.probe(gate, int(self._timeout / timedelta(milliseconds=1)))


class Gates:
    """What people do at gates. With an engine a decision is sent immediately, else by the next worker's relay."""

    def __init__(self, database: Database, engine: Engine | None = None, *, refuse_unknown: bool = False) -> None:
        self._database = database
        self._gates = GateStore(database)
        self._people = People(database)
        self._writes = GateWrites(database, refuse_unknown=refuse_unknown)
        self._sender = None if engine is None else DecisionSender(database, engine)

    async def list(
        self,
        tenant_id: str,
        *,
        gate: str | None = None,
        entry_id: UUID | None = None,
        closed: bool = False,
        after: PageKey | None = None,
        limit: int = 1000,
    ) -> list[HumanGate]:
        """Return the gates that wait for a person, the longest wait first, or the next ones after a key.

        With `closed` also closed ones.
        """
        return await self._gates.gates(tenant_id, gate=gate, entry_id=entry_id, closed=closed, after=after, limit=limit)

    async def find(self, where: UUID, tenant_id: str, *, gate: str | None = None) -> HumanGate:
        """Return the gate that a token or an entry names, open ones first; raises `NotFound` or `RequestConflict`."""
        found = await self._gates.get(where, tenant_id)
        if found is not None and gate in (None, found.gate):
            return found
        gates = await self._gates.gates(tenant_id, gate=gate, entry_id=where, closed=True)
        if not gates:
            raise NotFound(f"the tenant {tenant_id} has no {'gate' if gate is None else f'gate {gate}'} at {where}")
        waiting = [gate for gate in gates if gate.closed_at is None]
        if len(waiting) > 1:
            names = ", ".join(f"{gate.gate} ({gate.token_id})" for gate in waiting)
            raise RequestConflict(f"the entry {where} waits at several gates, name one of them: {names}")
        return waiting[0] if waiting else gates[-1]

    async def claim(self, where: UUID, by: str | Person, tenant_id: str, *, gate: str | None = None) -> HumanGate:
        """Claim a gate; if another person has it, the error names that person. Claiming it twice has no effect.

        Raises `NotAllowed` for a person who may not decide there.
        """
        person = as_person(by)
        require_name("the name of who takes it", person.name, LONGEST_WORD)

        async def claim(connection: Connection, held: HumanGate) -> None:
            if held.claimed_by is None:
                await self._writes.claim_in(connection, held, person)

        return await self._at((await self.find(where, tenant_id, gate=gate)).token_id, tenant_id, person, claim)

    async def release(self, where: UUID, by: str | Person, tenant_id: str, *, gate: str | None = None) -> HumanGate:
        """Release a gate. What another person claimed needs a role: others must be able to when that person is away."""
        person = as_person(by)
        require_name("the name of who gives it back", person.name, LONGEST_WORD)

        async def release(connection: Connection, held: HumanGate) -> None:
            await self._writes.release_in(connection, held, person)

        return await self._at((await self.find(where, tenant_id, gate=gate)).token_id, tenant_id, None, release)

    async def assign(self, where: UUID, to: str, by: Person, tenant_id: str) -> HumanGate:
        """Give a gate to another person, whose roles are those of the last login under this name.

        Raises `NotAllowed` if the one may not give it away, or the other may not decide there.
        """
        require_name("the name of who gets it", to, LONGEST_WORD)

        async def assign(connection: Connection, held: HumanGate) -> None:
            person = await self._people.named_in(connection, tenant_id, to)
            if held.claimed_by is None or not person.is_same(held.claimed_by, held.claimed_by_id):
                await self._writes.assign_in(connection, held, person, by)

        return await self._at((await self.find(where, tenant_id)).token_id, tenant_id, None, assign)

    async def await_engine(self, gate: HumanGate, seconds: float) -> HumanGate:
        """Return the gate once the engine has its claim or release, or said why not; as it is after `seconds`.

        Raises `RequestConflict` if the engine refused the claim, or another person changed it meanwhile.
        """
        by, clock = gate.claimed_by, asyncio.get_running_loop().time
        deadline = clock() + seconds
        while not gate.is_mirrored and gate.claim_trouble is None and gate.closed_at is None and clock() < deadline:
            await asyncio.sleep(_LOOK_EVERY)
            gate = await self._gates.get(gate.token_id) or gate
            if by is not None and gate.claimed_by != by:
                why = gate.claim_trouble or "it was released again meanwhile"
                advice = "" if gate.claim_trouble is None else "; release it there first"
                raise RequestConflict(f"{gate.gate} of entry {gate.entry_id} cannot be claimed: {why}{advice}")
        return gate

    async def decide(
        self,
        where: UUID,
        decision: str,
        *,
        reason: str = "",
        inputs: Mapping[str, object] | None = None,
        by: str | Person,
        tenant_id: str,
        gate: str | None = None,
    ) -> HumanGate:
        """Decide at a gate, which a token or an entry names. Each gate is decided once.

        Raises `InvocationInvalid` for a decision or inputs that the gate does not accept, `RequestConflict` if it was
        decided, closed or claimed by another person, `NotAllowed` and `NotFound`. The returned gate shows whether the
        engine has the decision.
        """
        word = DecisionInput(decision, reason, as_person(by), inputs or {})
        require_readable(word)
        found = await self.find(where, tenant_id, gate=gate)
        tells = self._sender is not None and self._sender.engine_id == found.engine_id

        async def decide(connection: Connection, held: HumanGate) -> None:
            require_choice(held, decision)
            send_within = CLAIMED_FOR if tells else None
            await self._writes.decide_in(connection, held, word, send_within=send_within)

        decided = await self._at(found.token_id, tenant_id, word.by, decide)
        if self._sender is None or not tells:
            return decided
        unsent = UnsentDecision(decided.token_id, decided.job_key, attempts=1, user_task_key=decided.user_task_key)
        await self._sender.send(unsent)
        return await self._gates.get(decided.token_id) or decided

    async def _at(
        self,
        token_id: UUID,
        tenant_id: str,
        by: Person | None,
        act: Callable[[Connection, HumanGate], Awaitable[None]],
    ) -> HumanGate:
        """Act on an open gate while holding its lock, and return its state afterwards."""

        async def act_once() -> None:
            async with self._database.transaction() as connection:
                held = await self._gates.hold_in(connection, token_id, tenant_id)
                await act(connection, require_open(held, token_id, by))

        await TRANSACTION.run(act_once)
        gate = await self._gates.get(token_id, tenant_id)
        assert gate is not None, "gates are never deleted"
        return gate
