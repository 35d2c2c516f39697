"""Every way in which Postgres or the engine can be away: each error class, plain and in groups."""

from collections.abc import Iterator

from verbworker import errors


def _kinds(base: type[Exception]) -> Iterator[type[Exception]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)


KINDS: tuple[type[Exception], ...] = (
    *_kinds(errors.StoreError),
    *_kinds(errors.EngineError),
    OSError,
    ConnectionResetError,
    TimeoutError,
)


def outages() -> list[Exception]:
    """One error of each class: plain, in a group, and deep inside groups beside another."""
    plain = [kind("away") for kind in KINDS]
    grouped = [ExceptionGroup("one", [kind("away")]) for kind in KINDS]
    nested = [
        ExceptionGroup("outer", [errors.StoreUnavailable("gone"), ExceptionGroup("inner", [kind("away")])])
        for kind in KINDS
    ]
    return [*plain, *grouped, *nested]


def name_of(error: Exception) -> str:
    """A short name for a table of tests."""
    if isinstance(error, ExceptionGroup):
        return f"{error.message}({', '.join(name_of(one) for one in error.exceptions)})"
    return type(error).__name__
