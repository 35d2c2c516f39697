"""The verb this code runs in, if any: inside a job, code may not start a workflow, only send a message."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_VERB: ContextVar[str | None] = ContextVar("verbworker_verb", default=None)


@contextmanager
def performing(verb: str) -> Iterator[None]:
    """Mark `verb` as being performed while this block runs."""
    before = _VERB.set(verb)
    try:
        yield
    finally:
        _VERB.reset(before)


def performed_verb() -> str | None:
    """Return the verb whose job this code runs in, or None outside a job."""
    return _VERB.get()
