"""What some tests of the whole application need beside it: an operator's hands, and an engine that forgets."""

from collections.abc import Mapping

from verbworker.engines.zeebe.connection import Connection
from verbworker.engines.zeebe.engine import ZeebeEngine
from verbworker.errors import JobGone


class Forgetful(ZeebeEngine):
    """Zeebe behind a line that swallows the first completions: the worker believes it was heard, and it was not."""

    def __init__(self, connection: Connection, *, engine_id: str, swallows: int = 1) -> None:
        super().__init__(connection, engine_id=engine_id)
        self.swallowed: list[int] = []
        self._swallows = swallows

    async def complete(self, job_key: int, variables: Mapping[str, object]) -> None:
        if len(self.swallowed) < self._swallows and "domain_payload" in variables:
            self.swallowed.append(job_key)
            return
        await super().complete(job_key, variables)


async def resolve_incident(engine: ZeebeEngine, job_key: int, *, retries: int = 3) -> None:
    """Let a job run again, as an operator does in Operate; gRPC tells no incident's key, but it is one of the next."""
    for key in range(job_key + 1, job_key + 400):
        try:
            await engine.release(job_key, retries=retries, incident_key=key)
        except JobGone:
            continue
        return
    raise LookupError("no incident among the next keys")
