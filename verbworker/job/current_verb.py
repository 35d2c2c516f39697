"""Whether this code runs inside a job: whoever does may not start a workflow, only hand over by a message."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_VERB: ContextVar[str | None] = ContextVar("verbworker_verb", default=None)


@contextmanager
def performing(verb: str) -> Iterator[None]:
    """While this block runs, `verb` is being performed."""
    before = _VERB.set(verb)
    try:
        yield
    finally:
        _VERB.reset(before)


def performed_verb() -> str | None:
    """The verb whose job this code runs in, or None outside of every job."""
    return _VERB.get()
