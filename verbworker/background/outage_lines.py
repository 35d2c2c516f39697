"""Log lines about an outage: one sentence when it begins and one a minute, for all services and jobs that meet it."""

import logging

from verbworker.background.outages import ENGINE, POSTGRES, Outage

_LIBRARIES = ("asyncio", "asyncpg.pool", "asyncpg")
_OUTAGES = {"StoreUnavailable": POSTGRES, "EngineUnavailable": ENGINE}
_OF_ONE_SERVICE = ("service", "error", "failures", "seconds", "job_key")


class OutageLines(logging.Filter):
    """Lets one line through of the many that services and jobs write about the same outage.

    Its end is not theirs to tell: the first answer does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[str] = set()
        for outage in _OUTAGES.values():
            outage.forget()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; one that stands for many is reworded."""
        match record.msg:
            case "service is waiting" if (outage := _OUTAGES.get(_field(record, "error"))) is not None:
                self._waiting.add(_field(record, "service"))
                return _reword(record, outage)
            case "database away, job given back":
                return _reword(record, POSTGRES)
            case "service is back" if (service := _field(record, "service")) in self._waiting:
                self._waiting.remove(service)
                return False
        return True


class NoLostConnections(logging.Filter):
    """Drops what libraries log of a connection that was lost: our own lines report it, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is about anything else."""
        error = record.exc_info[1] if record.exc_info and record.name in _LIBRARIES else None
        return not (isinstance(error, OSError) or type(error).__module__.startswith("asyncpg"))


def _field(record: logging.LogRecord, name: str) -> str:
    return str(record.__dict__.get(name, ""))


def _reword(record: logging.LogRecord, outage: Outage) -> bool:
    line = outage.tell(record.created)
    if line is None:
        return False
    record.msg, record.args = line, ()
    for name in _OF_ONE_SERVICE:
        record.__dict__.pop(name, None)
    return True
