"""Every error verbworker raises, split by what the catcher will do.

VerbworkerError
├── CannotRun                  the operator must change something; commands end with exit code 2
│   ├── ContractInvalid        a verb, policy or setting is written wrongly
│   └── SchemaMismatch         the database is not at the schema this version needs
├── EndedByBug                 a background service met a bug; commands end with exit code 3
├── Refused                    the answer is no; commands end with exit code 1
│   ├── InvocationInvalid      what was asked cannot be read, or its arguments do not fit
│   ├── MessageInvalid         a message cannot be read, or its fields do not fit
│   ├── RequestConflict        it was asked, decided or ended otherwise before
│   ├── NotFound               there is no such entry, gate or message
│   ├── NotAllowed             the roles of who asks do not allow it
│   ├── QuotaExceeded          the tenant has used up a quota; ask again later
│   ├── ServerBusy             this process has too much to do; ask again later
│   ├── BodyTooLarge           reading the body needs more memory than one may have
│   ├── EntryFailed            an entry ended without a result: it failed or was cancelled
│   └── EntryNotEnded          an entry has no result yet; ask again
├── StoreError                 Postgres refused a statement
│   ├── StoreConflict          two transactions collided; the loser may run again
│   └── StoreUnavailable       the connection is gone; whether the last write happened is unknown
│       └── StoreReadOnly      the database answers but takes no writes; nothing was written
├── EngineError                the engine refused a command
│   ├── EngineUnavailable      no answer in time; send it again
│   │   └── Backpressure       the engine asks for less; send it again, later
│   ├── JobGone                completed elsewhere or cancelled; nothing is left to do
│   ├── JobNotActive           the job is in an incident or waits for its backoff
│   │   └── InstanceSuspended  its instance is suspended; hold the command back until it is resumed
│   ├── LeaseLost              another delivery holds the job's lease; stop, and send nothing more
│   ├── AlreadyStarted         an instance with this business id runs already; it is the same case
│   ├── TaskTaken              another person has the user task
│   ├── CommandInvalid         the engine will never accept these words; its own reason is kept
│   ├── AnswerTooLarge         the answer does not fit into one message
│   ├── NotOffered             this engine, or its version, cannot answer that
│   │   └── SearchRefused      there is a search, but it does not take this form; ask more simply
│   └── AccessDenied           the credentials do not allow this
├── Fenced                     another claim owns the frame; write and send nothing more
└── Failure                    how a job failed
    ├── TransientExternal      somebody outside did not answer; try again within the retries
    │   └── OutcomeUnknown     a call may or may not have reached the outside
    ├── TransientInfrastructure  our own database, engine or shutdown; costs no retry
    │   └── WorkerStopping     nothing of the run is left; the job goes back at once
    ├── PermanentContract      the job breaks its contract; an incident at once
    │   ├── DuplicateInstance      another engine instance carries the entry out; never run
    │   └── PayloadIntegrityError  the payload is not the one this instance was given
    └── PermanentBusiness      the domain says no; a BPMN error where the model catches its code
"""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar


class VerbworkerError(Exception):
    """Base class of every error that verbworker raises on purpose."""


class CannotRun(VerbworkerError):
    """Something outside the code must change before this command can run."""


class ContractInvalid(CannotRun):
    """A verb, a policy or a setting is written wrongly."""


class SchemaMismatch(CannotRun):
    """The database is not at the schema this version needs."""


class EndedByBug(VerbworkerError):
    """A background service met a bug; the process ends after it has returned its jobs."""


class Refused(VerbworkerError):
    """The request cannot be carried out, and repeating it unchanged will not help.

    Its message may be shown to whoever asked; `http_status` is the status that an HTTP service answers with.
    """

    http_status: ClassVar[int] = 422


class InvocationInvalid(Refused):
    """The request cannot be read, or its arguments do not fit the verb; `fields` holds the problem of each.

    The fields are called as in `POST /v1/entries`: `verb`, `args.entity`. None if it is about no single one.
    """

    def __init__(self, message: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.fields = dict(fields or {})


class MessageInvalid(Refused):
    """A message cannot be read, or its fields do not fit; `fields` holds the problem of each."""

    def __init__(self, message: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.fields = dict(fields or {})


class RequestConflict(Refused):
    """The same thing was requested, decided or ended differently before."""

    http_status = 409


class NotFound(Refused):
    """The entry, gate or message does not exist, or belongs to another tenant."""

    http_status = 404


class NotAllowed(Refused):
    """The roles of the person who asks do not allow it; the message says who may."""

    http_status = 403


class QuotaExceeded(Refused):
    """The tenant has used up one of its quotas, `quota`; nothing was stored. Ask again after `retry_after` seconds."""

    http_status = 429

    def __init__(self, message: str, *, quota: str, retry_after: int) -> None:
        super().__init__(message)
        self.quota = quota
        self.retry_after = retry_after


class ServerBusy(Refused):
    """This process has more to read than it can now; nothing was stored. Ask again after `retry_after` seconds."""

    http_status = 503

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BodyTooLarge(Refused):
    """A body within the limit of bytes needs more memory to be read than one body may have."""

    http_status = 413


class EntryFailed(Refused):
    """The entry ended without a result: `status` says whether it failed or was cancelled, `code` why."""

    http_status = 409

    def __init__(self, message: str, *, status: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class EntryNotEnded(Refused):
    """The entry had not ended when the time to wait for its result was over; it continues."""

    http_status = 504


class StoreError(VerbworkerError):
    """Postgres refused a statement; with `is_duplicate`, because another row has a key that must be unique."""

    def __init__(self, *words: object, is_duplicate: bool = False) -> None:
        super().__init__(*words)
        self.is_duplicate = is_duplicate


class StoreConflict(StoreError):
    """Two transactions collided and ours was rolled back; it may simply run again."""


class StoreUnavailable(StoreError):
    """The connection is lost, so it is unknown whether the last write happened.

    With `is_wrong` there never was one, because of the address or the login: waiting does not help.
    """

    def __init__(self, *words: object, is_wrong: bool = False) -> None:
        super().__init__(*words)
        self.is_wrong = is_wrong


class StoreReadOnly(StoreUnavailable):
    """The database answers but accepts no writes: a standby, or set to read only. Nothing was written."""


class EngineError(VerbworkerError):
    """The engine refused a command."""


class EngineUnavailable(EngineError):
    """The engine did not answer in time; the same command may be sent again."""


class Backpressure(EngineUnavailable):
    """The engine asks for less work; the same command may be sent again, later."""


class JobGone(EngineError):
    """The job was completed already, or its instance was cancelled."""


class JobNotActive(EngineError):
    """The job exists but is in an incident or waits for its backoff."""


class InstanceSuspended(JobNotActive):
    """The job's instance is suspended: nothing failed, and the same command is accepted after it is resumed."""


class LeaseLost(EngineError):
    """Another delivery of the job holds its lease, so this one may neither report nor repeat anything."""


class AlreadyStarted(EngineError):
    """An instance of the process with the same business id runs already, so nothing was started."""


class TaskTaken(EngineError):
    """Another person has the user task in the engine."""


class CommandInvalid(EngineError):
    """The engine will never accept this command."""


class AnswerTooLarge(EngineError):
    """The engine's answer does not fit into one message."""


class NotOffered(EngineError):
    """This engine, its version or its configuration does not offer the call; asking again will not help."""


class SearchRefused(NotOffered):
    """A cluster has the search but does not take its filter, order or page."""


class AccessDenied(EngineError):
    """The credentials do not allow this command."""


class Fenced(VerbworkerError):
    """Another claim owns the frame now; write and send nothing more."""


class Failure(VerbworkerError):
    """How a job failed: the class decides between retry and incident, the code names the cause."""

    kind: ClassVar[str] = "Failure"

    def __init__(self, message: str, *, code: str = "", function: Callable[..., object] | None = None) -> None:
        """With a `function` of the author's that it is about, its place is reported although none of its code ran."""
        super().__init__(message)
        self.code = code or type(self).__name__
        self.function = function


class TransientExternal(Failure):
    """An external system did not answer; the policy's retries limit how often we try again."""

    kind = "TransientExternal"


class OutcomeUnknown(TransientExternal):
    """A call may or may not have reached the external system; the verb's `on_unknown` decides."""


class TransientInfrastructure(Failure):
    """Our own database, engine or shutdown got in the way; this costs no business retry."""

    kind = "TransientInfrastructure"


class WorkerStopping(TransientInfrastructure):
    """The worker shuts down and nothing of the run is left, so the job is returned immediately."""


class PermanentContract(Failure):
    """The job breaks its contract; no retry can help, so an incident is raised immediately."""

    kind = "PermanentContract"


class DuplicateInstance(PermanentContract):
    """The job's engine instance is not the one its entry is pinned to; it was cancelled and runs nothing."""


class PayloadIntegrityError(PermanentContract):
    """The payload is not the one this instance was given."""


class PermanentBusiness(Failure):
    """The domain rejects the job. A `code` that the model catches is a BPMN error; everything else is an incident."""

    kind = "PermanentBusiness"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.thrown = code or None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group holds at any depth, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error


def exit_code(error: BaseException) -> int:
    """Return a command's exit code for an error: 1 refused, 2 could not run, 3 ended by a bug."""
    match error:
        case Refused():
            return 1
        case VerbworkerError() if not isinstance(error, EndedByBug):
            return 2
        case _:
            return 3
