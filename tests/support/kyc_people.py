"""What some tests of the whole application need beside it: the engine, an operator's hands, an engine that forgets."""

import json
from collections.abc import Mapping

from tests.support.connections import connection_to
from verbworker.app.settings import Settings
from verbworker.app.wiring import engine_pool
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.embedded.job_completion import Completion
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import JobGone
from verbworker.job.outcome import JobResult
from verbworker.stores.embedded.tokens import instance_of

Grown = ZeebeEngine | EmbeddedEngine
"""An engine that holds a whole application."""

_KEYS = 400


def grown(settings: Settings, address: str, rest_url: str | None = None) -> Grown:
    """The engine as a worker of these settings opens it; a broker is at the address."""
    if settings.engine == "embedded":
        return EmbeddedEngine(engine_pool(settings), engine_id=settings.cluster())
    return ZeebeEngine(
        connection_to(address, **({} if rest_url is None else {"rest_url": rest_url})), engine_id=settings.cluster()
    )


class _Swallowing:
    """A line that swallows the first completions: the worker believes it was heard, and it was not."""

    swallowed: list[int]
    swallows = 1

    def swallow(self, job_key: int, result: JobResult) -> bool:
        """Whether this completion gets lost."""
        if len(self.swallowed) >= self.swallows or not result.payload:
            return False
        self.swallowed.append(job_key)
        return True


class ForgetfulZeebe(_Swallowing, ZeebeEngine):
    """Zeebe behind such a line."""

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Complete a job, or believe so."""
        if not self.swallow(job_key, result):
            await super().complete(job_key, result, lease_token=lease_token)


class ForgetfulEmbedded(_Swallowing, EmbeddedEngine):
    """The embedded engine behind such a line. What is committed together with a verdict is never lost."""

    async def prepare_completion(self, job_key: int, result: JobResult) -> Completion:
        """Forget the instance first: the completion of an external verb then takes a command of its own."""
        self._memory.take(instance_of(job_key))
        return await super().prepare_completion(job_key, result)

    async def complete(self, job_key: int, result: JobResult, *, lease_token: str | None = None) -> None:
        """Complete a job, or believe so."""
        if not self.swallow(job_key, result):
            await super().complete(job_key, result, lease_token=lease_token)


def forgetful(settings: Settings, address: str) -> ForgetfulZeebe | ForgetfulEmbedded:
    """The engine of these settings behind a line that swallows one completion."""
    engine: ForgetfulZeebe | ForgetfulEmbedded
    if settings.engine == "embedded":
        engine = ForgetfulEmbedded(engine_pool(settings), engine_id=settings.cluster())
    else:
        engine = ForgetfulZeebe(connection_to(address), engine_id=settings.cluster())
    engine.swallowed = []
    return engine


async def set_variables(engine: Grown, instance_key: int, variables: Mapping[str, object]) -> None:
    """Change an instance's variables behind everybody's back."""
    if isinstance(engine, EmbeddedEngine):
        await engine.set_variables(instance_key, variables)
        return
    from pyzeebe.proto import gateway_pb2 as messages

    request = messages.SetVariablesRequest(elementInstanceKey=instance_key, variables=json.dumps(dict(variables)))
    await engine._gateway.send("SetVariables", request, timeout_s=30)


async def resolve_incident(engine: Grown, job_key: int, *, retries: int = 3) -> None:
    """Let a job run again, as an operator does in Operate."""
    if isinstance(engine, EmbeddedEngine):
        await engine.release(job_key, retries=retries)
        return
    # gRPC tells no incident's key, but it is one of the next.
    for key in range(job_key + 1, job_key + _KEYS):
        try:
            await engine.release(job_key, retries=retries, incident_key=key)
        except JobGone:
            continue
        return
    raise LookupError("no incident among the next keys")
