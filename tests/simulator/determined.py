"""Clock, dice and uuids of the product from the seed, and an ear for what it logs."""

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from tests.simulator.store import EPOCH
from verbworker.stores.jobs import frames as frames_store
from verbworker.work.listeners import job_handler as job_handler_module
from verbworker.work.starts import router as router_module

if TYPE_CHECKING:
    from tests.simulator.world import World


def words_of(error: BaseException | None) -> str:
    """An error and all that are inside of it, in a line."""
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}({', '.join(words_of(one) for one in error.exceptions)})"
    return "without a word" if error is None else f"{type(error).__name__}: {error}"


class _VirtualDatetime(datetime):
    """`datetime` whose `now` is the schedule's."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


class _Heard(logging.Handler):
    """What the product logs as a bug."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.DEBUG)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._world.bugs.append(f"{record.getMessage()}: {words_of(error)}")
        if self._world.options.is_traced:
            said = {
                name: record.__dict__[name] for name in ("reason", "job_key", "entry_id") if name in record.__dict__
            }
            self._world.tell(f"log: {record.getMessage()} {said or ''}")


@contextmanager
def determined(world: "World") -> Iterator[None]:
    """Take clock, dice and uuids of the product from the seed, and listen to its log."""
    before = random.getstate()
    random.seed(world.seed)
    logger = logging.getLogger("verbworker")
    heard, level, propagate = _Heard(world), logger.level, logger.propagate
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG if world.options.is_traced else logging.ERROR)
    logger.propagate = False
    changed, handlers = cast(Any, router_module), cast(Any, job_handler_module)
    uuid4, clock, often = changed.uuid4, changed.datetime, frames_store._ACK_INTERVAL
    changed.uuid4, changed.datetime, handlers.datetime = world.uuid, _VirtualDatetime, _VirtualDatetime
    cast(Any, frames_store)._ACK_INTERVAL = 3.0
    try:
        yield
    finally:
        changed.uuid4, changed.datetime, handlers.datetime = uuid4, clock, clock
        cast(Any, frames_store)._ACK_INTERVAL = often
        logger.removeHandler(heard)
        logger.setLevel(level)
        logger.propagate = propagate
        random.setstate(before)
