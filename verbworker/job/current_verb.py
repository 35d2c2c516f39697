"""The verb this code runs in, if any: inside a job, code may not start a workflow, only send a message."""

from contextvars import ContextVar, Token

_VERB: ContextVar[str | None] = ContextVar("verbworker_verb", default=None)


class performing:  # noqa: N801  # used as a function
    """Mark `verb` as being performed while this block runs."""

    __slots__ = ("_before", "_verb")

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __enter__(self) -> None:
        self._before: Token[str | None] = _VERB.set(self._verb)

    def __exit__(self, *_: object) -> None:
        _VERB.reset(self._before)


def performed_verb() -> str | None:
    """Return the verb whose job this code runs in, or None outside a job."""
    return _VERB.get()
