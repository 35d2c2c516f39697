"""Errors of the database, as errors of the engine that is in it."""

from types import TracebackType

from verbworker.errors import CommandInvalid, EngineUnavailable, StoreConflict, StoreError, StoreUnavailable


class _Translation:
    """A context that raises store errors as engine errors."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StoreUnavailable | StoreConflict):
            raise EngineUnavailable(str(error)) from error
        if isinstance(error, StoreError):
            raise CommandInvalid(str(error)) from error


_TRANSLATION = _Translation()  # it holds nothing, so that one serves all


def translate_errors() -> _Translation:
    """Translate store errors into engine errors."""
    return _TRANSLATION
