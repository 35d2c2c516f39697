"""Logging: JSON lines for machines, plain lines for people, and never a payload or a secret in either."""

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from pydantic_settings import BaseSettings

from verbworker.app.settings import Settings, unknown_settings
from verbworker.background.outage_lines import NoLostConnections, OutageLines
from verbworker.contract.text import escape_hidden
from verbworker.errors import VerbworkerError

_log = logging.getLogger(__name__)

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {"message", "asctime", "taskName"}
_SECRET_NAME = re.compile(r"password|passwd|secret|token|authorization|credential|api_?key|dsn|payload|variables", re.I)
_SECRET_IN_TEXT = re.compile(
    r"(?P<address>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)\S+@"
    r"|\b(?P<kind>Bearer|Basic) [\w+/=.~-]{8,}"
    # As in a DSN, a form, a header, a mapping or JSON: password=..., client_secret: ..., "X-Api-Key": "..."
    r"|(?P<name>\b[\w-]{0,40}(?:password|passwd|pwd|secret|api[-_]?key|token)\b[\"']?\s{0,3}[=:]\s{0,3}(?:b?[\"'])?)"
    r"[^\s\"'&,;)}\]]+"
    r"|(?P<key>\b(?:whsec|vwk)_)[\w+/=-]+",
    re.IGNORECASE,
)
Trace = Callable[[BaseException], Iterator[str]]

_LONGEST = 2_000  # characters of a field; several fit into 16 KiB, where container runtimes split lines
_NOISY = ("grpc", "asyncio", "asyncpg", "httpx", "httpcore", "pyzeebe")


def apply(settings: Settings) -> None:
    """Log to standard error as the settings say."""
    set_up(as_json=settings.log_format == "json", level=settings.log_level, has_tracebacks=settings.log_tracebacks)


def warn_of_unknown_settings(*servers: type[BaseSettings]) -> None:
    """Log each variable that looks like a setting of this process and is none."""
    for sentence in unknown_settings(os.environ, *servers):
        _log.warning("unknown setting", extra={"reason": sentence})


def apply_to_command(settings: Settings) -> None:
    """Log what a command's own sentence does not say: the tracebacks of verbs that it runs, if they are wanted."""
    has_tracebacks = settings.log_tracebacks
    set_up(as_json=False, level="error" if has_tracebacks else "critical", has_tracebacks=has_tracebacks)


def set_up(*, as_json: bool, level: str, has_tracebacks: bool = False, stream: TextIO | None = None) -> None:
    """Send every record to `stream`, by default standard error. The last call wins."""
    trace = _full_trace if has_tracebacks else partial(_trace, is_debug=level == "debug")
    target = logging.StreamHandler(stream if stream is not None else sys.stderr)
    target.setFormatter(JsonLines(trace) if as_json else PlainLines(trace))
    if level != "debug":
        target.addFilter(OutageLines())
        target.addFilter(NoLostConnections())
    root = logging.getLogger()
    root.handlers[:] = [target]
    root.setLevel(level.upper())
    for name in _NOISY:
        # Debug lines of other libraries may hold what ours must not.
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # A full disk or a closed pipe must not turn a log line into a traceback on a broken stream.
    logging.raiseExceptions = False


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the record's own fields."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _safe(record.getMessage()),
        }
        line.update((name, value) for name, value in _fields(record) if name not in line)
        if (error := _error(record)) is not None:
            line["error_type"] = type(error).__name__
            line["error_trace"] = list(self._trace(error))
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """One line for a person: time, level, message, the record's own fields; a trace below it."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, or as several with the trace of an error."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record))
        words = escape_hidden(f"{_safe(record.getMessage())}{fields}", has_lines=False)
        line = f"{_time(record)} {record.levelname:<7} {words}"
        error = _error(record)
        return line if error is None else "\n  ".join([line, *self._trace(error)])


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    for name, value in record.__dict__.items():
        if name in _STANDARD or name.startswith("_"):
            continue
        yield name, "***" if _SECRET_NAME.search(name) else _sanitize(value)


def _sanitize(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _safe(value)
        case bytes():
            # Bytes are usually payloads.
            return f"<{len(value)} bytes>"
        case dict() | list() | tuple() | set():
            # A structure may hold anything; its size is enough.
            return f"<{type(value).__name__} of {len(value)}>"
        case _:
            return _safe(str(value))


def _safe(text: str) -> str:
    # Cut before and after: searching takes time, and a secret must be hidden before a cut could split it.
    hidden = _SECRET_IN_TEXT.sub(_mask, text[: 2 * _LONGEST])
    shown = escape_hidden(hidden)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} [...]"


def _mask(found: re.Match[str]) -> str:
    if found["address"]:
        return f"{found['address']}***@"
    return f"{found['kind']} ***" if found["kind"] else f"{found['name'] or found['key']}***"


def _error(record: logging.LogRecord) -> BaseException | None:
    information: Any = record.exc_info
    return information[1] if information else None


def _full_trace(error: BaseException) -> Iterator[str]:
    """Yield the traceback as Python prints it, messages included."""
    for text in traceback.format_exception(error):
        for line in text.splitlines():
            yield _safe(line)


def _trace(error: BaseException, *, is_debug: bool) -> Iterator[str]:
    """Yield the error and its causes, newest first: types and places; messages only if ours or in debug mode."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        words = f": {_safe(str(cause))}" if is_debug or isinstance(cause, VerbworkerError) else ""
        yield f"{type(cause).__name__}{words}"
        for frame in reversed(traceback.extract_tb(cause.__traceback__)):
            yield f"at {frame.filename}:{frame.lineno} in {frame.name}"
        if isinstance(cause, BaseExceptionGroup):
            for member in cause.exceptions:
                yield from _trace(member, is_debug=is_debug)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
