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
    StoreError,
    StoreUnavailable,
    TransientExternal,
    TransientInfrastructure,
    WorkerStopping,
)
from verbworker.job.error_place import RaisedError, locate_error
from verbworker.job.outcome import Incident, Retry, Thrown, Yielded

Failed = Thrown | Retry | Yielded | Incident

UNEXPECTED = "UnexpectedError"
"""The class of an exception that no verb raises on purpose: a bug, retried like an external failure."""

# What HTTP libraries raise when the other side did not answer; their own socket errors are an OSError already.
_SILENCE = frozenset({"httpx.TransportError", "aiohttp.client_exceptions.ClientConnectionError"})
_MOST_WORDS = 1000  # characters of a reason; frames, engine and console hold it


def classify(
    error: Exception, verb: Verb | None, policy: Policy, *, attempt: int, retries_left: int, jitter: float
) -> Failed:
    """Return the outcome of a run of `verb` that raised `error` on try `attempt`, with `retries_left`.

    `jitter` between 0 and 1 spreads the delay. `verb` is None when the job names an unknown verb.
    """
    delay = policy.delay(attempt, jitter)
    code, text = _describe(error, locate_error(error, verb.act.function.__module__ if verb else ""))
    match error:
        case PermanentBusiness(thrown=str(code)):
            return _thrown(to_printable(code, MAX_ERROR_CODE), to_printable(str(error)), verb)
        case PermanentBusiness() | PermanentContract():
            return Incident(error.kind, code, text)
        case WorkerStopping():
            return Yielded(code, text, 0.0)
        case TransientInfrastructure():
            return Yielded(code, text, delay)
        case StoreUnavailable() | StoreConflict() | EngineUnavailable():
            return Yielded(type(error).__name__, "the database or the engine did not answer", delay)
        case _ if not _names(error).isdisjoint(policy.retry.non_retryable_error_types):
            return Incident(PermanentContract.kind, code, f"{text}; the policy does not retry this")
        case OutcomeUnknown() | TimeoutError() if verb is not None and verb.on_unknown is OnUnknown.HOLD:
            return Incident(
                PermanentContract.kind,
                "OutcomeUnknown",
                f"{text}; a call may have reached the outside, so it is not repeated",
            )
    kind = _kind(error)
    if retries_left > 1:
        return Retry(kind, code, text, delay)
    return Incident(kind, code, f"{text}; no retry is left")


def _thrown(code: str, text: str, verb: Verb | None) -> Thrown | Incident:
    """Throw a code to the model, unless the verb declares its codes without this one: models rely on those."""
    if verb is None or verb.errors is None or code in verb.errors:
        return Thrown(code, text)
    declared = ", ".join(verb.errors) or "none"
    words = f"{text}; {verb.name} ended with the code {code}, which is not in its errors= ({declared})"
    return Incident(PermanentContract.kind, "ErrorUndeclared", to_printable(words))


def _names(error: Exception) -> set[str]:
    """Return every name a policy may use for an exception: its class and base classes, with and without module."""
    kinds = [kind for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return {name for kind in kinds for name in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}")}


def _kind(error: Exception) -> str:
    """Return the class of an error that is retried: the outside did not answer, or the verb has a bug."""
    is_outside = isinstance(error, TransientExternal | OSError) or not _names(error).isdisjoint(_SILENCE)
    return TransientExternal.kind if is_outside else UNEXPECTED


def _describe(error: Exception, raised: RaisedError) -> tuple[str, str]:
    """Return the code and a text safe to show: a deliberate failure's own message, never another exception's."""
    at = f" ({raised.place})" if raised.place else ""
    if isinstance(error, Failure):
        return to_printable(error.code, MAX_ERROR_CODE), to_printable(str(error), _MOST_WORDS - len(at)) + at
    if isinstance(error, TimeoutError):
        return "Timeout", f"the verb did not end within its time{at}"
    if isinstance(error, StoreError) and not raised.place:
        return raised.type, f"the database refused a statement that is not the verb's: {raised.name}"
    words = f"the verb raised {raised.name} {raised.place}".rstrip()
    return to_printable(raised.type, MAX_ERROR_CODE), to_printable(words)


def to_printable(text: str, most: int = _MOST_WORDS) -> str:
    """Return text safe to store, send and show: neither Postgres nor every terminal accepts all characters."""
    # Cut first: a verb may raise a text of megabytes, and the loop is blocked while each character is checked.
    line = "".join(character if character.isprintable() else " " for character in text[:most])
    return line if len(text) <= most else line[: most - 1] + "…"
