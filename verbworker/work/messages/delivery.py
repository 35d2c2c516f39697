"""Message delivery: finds the case of a message, publishes it, and gives up those that will never be read."""

import logging
from datetime import timedelta
from uuid import UUID

from verbworker import metrics
from verbworker.background.poll_loop import PollLoop
from verbworker.contract.message import (
    Addressee,
    Undeliverable,
    UndeliverableCode,
    address,
    engine_message_id,
    trace_fields,
)
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine, Signal
from verbworker.errors import CommandInvalid, EngineError, EngineUnavailable
from verbworker.job.trace import UNTRACED, SentMessage, Tracer
from verbworker.retrying import MESSAGE_LOOKS, MESSAGE_SENDS, Pauses
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import SLACK, ClaimedMessage, Inbox

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS = 16  # calls of the engine; more would only queue there
_CLAIMED_FOR = timedelta(seconds=30)  # what a process that died had claimed is claimed again after that
_STRAND_EVERY = 10.0  # seconds; expired messages are in no hurry
_EXPIRED = Undeliverable(UndeliverableCode.EXPIRED, "it expired before a case read it")
_ENDED = Undeliverable(UndeliverableCode.ENDED, "its case ended before it was read")
_NOBODY = Undeliverable(UndeliverableCode.NO_CASE, "no case waits for it")


class AddresseeLookup:
    """Looks up addressees, by the verbs that accept a message and the cases that have its key.

    A message is for one case, for none, or for none yet.
    """

    def __init__(self, registry: Registry, inbox: Inbox) -> None:
        self._registry = registry
        self._inbox = inbox

    @property
    def names(self) -> set[str]:
        """Return the names that a verb of this process accepts."""
        return {name for workflow in self._registry.workflows.values() for name in workflow.messages}

    async def find(self, claimed: ClaimedMessage, *, is_last_look: bool) -> Addressee | Undeliverable | None:
        """Return the addressee of a message; None while its case may still come, unless this is the last look."""
        declared = {
            workflow.name: workflow.messages[claimed.message_name]
            for workflow in self._registry.workflows.values()
            if claimed.message_name in workflow.messages
        }
        if not declared and claimed.is_over:
            return _EXPIRED
        if not declared:
            return Undeliverable(UndeliverableCode.UNKNOWN_NAME, f"no verb takes a message {claimed.message_name!a}")
        candidates = await self._inbox.candidates(claimed, declared)
        found = address(candidates, tenant_id=claimed.tenant_id, entry_id=claimed.entry_id)
        if isinstance(found, Addressee) and claimed.workflow_id is not None:
            return await self._require_workflow(claimed.workflow_id, found)
        return _NOBODY if found is None and is_last_look else found

    async def _require_workflow(self, workflow_id: str, found: Addressee) -> Addressee | Undeliverable:
        """Return an addressee if it is the case that the sender named."""
        if await self._inbox.fits_workflow(found.instance_uid, workflow_id):
            return found
        reason = f"it names the workflow {workflow_id!a}, but its key belongs to another"
        return Undeliverable(UndeliverableCode.MISMATCH, reason, found.entry_id)


class MessageDelivery:
    """Publishes due messages, each once under its own id. Any number of instances may run concurrently."""

    def __init__(
        self,
        registry: Registry,
        inbox: Inbox,
        letters: DeadLetters,
        engine: Engine,
        *,
        every: float = 1.0,
        slack: timedelta = SLACK,
        tenant: str | None = None,
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._addressing = AddresseeLookup(registry, inbox)
        self._inbox = inbox
        self._letters = letters
        self._engine = engine
        self._slack = slack
        self._tenant = tenant
        self._tracer = tracer
        self.service = PollLoop("messages", self.drain, every=every, chore=self.tidy, chore_every=_STRAND_EVERY)

    async def tidy(self) -> None:
        """Find messages whose case has ended or whose wait the engine forgot to end, and count the waiting ones."""
        await self._inbox.strand()
        forgotten = await self._inbox.claim_forgotten(_CONCURRENT_CALLS, claim_for=_CLAIMED_FOR)
        await self.service.for_each(forgotten, _CONCURRENT_CALLS, self._send_again)
        waiting, oldest = await self._inbox.backlog()
        metrics.INBOX.set(waiting)
        metrics.INBOX_AGE.set(oldest)

    async def drain(self) -> int:
        """Try once to deliver each due message; return how many there were."""
        due = await self._inbox.claim(_CONCURRENT_CALLS, names=self._addressing.names, claim_for=_CLAIMED_FOR)
        await self.service.for_each(due, _CONCURRENT_CALLS, self._deliver)
        return len(due)

    async def _deliver(self, claimed: ClaimedMessage) -> None:
        # If a database write fails, the message is delivered again when the claim expires: harmless under the same id.
        if claimed.state == "published":
            await self.bury(claimed, _EXPIRED if claimed.is_over else _ENDED)
            return
        match await self._addressing.find(claimed, is_last_look=claimed.is_over):
            case Addressee(instance_uid=instance_uid, entry_id=entry_id):
                if await self._inbox.aim(claimed, instance_uid):
                    await self._publish(claimed, entry_id)
            case Undeliverable() as why:
                await self.bury(claimed, why)
            case None:
                await self._wait(claimed, "no case has its key yet", MESSAGE_LOOKS)

    async def _publish(self, claimed: ClaimedMessage, entry_id: UUID) -> None:
        sent = SentMessage(
            *(claimed.message_name, claimed.message_id, entry_id),
            *(claimed.traceparent, claimed.correlation_id, claimed.causation_id),
        )
        try:
            async with self._tracer.message(sent):
                await self._engine.publish(self._signal(claimed))
        except CommandInvalid as error:
            await self.bury(claimed, Undeliverable(UndeliverableCode.REFUSED, f"the engine refused it: {error}"))
        except EngineError as error:
            if isinstance(error, EngineUnavailable):
                self.service.report(error)
            else:
                _log.warning("not published yet", extra={**_who(claimed), "reason": str(error)})
            await self._wait(claimed, str(error), MESSAGE_SENDS)
        else:
            metrics.MESSAGES.labels("published").inc()
            await self._inbox.record_send(claimed, slack=self._slack)
            _log.info("message published", extra=_who(claimed))

    async def _send_again(self, claimed: ClaimedMessage) -> None:
        """Send a message again that was already read, because the engine forgot it and waits again."""
        # Under its old id: an engine that still has it accepts no second one.
        await self._engine.publish(self._signal(claimed))
        await self._inbox.resent(claimed)
        _log.warning("the engine had forgotten a message; it was sent again", extra=_who(claimed))

    def _signal(self, claimed: ClaimedMessage) -> Signal:
        return Signal(
            name=claimed.message_name,
            correlation_key=claimed.correlation_key,
            message_id=engine_message_id(claimed.tenant_id, claimed.message_id, claimed.generation),
            ttl_ms=max(1, round(claimed.ttl / timedelta(milliseconds=1))),
            variables={},
            tenant_id=self._tenant,
        )

    async def bury(self, claimed: ClaimedMessage, why: Undeliverable) -> None:
        """Turn a message into a dead letter, and record that in its entry."""
        letter_id = await self._letters.bury(self._inbox, claimed, why)
        if letter_id is not None:
            metrics.MESSAGES.labels(why.code.value).inc()
            _log.warning(
                "message delivery failed, manual resolution required", extra={**_who(claimed), "code": why.code}
            )

    async def _wait(self, claimed: ClaimedMessage, reason: str, pauses: Pauses) -> None:
        pause = pauses.after(claimed.attempts)
        await self._inbox.postpone(claimed, by=timedelta(seconds=pause), reason=reason)


def _who(claimed: ClaimedMessage) -> dict[str, object]:
    who = {"tenant_id": claimed.tenant_id, "message_id": claimed.message_id, "message_name": claimed.message_name}
    return {**who, **trace_fields(claimed)}
