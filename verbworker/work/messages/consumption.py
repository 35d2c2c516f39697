"""Consumption: takes envelopes from a bus into the inbox, and acknowledges each once it is committed there."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any, Final, cast

from verbworker.background.outages import POSTGRES, Outage
from verbworker.contract.consumer import Consumer, Delivery
from verbworker.contract.message import Message, trace_fields
from verbworker.errors import CannotRun, MessageInvalid, QuotaExceeded, RequestConflict, VerbworkerError
from verbworker.retrying import DATABASE, SERVICE, Retries, is_outage
from verbworker.stores.access.tenancy import tenant_scope
from verbworker.work.messages.ingress import Ingress

_log = logging.getLogger(__name__)

_FINISH_WITHIN: Final = 5.0  # seconds for the message in hand when a signal comes; one not acknowledged comes again
_REOPENING: Final = Retries(is_outage, SERVICE)


class Consumption:
    """Runs one consumer. Acknowledging comes last, so that a message may come twice and is never lost.

    An envelope that no case could ever get is a dead letter, and acknowledged; if `is_strict` it ends the run instead.
    One that cannot be read is a dead letter of `tenant_id`. Messages are of any tenant, or of `only_tenant`.
    """

    def __init__(
        self,
        name: str,
        consumer: Consumer,
        ingress: Ingress,
        *,
        tenant_id: str,
        only_tenant: str | None = None,
        is_strict: bool = False,
    ) -> None:
        self._name = name
        self._consumer = consumer
        self._ingress = ingress
        self._tenant_id = only_tenant or tenant_id
        self._only_tenant = only_tenant
        self._is_strict = is_strict
        self._sender = f"consumer:{name}"
        self._has_worked = False
        self._in_hand = asyncio.Lock()
        self._bus = Outage(f"The consumer {name}")

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set or the consumer returns; finish the message in hand first.

        Waits while Postgres or the bus is away. Once a delivery was acknowledged, any error of the consumer means the
        latter; before that, one that is no `OSError` raises `CannotRun`.
        """
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(_REOPENING.run(self._consume, failed=lambda error: _warn(self._bus, error)))
            stopped = tasks.create_task(stop.wait())
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not work.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._in_hand.acquire(), _FINISH_WITHIN)
                work.cancel()

    async def _consume(self) -> None:
        with self._explain_errors():
            deliveries: AsyncIterator[Delivery] = aiter(self._consumer())
        async with aclosing(cast("Any", deliveries)):
            while (delivery := await self._next(deliveries)) is not None:
                self._bus.note_answer()
                async with self._in_hand:
                    await DATABASE.run(partial(self._store, delivery), failed=lambda error: _warn(POSTGRES, error))
                    with self._explain_errors():
                        await delivery.acknowledge()
                    self._has_worked = True

    async def _next(self, deliveries: AsyncIterator[Delivery]) -> Delivery | None:
        with self._explain_errors():
            delivery = await anext(deliveries, None)
        if delivery is None or isinstance(delivery, Delivery):
            return delivery
        raise CannotRun(f"the consumer {self._name} yields a {type(delivery).__name__}, not a verbworker.Delivery")

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Pass on what is waited out. Any other error of a consumer that never worked is one of its code."""
        try:
            yield
        except Exception as error:
            if is_outage(error) or isinstance(error, VerbworkerError):
                raise
            if self._has_worked:
                # Libraries have errors of their own for a lost connection. Their words may quote a message.
                raise ConnectionError(type(error).__name__) from error
            words = f"the consumer {self._name} raised {type(error).__name__}; run with --debug to see where"
            raise CannotRun(words) from error

    async def _store(self, delivery: Delivery) -> None:
        """Commit a delivery, as a message or as a dead letter."""
        tenant_id = delivery.tenant_id or self._tenant_id
        try:
            with tenant_scope(tenant_id):
                message = await self._ingress.read(delivery.body, tenant_id=tenant_id, sent_by=self._sender)
        except MessageInvalid as error:  # it has its dead letter
            self._refuse(error)
            return
        try:
            if not {delivery.tenant_id, self._only_tenant} <= {None, message.tenant_id}:
                raise MessageInvalid("the message is for another tenant than its sender may send to")
            await self._take(message)
        except (MessageInvalid, RequestConflict) as error:
            with tenant_scope(tenant_id):
                await self._ingress.refuse(delivery.body, error, tenant_id=tenant_id, sent_by=self._sender)
            self._refuse(error)

    def _refuse(self, error: VerbworkerError) -> None:
        if self._is_strict:
            raise error
        _log.warning("an envelope was refused", extra={"sender": self._sender, "reason": str(error)})

    async def _take(self, message: Message) -> None:
        named = {"message_id": message.message_id, "message_name": message.message_name, "tenant_id": message.tenant_id}
        who = {**named, "sender": self._sender, **trace_fields(message)}
        while True:
            try:
                with tenant_scope(message.tenant_id):
                    receipt = await self._ingress.take(message, sent_by=self._sender)
            except QuotaExceeded as error:
                _log.warning("a message waits for the quota of its tenant", extra={**who, "reason": str(error)})
                await asyncio.sleep(error.retry_after)
            else:
                _log.info("message stored", extra={**who, "is_new": receipt.is_new})
                return


def _warn(outage: Outage, error: BaseException) -> None:
    line = outage.tell(asyncio.get_running_loop().time())
    if line is not None:
        _log.warning(line, extra={"reason": str(error)})
