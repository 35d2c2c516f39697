"""The failure table: which outcome an exception leads to. No I/O, no clock, no randomness."""

from verblint.contracts.syntax import MAX_ERROR_CODE
from verbworker.contract.policy import Policy
from verbworker.contract.verb import OnUnknown, Verb
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
    WorkerStopping,
)
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded

Failed = Thrown | Retry | Yielded | Incident

_MOST_WORDS = 1000  # characters of a reason; frames, engine and console hold it


def classify(
    error: Exception, verb: Verb | None, policy: Policy, *, attempt: int, retries_left: int, jitter: float
) -> Failed:
    """Return the outcome of a run of `verb` that raised `error` on try `attempt`, with `retries_left`.

    `jitter` between 0 and 1 spreads the delay. `verb` is None when the job names an unknown verb.
    """
    delay = policy.delay(attempt, jitter)
    match error:
        case PermanentBusiness(thrown=str(code)):
            return _thrown(_plain(code, MAX_ERROR_CODE), _plain(str(error)), verb)
        case PermanentBusiness() | PermanentContract():
            return Incident(error.kind, *_describe(error))
        case WorkerStopping():
            return Yielded(*_describe(error), 0.0)
        case TransientInfrastructure():
            return Yielded(*_describe(error), delay)
        case StoreUnavailable() | StoreConflict() | EngineUnavailable():
            return Yielded(type(error).__name__, "the database or the engine did not answer", delay)
        case _ if not _names(error).isdisjoint(policy.retry.non_retryable_error_types):
            return Incident(PermanentContract.kind, type(error).__name__, "the policy says that this is not retried")
        case OutcomeUnknown() | TimeoutError() if verb is not None and verb.on_unknown is OnUnknown.HOLD:
            return Incident(
                PermanentContract.kind, "OutcomeUnknown", "a call may have reached the outside; it is not repeated"
            )
    return _retry(error, retries_left, delay)


def _thrown(code: str, text: str, verb: Verb | None) -> Thrown | Incident:
    """Throw a code to the model, unless the verb declares its codes without this one: models rely on those."""
    if verb is None or verb.errors is None or code in verb.errors:
        return Thrown(code, text)
    declared = ", ".join(verb.errors) or "none"
    words = f"{text}; {verb.name} ended with the code {code}, which is not in its errors= ({declared})"
    return Incident(PermanentContract.kind, "ErrorUndeclared", _plain(words))


def _names(error: Exception) -> set[str]:
    """Return every name a policy may use for an exception: its class and base classes, with and without module."""
    kinds = [kind for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return {name for kind in kinds for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")}


def _retry(error: Exception, retries_left: int, delay: float) -> Retry | Incident:
    code, text = _describe(error)
    if retries_left > 1:
        return Retry(TransientExternal.kind, code, text, delay)
    return Incident(TransientExternal.kind, code, f"{text}; no retry is left")


def _describe(error: Exception) -> tuple[str, str]:
    """Return the code and a text safe to show: a deliberate failure's own message, never another exception's."""
    if isinstance(error, Failure):
        return _plain(error.code, MAX_ERROR_CODE), _plain(str(error))
    if isinstance(error, TimeoutError):
        return "Timeout", "the verb did not end within its time"
    return type(error).__name__, f"the verb raised {type(error).__name__}"


def _plain(text: str, most: int = _MOST_WORDS) -> str:
    """Return text safe to store, send and show: neither Postgres nor every terminal accepts all characters."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= most else line[: most - 1] + "…"
