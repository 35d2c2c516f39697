"""The ingress: accepts one message. It is stored before its sender gets an answer, regardless of the engine."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from verbworker.background.body_reader import BodyReader
from verbworker.contract.message import LARGEST, Addressee, Message, Undeliverable, UndeliverableCode, read, validate
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import CommandInvalid, EngineError, MessageInvalid, Refused, RequestConflict
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import ClaimedMessage, Inbox, Receipt
from verbworker.work.messages.delivery import AddresseeLookup, MessageDelivery

_log = logging.getLogger(__name__)

DEFAULT_TTL = timedelta(hours=1)  # for senders who do not say how long their message is of use
_CLAIMED_FOR = timedelta(seconds=30)  # what a process that died had claimed is claimed again after that


class Ingress:
    """Accepts messages from any sender that acts for a tenant: by HTTP, by command, from Python."""

    def __init__(
        self,
        inbox: Inbox,
        letters: DeadLetters,
        *,
        ttl: timedelta = DEFAULT_TTL,
        limit: int = LARGEST,
        delivery: MessageDelivery | None = None,
        reader: BodyReader | None = None,
    ) -> None:
        self._inbox = inbox
        self._letters = letters
        self._ttl = ttl
        self._limit = limit
        self._reader = BodyReader() if reader is None else reader
        self._delivery = delivery

    async def read(self, body: bytes, *, tenant_id: str, sent_by: str) -> Message:
        """Parse a body as a message. An invalid one is refused to its sender and stored as a dead letter."""
        try:
            return await self._reader.call(read, body, limit=self._limit)
        except MessageInvalid as error:
            await self.refuse(body, error, tenant_id=tenant_id, sent_by=sent_by)
            raise

    async def compose(self, fields: Mapping[str, object]) -> Message:
        """Make a message of fields, or raise `MessageInvalid`: its payload may be as large as that of a body."""
        return await self._reader.call(validate, fields)

    async def refuse(self, body: bytes, error: Refused, *, tenant_id: str, sent_by: str) -> None:
        """Store a refused message, so that a person sees it too."""
        await self._letters.bury_unreadable(tenant_id, body, str(error), sent_by=sent_by)

    async def take(self, message: Message, *, sent_by: str, ttl: timedelta | None = None) -> Receipt:
        """Store a message; it is committed on return. Raises `RequestConflict` if its id has another body."""
        receipt = await self._inbox.receive(message, sent_by=sent_by, ttl=ttl or self._ttl)
        if self._delivery is not None:
            self._delivery.service.poke()
        return receipt


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """The result of an immediate delivery: delivered, not, or kept because the engine did not answer."""

    is_delivered: bool
    is_kept: bool = False
    reason: str = ""


_DELIVERED = DeliveryAnswer(is_delivered=True)
_KEPT = DeliveryAnswer(is_delivered=False, is_kept=True, reason="the engine did not answer; the message is kept")


class ImmediateDelivery:
    """Delivers messages immediately, for senders who want to know whether a case was waiting."""

    def __init__(
        self,
        registry: Registry,
        inbox: Inbox,
        letters: DeadLetters,
        engine: Engine,
        *,
        ttl: timedelta = DEFAULT_TTL,
        tenant: str | None = None,
    ) -> None:
        self._addressing = AddresseeLookup(registry, inbox)
        self._inbox = inbox
        self._letters = letters
        self._engine = engine
        self._ttl = ttl
        self._tenant = tenant

    async def hand_over(self, message: Message, *, sent_by: str) -> DeliveryAnswer:
        """Deliver a message now or not at all; an undeliverable one becomes a dead letter too.

        If the engine's answer is lost the message is kept, and `MessageDelivery` sends it unless a case reads it.
        """
        receipt = await self._inbox.receive(message, sent_by=sent_by, ttl=self._ttl, keep_for=_CLAIMED_FOR)
        if receipt.state in ("published", "consumed"):
            return _DELIVERED
        if receipt.state == "dead":
            await self._send_again(message, sent_by)
        claimed = await self._inbox.seize(message.tenant_id, message.message_id, claim_for=_CLAIMED_FOR)
        if claimed is not None:
            return await self._deliver(claimed)
        if receipt.state != "discarded":
            return _KEPT
        return DeliveryAnswer(is_delivered=False, reason="it could not be delivered before, and a person discarded it")

    async def _send_again(self, message: Message, sent_by: str) -> None:
        """Let a sender retry after the answer that no case waits; that resolves the first dead letter."""
        letter_id = await self._letters.open_of(message.tenant_id, message.message_id)
        if letter_id is None:
            return
        with suppress(RequestConflict):  # a person was quicker
            await self._letters.redeliver(letter_id, message.tenant_id, by=sent_by, reason="its sender sent it again")

    async def _deliver(self, claimed: ClaimedMessage) -> DeliveryAnswer:
        found = await self._addressing.find(claimed, is_last_look=True)
        if isinstance(found, Undeliverable):
            return await self._bury(claimed, found)
        assert isinstance(found, Addressee), "the last look finds a recipient or a reason"
        if not await self._inbox.aim(claimed, found.instance_uid):
            return _KEPT
        try:
            key = await self._engine.correlate(
                claimed.message_name, claimed.correlation_key, {}, tenant_id=self._tenant
            )
        except CommandInvalid as error:
            return await self._bury(
                claimed, Undeliverable(UndeliverableCode.REFUSED, f"the engine refused it: {error}")
            )
        except EngineError as error:
            # No id protects it: leave the case time to report that it read the message before it is sent again.
            _log.warning("whether a message was handed over is unknown", extra={"reason": str(error)})
            await self._inbox.postpone(claimed, by=_CLAIMED_FOR, reason=str(error))
            return _KEPT
        if key is None:
            why = Undeliverable(UndeliverableCode.NO_CASE, "its case does not wait for it now", found.entry_id)
            return await self._bury(claimed, why)
        await self._inbox.record_send(claimed)
        return _DELIVERED

    async def _bury(self, claimed: ClaimedMessage, why: Undeliverable) -> DeliveryAnswer:
        await self._letters.bury(self._inbox, claimed, why)
        return DeliveryAnswer(is_delivered=False, reason=why.reason)
