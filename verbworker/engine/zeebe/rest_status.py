"""The table that maps REST answers to verbworker's errors, beside that of gRPC in `status.py`."""

from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from grpc import StatusCode

from verbworker.engine.refusal_texts import (
    BY_WORDS,
    CREDENTIALS,
    PERMISSION,
    TENANTS,
    TOO_LARGE,
    printable_reason,
    sentence,
)
from verbworker.errors import (
    AccessDenied,
    AlreadyStarted,
    Backpressure,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    JobGone,
    JobNotActive,
    NotOffered,
    SearchRefused,
)

_NO_SEARCH: Final = "This cluster offers no search."
_ADDRESS: Final = "What answers at this address does not offer the call: check ZEEBE_REST_ADDRESS."

# What a command with a key is for: a job, an incident and a user task can be in a state that takes no command.
_WITH_STATE: Final = frozenset(("jobs", "incidents", "user-tasks"))

ENGINE_TITLES: Final = frozenset(
    (
        "ABORTED",
        "ALREADY_EXISTS",
        "DEADLINE_EXCEEDED",
        "FORBIDDEN",
        "INTERNAL",
        "INVALID_ARGUMENT",
        "INVALID_STATE",
        "NOT_FOUND",
        "PROCESSING_ERROR",
        "RESOURCE_EXHAUSTED",
        "UNAUTHORIZED",
        "UNAVAILABLE",
    )
)
"""Titles that the engine itself writes; a proxy or a web server on the way writes others."""


HTTP_STATUS: Final = {StatusCode.ALREADY_EXISTS: 409, StatusCode.NOT_FOUND: 404}
"""The statuses that a caller may count as done."""


@dataclass(frozen=True, slots=True)
class RestRow:
    """One meaning of an answer: the status and title it has, the error it becomes, and advice for the reader."""

    statuses: Container[int]
    error: type[EngineError]
    titles: frozenset[str] | None = None  # only with one of these
    words: str = ""  # only if the reason contains them
    keyed: frozenset[str] | None = None  # only for commands with a key below one of these
    is_json: bool = False  # only if the answer is a JSON object
    is_search: bool = False  # only for searches
    advice: str = ""

    def covers(self, answer: "RestAnswer") -> bool:
        """Return whether this row applies to an answer."""
        return (
            answer.status in self.statuses
            and (self.titles is None or answer.title in self.titles)
            and self.words in answer.reason.lower()
            and (self.keyed is None or answer.keyed in self.keyed)
            and (answer.is_json or not self.is_json)
            and (answer.is_search or not self.is_search)
        )


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """An answer that is no success, with what the table looks at."""

    status: int
    title: str
    reason: str
    keyed: str  # the collection of the key in its path, such as jobs; empty without a key
    is_json: bool
    is_search: bool

    @property
    def is_of_engine(self) -> bool:
        """Whether the engine wrote it, not a proxy or a web server that knows no such path."""
        return self.title in ENGINE_TITLES


_INVALID_STATE: Final = frozenset(("INVALID_STATE",))
_LATE: Final = _WITH_STATE | {"process-instances", "element-instances"}

REST_TABLE: Final[tuple[RestRow, ...]] = (
    # A cluster without secondary storage answers a search with 403, an older version with 404 or 405.
    RestRow((403,), NotOffered, is_search=True, advice=_NO_SEARCH),
    RestRow((404, 405), NotOffered, is_search=True, is_json=True, advice=_NO_SEARCH),
    RestRow((400, 422), SearchRefused, is_search=True),
    # A command on a job, an incident, a task or an instance can be late; an unknown process is a mistake.
    RestRow((404,), JobGone, frozenset(("NOT_FOUND",)), keyed=_LATE),
    RestRow((404,), CommandInvalid, frozenset(("NOT_FOUND",))),
    RestRow((404, 405), CommandInvalid, is_json=True, advice=_ADDRESS),
    *(RestRow((409,), error, _INVALID_STATE, words=words) for words, error in BY_WORDS),
    RestRow((409,), JobNotActive, _INVALID_STATE, keyed=_WITH_STATE),
    RestRow((409,), AlreadyStarted, frozenset(("ALREADY_EXISTS",)), words="with business id"),
    RestRow((409,), CommandInvalid),
    # Of a timeout that is extended too late.
    RestRow((400,), JobNotActive, words="it is not active", keyed=frozenset(("jobs",))),
    *(RestRow((400,), CommandInvalid, words=words, advice=advice) for words, advice in TENANTS),
    RestRow((413,), CommandInvalid, advice=TOO_LARGE),
    RestRow((429, 503), CommandInvalid, words="message exceeds maximum size", advice=TOO_LARGE),
    RestRow((500,), CommandInvalid, words="exceeded_batch_record_size", advice=TOO_LARGE),
    RestRow((500,), CommandInvalid, words="above configured maxmessagesize", advice=TOO_LARGE),
    RestRow((400, 406, 415, 422), CommandInvalid),
    RestRow((429,), Backpressure),
    RestRow((503,), Backpressure, frozenset(("RESOURCE_EXHAUSTED",))),
    RestRow((401,), AccessDenied, advice=CREDENTIALS),
    RestRow((403,), AccessDenied, advice=PERMISSION),
    # A page of a proxy while the gateway behind it restarts says nothing about the command.
    RestRow((404, 405), EngineUnavailable, advice=_ADDRESS),
    RestRow(range(300, 400), EngineUnavailable, advice="Redirects are not followed: check ZEEBE_REST_ADDRESS."),
    RestRow(range(1000), EngineUnavailable),
)
"""In order: the first row that covers an answer applies; the last covers every other."""


def read_answer(status: int, answer: Any, path: str) -> RestAnswer:
    """Return what the table looks at in an answer to `path`."""
    problem = answer if isinstance(answer, dict) else {}
    title = problem.get("title")
    return RestAnswer(
        status,
        title if isinstance(title, str) else "",
        printable_reason(problem.get("detail") or problem.get("title") or problem.get("error")),
        _collection(path),
        isinstance(answer, dict),
        path.endswith("/search"),
    )


def refusal(answer: RestAnswer, what: str) -> EngineError:
    """Translate an answer: the class determines what to do, the text keeps the engine's own reason."""
    row = next(row for row in REST_TABLE if row.covers(answer))
    code = f"{answer.status} {answer.title}".strip()
    return row.error(sentence(row.error, what, code, answer.reason, row.advice))


def _collection(path: str) -> str:
    parts = path.strip("/").split("/")
    return next((name for name, key in pairwise(parts) if key.isdecimal()), "")
