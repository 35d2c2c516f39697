"""Direct verbs, run immediately for a caller: one entry, one run, one result."""

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError

from verbworker.contract.registry import Registry
from verbworker.contract.text import describe_misfit, tell_name
from verbworker.contract.verb import Call, Mode, OnUnknown, Verb
from verbworker.contract.workflow import unknown_argument
from verbworker.errors import Fenced, InvocationInvalid, PermanentBusiness, PermanentContract, StoreUnavailable
from verbworker.job.classify import classify
from verbworker.job.frame import derive_key
from verbworker.payload.canonical import canonical
from verbworker.retrying import COLLISION
from verbworker.runbook.event import Kind
from verbworker.stores.access.guarded_connection import GuardedConnection
from verbworker.stores.cases.runbook import DirectRun, Runbook
from verbworker.stores.database import Connection, Database
from verbworker.work.jobs.perform import VerbRun

_log = logging.getLogger("verbworker.verb")
_WHOLE = "arguments"  # what a problem of no single argument is about
_MARGIN = timedelta(seconds=30)  # beyond the verb's own timeout, to store its result


class Direct:
    """Runs direct verbs for the router."""

    def __init__(self, registry: Registry, control: Database, verbs: Database, verb_run: VerbRun, owner: UUID) -> None:
        self._registry = registry
        self._control = control
        self._verbs = verbs
        self._verb_run = verb_run
        self._owner = owner
        self._runbook = Runbook(control)

    def case_of(self, verb: Verb, args: Mapping[str, Any]) -> BaseModel:
        """Return the verb's case made from a caller's arguments; raises `InvocationInvalid`."""
        given = {name.replace("-", "_"): value for name, value in args.items()}
        known = _names(verb.model)
        unknown = [name.replace("_", "-") for name in given if name not in known]
        if unknown:
            words = unknown_argument(unknown[0], {name.replace("_", "-") for name in known})
            raise InvocationInvalid(f"{verb.name}: {words}", {f"args.{tell_name(unknown[0])}": words})
        try:
            return verb.model.model_validate_json(canonical(given))
        except ValidationError as error:
            problems = _problems(error)
            words = "; ".join(f"{name} {misfit}" for name, misfit in problems.items())
            fields = {"args" if name == _WHOLE else f"args.{name}": misfit for name, misfit in problems.items()}
            raise InvocationInvalid(f"{verb.name}: {words}", fields) from None
        except PermanentContract as error:
            raise InvocationInvalid(f"{verb.name}: {error}") from error

    async def perform(self, verb: Verb, entry_id: UUID, case: BaseModel, tenant_id: str) -> None:
        """Run a verb for its entry, unless it ran or is running already; the entry shows how it ended."""
        limit = timedelta(seconds=self._registry.policy_of(verb).start_to_close_timeout_seconds)
        taken = await self._runbook.take(entry_id, self._owner, limit + _MARGIN)
        if taken is None:
            return
        try:
            async with asyncio.timeout(limit.total_seconds()):
                if taken.epoch > 1 and verb.mode is Mode.EXTERNAL and verb.on_unknown is OnUnknown.HOLD:
                    raise PermanentContract(
                        "an earlier run may have reached the outside; it is not repeated", code="OutcomeUnknown"
                    )
                if verb.mode is Mode.TRANSACTIONAL:
                    await COLLISION.run(lambda: self._transactional(verb, taken, case, tenant_id, limit))
                else:
                    await self._external(verb, taken, case, tenant_id, limit)
        except Fenced:
            return
        except StoreUnavailable:
            raise  # how it ended is unknown; repeating the same request key finds out
        except Exception as error:
            await self._record_failure(verb, taken, error)

    async def _transactional(
        self, verb: Verb, taken: DirectRun, case: BaseModel, tenant_id: str, limit: timedelta
    ) -> None:
        async with self._verbs.transaction() as connection:
            call = _call(verb, taken, tenant_id, limit, connection=GuardedConnection(connection))
            answer = await self._verb_run.act(verb, case, call)
            await self._end_in(connection, verb, taken, answer)

    async def _external(self, verb: Verb, taken: DirectRun, case: BaseModel, tenant_id: str, limit: timedelta) -> None:
        call = _call(verb, taken, tenant_id, limit)
        answer: object = None
        if taken.epoch > 1 and verb.probe is not None:
            answer = await self._verb_run.invoke(verb.probe, case, call)
        if answer is None:
            answer = await self._verb_run.act(verb, case, call)

        async def end() -> None:
            async with self._control.transaction() as connection:
                await self._end_in(connection, verb, taken, answer)

        # The call is done: a collision while it is stored says nothing about it.
        await COLLISION.run(end)

    async def _end_in(self, connection: Connection, verb: Verb, taken: DirectRun, answer: object) -> None:
        result = verb.result_of(answer)
        outcome = canonical(result.case.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False))
        if not await self._runbook.holds_in(connection, taken):
            raise Fenced("another caller is running this entry")
        done = {"verb": verb.name, "outcome": "complete", "runs": taken.epoch}
        await self._runbook.append_in(connection, taken.entry_id, Kind.STEP_COMPLETED, once="step", detail=done)
        detail = {"result": "ok", "outcome": result.outcome}
        await self._runbook.end_in(connection, taken.entry_id, outcome=outcome, detail=detail)

    async def _record_failure(self, verb: Verb, taken: DirectRun, error: Exception) -> None:
        policy = self._registry.policy_of(verb)
        failed = classify(error, verb, policy, attempt=1, retries_left=1, jitter=random.random())
        self._verb_run.log_failure(error, failed, verb, {"verb": verb.name, "entry_id": str(taken.entry_id)})
        kind = getattr(failed, "kind", PermanentBusiness.kind)
        detail = {"result": "err", "verb": verb.name, "class": kind, "code": failed.code, "text": failed.message}
        async with self._control.transaction() as connection:
            if await self._runbook.holds_in(connection, taken):
                await self._runbook.end_in(connection, taken.entry_id, outcome=None, detail=detail)


def _call(
    verb: Verb, taken: DirectRun, tenant_id: str, limit: timedelta, *, connection: GuardedConnection | None = None
) -> Call:
    fields = {"verb": verb.name, "entry_id": str(taken.entry_id), "attempt": taken.epoch}
    return Call(
        verb=verb.name,
        entry_id=taken.entry_id,
        tenant_id=tenant_id,
        idempotency_key=derive_key("direct", taken.entry_id, verb.name),
        attempt=taken.epoch,
        epoch=taken.epoch,
        deadline=taken.now + limit,
        log=logging.LoggerAdapter(_log, fields),
        connection=connection,
        clock=partial(datetime.now, UTC),
    )


def _names(model: type[BaseModel]) -> set[str]:
    return {name for field, info in model.model_fields.items() for name in (field, info.alias) if name}


def _problems(error: ValidationError) -> dict[str, str]:
    """Return where and what the problems are, never the values."""
    return {
        ".".join(map(tell_name, problem["loc"])) or _WHOLE: describe_misfit(dict(problem))
        for problem in error.errors(include_url=False, include_input=False, include_context=False)[:5]
    }
