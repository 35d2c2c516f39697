"""Errors of the database, as errors of the engine that is in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from verbworker.errors import CommandInvalid, EngineUnavailable, StoreConflict, StoreError, StoreUnavailable


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate store errors into engine errors."""
    try:
        yield
    except (StoreUnavailable, StoreConflict) as error:
        raise EngineUnavailable(str(error)) from error
    except StoreError as error:
        raise CommandInvalid(str(error)) from error
