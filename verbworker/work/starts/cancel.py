"""Cancellation: a person requests the end of an entry, the engine is informed, and the entry lists what was done."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from verbworker.background.poll_loop import PollLoop
from verbworker.contract.text import LONGEST_REASON, require_name, require_text
from verbworker.engine.protocol import Engine
from verbworker.errors import EngineError, EngineUnavailable, JobGone, NotFound, RequestConflict
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.runbook.event import Entry, Kind, Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Carrier, Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database

_BATCH = 50  # entries per round; the others come next
_CONCURRENT_CALLS = 16  # calls of the engine; more would only queue there
_LATER = timedelta(seconds=5)  # the process that was asked to cancel tries first
_OUTSIDE = "ended outside"
_LONGEST_NAME = 256  # characters; as long as the name of a credential


class Cancellation:
    """Ends entries early. Cancelling is not undoing: completed steps stay and are listed.

    So are the steps that ran meanwhile: whether they took effect is unknown.

    The request is stored before it is sent to the engine; the first of request and result counts. Without an engine it
    only stores requests: the workers' own loops send them.
    """

    def __init__(
        self,
        database: Database,
        dispatches: Dispatches,
        engine: Engine | None = None,
        *,
        every: float = 2.0,
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._database = database
        self._dispatches = dispatches
        self._engine = engine
        self._tracer = tracer
        self._runbook = Runbook(database)
        self._instances = Instances(database)
        self.service = PollLoop("cancels", self.drain, every=every)

    async def cancel(self, entry_id: UUID, *, tenant_id: str, by: str, reason: str) -> Entry:
        """Request the end of an entry and return it: cancelled, or still open while the engine is unavailable.

        The same person with the same reason repeats the same request and gets the same answer. Raises `NotFound`,
        `InvocationInvalid` for a blank reason, or `RequestConflict` if it ended differently or cannot be cancelled.
        """
        require_name("the name of who cancels", by, _LONGEST_NAME)
        require_text("the reason", reason, LONGEST_REASON)
        entry = await self._entry(entry_id, tenant_id)
        is_ended = False
        async with self._database.transaction() as connection:
            carrier = await self._instances.hold_carrier_in(connection, entry_id)
            if carrier is None and not entry.status.is_final:
                raise RequestConflict(f"{entry.verb} is performed immediately and cannot be cancelled")
            is_open = await self._runbook.request_cancel_in(connection, entry_id, by, reason)
            if is_open and carrier is not None and carrier.instance_key is None:
                await self._dispatches.withdraw_in(connection, carrier.instance_uid)
                is_ended = await self._end_in(connection, entry_id, {"by": by, "reason": reason})
            asked = await self._runbook.first_in(connection, entry_id, Kind.CANCEL_REQUESTED)
        await self._trace_end(entry_id, is_ended)
        if is_open:
            await self.carry_out(entry_id)
        ended = await self._entry(entry_id, tenant_id)
        is_repeat = ended.status is Status.CANCELLED and asked == {"by": by, "reason": reason}
        if not is_open and not is_repeat:
            raise RequestConflict(_describe_end(ended, asked))
        return ended

    async def carry_out(self, entry_id: UUID) -> bool:
        """Have the engine carry out a cancel request; return False if it does not exist or cannot be sent."""
        carrier = await self._instances.of_entry(entry_id)
        if self._engine is None or carrier is None:
            return False
        async with self._database.acquire() as connection:
            if not await self._runbook.is_cancelling_in(connection, entry_id):
                return False
        if carrier.instance_key is None:
            return await self._end_lost(entry_id)
        try:
            await self._engine.cancel(carrier.instance_key)
        except JobGone:
            pass  # an earlier request of ours succeeded, or a person's
        except EngineUnavailable as error:
            self.service.report(error)
            return False
        except EngineError as error:
            self.service.health.note_refusal(error)
            return False
        async with self._database.transaction() as connection:
            asked = await self._runbook.first_in(connection, entry_id, Kind.CANCEL_REQUESTED)
            cause = {**(asked or {}), "instance_key": carrier.instance_key}
            is_ended = await self._end_in(connection, entry_id, cause)
        await self._trace_end(entry_id, is_ended)
        return True

    async def _end_lost(self, entry_id: UUID) -> bool:
        """End an entry whose instance has no key: the engine reused it. If the instance comes back, it is cancelled."""
        async with self._database.transaction() as connection:
            carrier = await self._instances.hold_carrier_in(connection, entry_id)
            if carrier is None or carrier.instance_key is not None:
                return False
            await self._dispatches.withdraw_in(connection, carrier.instance_uid)
            asked = await self._runbook.first_in(connection, entry_id, Kind.CANCEL_REQUESTED)
            is_ended = await self._end_in(connection, entry_id, asked or {})
        return await self._trace_end(entry_id, is_ended)

    async def end_outside(self, entry_id: UUID, instance_key: int, *, why: str = "", is_reported: bool = False) -> bool:
        """End an entry whose instance the engine no longer has, though it was not ended here; `why` if that is known.

        Returns False if it ended before, or if the engine has the instance under another key. With `is_reported` the
        engine itself told that this instance ends: that its jobs are being served then, this report among them, is
        no sign of another instance.
        """
        async with self._database.transaction() as connection:
            carrier = await self._instances.hold_carrier_in(connection, entry_id)
            if carrier is not None and (
                carrier.instance_key != instance_key  # adopted under another key since the caller looked
                or (not is_reported and await self._is_made_again(connection, carrier))
            ):
                return False
            asked = await self._runbook.first_in(connection, entry_id, Kind.CANCEL_REQUESTED)
            cause = asked or {"by": None, "reason": f"{_OUTSIDE}: {why}" if why else _OUTSIDE}
            is_ended = await self._end_in(connection, entry_id, {**cause, "instance_key": instance_key})
        return await self._trace_end(entry_id, is_ended)

    async def _is_made_again(self, connection: Connection, carrier: Carrier) -> bool:
        assert carrier.instance_key is not None, "it was compared with the key of an instance"
        return await self._instances.is_made_again_in(connection, carrier.instance_uid, carrier.instance_key)

    async def drain(self, *, longer_than: timedelta = _LATER) -> int:
        """Send each waiting request once; return how many entries ended by that."""
        if self._engine is None:
            return 0
        waiting = await self._runbook.find_cancelling(self._engine.engine_id, longer_than=longer_than, limit=_BATCH)
        return sum(await self.service.for_each(waiting, _CONCURRENT_CALLS, self.carry_out))

    async def _end_in(self, connection: Connection, entry_id: UUID, cause: Mapping[str, Any]) -> bool:
        done = await self._runbook.verbs_in(connection, entry_id, Kind.STEP_COMPLETED)
        undone = await self._runbook.verbs_in(connection, entry_id, Kind.COMPENSATED)
        unknown = await self._runbook.under_way_in(connection, entry_id)
        detail = {**cause, "done": done, "undone": undone, "running": unknown}
        return await self._runbook.end_in(connection, entry_id, outcome=None, detail=detail, kind=Kind.CANCELLED)

    async def _trace_end(self, entry_id: UUID, is_ended: bool) -> bool:
        if is_ended:
            await self._tracer.record_case_end(entry_id, Status.CANCELLED.value)
        return is_ended

    async def _entry(self, entry_id: UUID, tenant_id: str) -> Entry:
        entry = await self._runbook.entry(entry_id, tenant_id=tenant_id)
        if entry is None:
            raise NotFound(f"there is no entry {entry_id}")
        return entry


def _describe_end(entry: Entry, asked: Mapping[str, Any] | None) -> str:
    at = "" if entry.ended_at is None else f" at {entry.ended_at:%Y-%m-%d %H:%M:%S} UTC"
    by = (
        ""
        if asked is None or entry.status is not Status.CANCELLED
        else f", asked for by {asked['by']}: {asked['reason']}"
    )
    return f"the entry has already ended: it is {entry.status}{at}{by}"
