"""Log lines about an outage: one sentence when it begins, one a minute, and one when it is over."""

import logging

_SAY_EVERY = 60.0  # seconds, as in service_health: an outage of hours is one line a minute
_LIBRARIES = ("asyncio", "asyncpg.pool", "asyncpg")
_NAMES = {"StoreUnavailable": "Postgres", "EngineUnavailable": "the engine"}
_OF_ONE_SERVICE = ("service", "error", "failures", "seconds", "job_key")


class OutageLines(logging.Filter):
    """Lets one line through of the many that services and jobs write about the same outage."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, str] = {}
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; one that stands for many is reworded."""
        match record.msg:
            case "service is waiting" if (name := _NAMES.get(_field(record, "error"))) is not None:
                self._waiting[_field(record, "service")] = name
                return self._begins(record, name)
            case "database away, job given back":
                return self._begins(record, "Postgres")
            case "service is back" if (name := self._waiting.pop(_field(record, "service"), "")) != "":
                return self._ends(record, name)
        return True

    def _begins(self, record: logging.LogRecord, name: str) -> bool:
        said_at = self._said_at.get(name)
        if said_at is not None and record.created - said_at < _SAY_EVERY:
            return False
        self._said_at[name] = record.created
        return _reword(record, f"{name} does not answer; work continues when it does")

    def _ends(self, record: logging.LogRecord, name: str) -> bool:
        if self._said_at.pop(name, None) is None:
            return False
        return _reword(record, f"{name} answers again")


class NoLostConnections(logging.Filter):
    """Drops what libraries log of a connection that was lost: our own lines report it, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is about anything else."""
        error = record.exc_info[1] if record.exc_info and record.name in _LIBRARIES else None
        return not (isinstance(error, OSError) or type(error).__module__.startswith("asyncpg"))


def _field(record: logging.LogRecord, name: str) -> str:
    return str(record.__dict__.get(name, ""))


def _reword(record: logging.LogRecord, words: str) -> bool:
    record.msg, record.args = words[:1].upper() + words[1:], ()
    for name in _OF_ONE_SERVICE:
        record.__dict__.pop(name, None)
    return True
