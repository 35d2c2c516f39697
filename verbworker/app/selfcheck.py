"""The start-up self-check: everything that must hold before the first job is taken, each with its own message."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final, TypeVar

from verbworker.app.settings import Settings
from verbworker.background.service_health import ServiceHealth
from verbworker.contract.registry import Registry
from verbworker.engine.known_faults import lost_timeouts
from verbworker.engine.protocol import Ask, Engine
from verbworker.errors import CannotRun, ContractInvalid, EngineError, EngineUnavailable, StoreUnavailable
from verbworker.payload.signature import KeyRing
from verbworker.retrying import SERVER_START
from verbworker.stores import migrations

_log = logging.getLogger(__name__)
T = TypeVar("T")

_REOPEN_AFTER_S: Final = 1.0  # where Postgres answers a question and then closes what is opened, as while it restarts

NOBODY = "verbworker.self-check"
"""A job type that no model has: activating it shows whether we have permission to activate jobs."""


def required_ring(registry: Registry, settings: Settings) -> KeyRing | None:
    """Return the key ring; raise `ContractInvalid` if a workflow verb needs one and none is set."""
    ring = settings.key_ring()
    signed = sorted(verb.name for verb in registry.workflows.values() if verb.integrity == "signed")
    if signed and ring is None:
        raise ContractInvalid(
            f"the workflow verb {signed[0]} has signed payloads, but no key is set; set VERBWORKER_INTEGRITY_KEYS"
            " or VERBWORKER_INTEGRITY_KEYS_FILE"
        )
    return ring


async def await_database(dsn: str, stop: asyncio.Event, meanwhile: AbstractAsyncContextManager[object]) -> bool:
    """Wait for a Postgres that does not answer, inside `meanwhile`; return False if `stop` is set first.

    A wrong address, login or schema is raised: there waiting does not help.
    """
    try:
        await migrations.require(dsn)
        return True
    except StoreUnavailable as error:
        if error.is_wrong:
            raise
        health = ServiceHealth("start")
        health.note_outage(error)

    async def look() -> None:
        if not stop.is_set():
            await migrations.require(dsn)

    async with meanwhile:
        await SERVER_START.run(look, failed=health.note_outage, sleep=lambda seconds: _pause(seconds, stop))
    return not stop.is_set()


@asynccontextmanager
async def open_with_database(
    dsn: str,
    stop: asyncio.Event,
    opening: Callable[[], AbstractAsyncContextManager[T]],
    *,
    waiting: Callable[[], AbstractAsyncContextManager[object]],
) -> AsyncIterator[T | None]:
    """Open what needs Postgres as soon as it answers, inside `waiting` until then; yield None if `stop` is set first.

    A Postgres that goes away while it is opened is waited for again.
    """
    async with AsyncExitStack() as stack:
        opened: T | None = None
        while opened is None and await await_database(dsn, stop, waiting()):
            try:
                opened = await stack.enter_async_context(opening())
            except (StoreUnavailable, EngineUnavailable) as error:
                # The embedded engine says in its own words what it heard of Postgres.
                cause = error if isinstance(error, StoreUnavailable) else error.__cause__ or error
                if not SERVER_START.is_worth(cause):
                    raise
                _log.warning("Postgres went away during the start, which begins anew", extra={"reason": str(error)})
                async with waiting():
                    await _pause(_REOPEN_AFTER_S, stop)
        yield opened


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def greet(engine: Engine, settings: Settings) -> None:
    """Report wrong credentials or tenants now. An unavailable engine is no reason to exit: it may come back."""
    try:
        facts = await engine.facts()
        await engine.activate(Ask(NOBODY, settings.worker_name, 1000, (), settings.tenant_ids), 1, 0)
    except EngineUnavailable as error:
        _log.warning("the engine does not answer; retrying until it does", extra={"reason": str(error)})
    except EngineError as error:
        raise CannotRun(f"the engine refuses this worker: {error}") from error
    else:
        _log.info("engine reached", extra={"engine_id": engine.engine_id, "engine_version": facts.version})
        _warn_of_faults(facts.version)


def _warn_of_faults(version: str) -> None:
    fault = lost_timeouts(version)
    if fault is not None:
        level = logging.WARNING if fault.is_certain else logging.INFO
        _log.log(level, "the engine has a known fault", extra={"reason": fault.words, "fix": fault.fix})
