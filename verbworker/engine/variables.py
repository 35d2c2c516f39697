"""The process variables that the result of a job becomes. Only engines need them."""

import json

from verbworker.job.job import PAYLOAD, PAYLOAD_HASH
from verbworker.job.outcome import PLAIN_SEAL, JobResult


def variables_of(result: JobResult) -> dict[str, object]:
    """Return the process variables of a result: these and no others."""
    if result.seal == PLAIN_SEAL:
        variables: dict[str, object] = json.loads(result.payload)
        return variables
    if not result.payload:
        return {**result.flags, **result.correlation}
    return {
        PAYLOAD: result.payload.decode(),
        PAYLOAD_HASH: result.seal,
        **result.flags,
        **result.correlation,
    }
