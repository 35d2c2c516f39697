"""The failure table: which outcome an exception leads to. No I/O, no clock, no dice."""

from verbworker.errors import (
    EngineUnavailable,
    Failure,
    OutcomeUnknown,
    PermanentBusiness,
    PermanentContract,
    StoreConflict,
    StoreUnavailable,
    TransientExternal,
    TransientInfrastructure,
)
from verbworker.outcome import Incident, Retry, Thrown, Yielded
from verbworker.policy import Policy
from verbworker.verb import OnUnknown, Verb

Failed = Thrown | Retry | Yielded | Incident


def classify(error: Exception, verb: Verb, policy: Policy, *, attempt: int, retries_left: int, jitter: float) -> Failed:
    """Decide how a run of `verb` ends after `error`, on its `attempt`-th try and with `retries_left`.

    `jitter` between 0 and 1 spreads the delay.
    """
    delay = policy.delay(attempt, jitter)
    match error:
        case PermanentBusiness(thrown=str(code)):
            return Thrown(code, str(error))
        case PermanentBusiness() | PermanentContract():
            return Incident(error.kind, error.code, str(error))
        case TransientInfrastructure():
            return Yielded(error.code, str(error), delay)
        case StoreUnavailable() | StoreConflict() | EngineUnavailable():
            return Yielded(type(error).__name__, "the database or the engine did not answer", delay)
        case _ if type(error).__name__ in policy.retry.non_retryable_error_types:
            return Incident("PermanentContract", type(error).__name__, "the policy says that this is not retried")
        case OutcomeUnknown() | TimeoutError() if verb.on_unknown is OnUnknown.HOLD and verb.mode == "external":
            return Incident(
                "PermanentContract", "OutcomeUnknown", "a call may have reached the outside; it is not repeated"
            )
    return _retry(error, retries_left, delay)


def _retry(error: Exception, retries_left: int, delay: float) -> Retry | Incident:
    code, text = _described(error)
    if retries_left > 1:
        return Retry(TransientExternal.kind, code, text, delay)
    return Incident(TransientExternal.kind, code, f"{text}; no retry is left")


def _described(error: Exception) -> tuple[str, str]:
    """The code and a text that may be shown: a deliberate failure's own words, never a stray exception's."""
    if isinstance(error, Failure):
        return error.code, str(error)
    if isinstance(error, TimeoutError):
        return "Timeout", "the verb did not end within its time"
    return type(error).__name__, f"the verb raised {type(error).__name__}"
