"""What becomes of a leased job when its answer comes from a worker that does not hold its lease.

With leases (Camunda 8.10) the engine accepts an answer only with the token of the job's latest delivery. The token is
kept in memory, with the delivery: in `Job.lease_token`. It is not stored. Four services answer for jobs they did not
receive: the relay repeats verdicts, the sweep returns jobs of dead workers, the gate relay sends decisions, and people
decide at gates from other processes. They send no token. If the job is leased, the engine refuses, and they have it
delivered again (`redeliver`): the next delivery brings a new token and finds the verdict in the frame or at the gate,
and sends it with that token.

A stored token would be accepted only while no other worker had received the job since, so every sender would need
this way too; and a token that outlives its delivery would let a process answer for one that it does not run. Here the
token is a fence that no restart and no copy of the database can carry elsewhere. The price is one delivery, about a
second, after a crash.

`redeliver` relies on what 8.10 does: a timeout can be set without a token. An engine that refuses that delivers the job
again when its timeout ends, after `engine_timeout` at most, and for gates after `gate_timeout`.
"""

import logging
from typing import Final

from verbworker.engine.protocol import JobTimeouts
from verbworker.errors import JobNotActive, LeaseLost

_log = logging.getLogger(__name__)

# The shortest timeout there is: the engine looks for ended ones once a second.
_AT_ONCE_MS: Final = 1


async def redeliver(engine: object, job_key: int) -> None:
    """Have a leased job delivered again, under a new token; raises `JobGone` and `EngineUnavailable`.

    Harmless for a worker that holds the job: its answer is accepted until the next delivery, and the next delivery
    finds its frame.
    """
    if not isinstance(engine, JobTimeouts):
        return
    try:
        await engine.extend(job_key, _AT_ONCE_MS)
    except (JobNotActive, LeaseLost) as error:
        # It waits to be delivered already, or is delivered again after its timeout.
        _log.info("leased job is delivered later", extra={"job_key": job_key, "reason": str(error)})
