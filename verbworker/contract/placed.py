"""Refusals of a registration: where it is written, and what could be written instead."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

from verbworker.errors import ContractInvalid
from verbworker.job.error_place import locate_function

Choice = TypeVar("Choice", bound=StrEnum)


@contextmanager
def placed(function: Callable[..., object]) -> Iterator[None]:
    """Put the file and line of an author's function before the refusals of a block."""
    try:
        yield
    except ContractInvalid as error:
        raise ContractInvalid(f"{locate_function(function)}: {error}") from error.__cause__


def choose(kind: type[Choice], name: str, option: str, written: str) -> Choice:
    """Return the choice that an option names; raise `ContractInvalid` with all of them for another."""
    try:
        return kind(written)
    except ValueError:
        raise ContractInvalid(f"{name}: {option}={written!r} is not one of {', '.join(kind)}") from None


def known(names: Collection[str]) -> str:
    """Return a list of the names there are, for a refusal."""
    return f"known are {', '.join(sorted(names))}" if names else "no policies are loaded"


def names(name: str, option: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the words of an option; raise `ContractInvalid` for a plain string."""
    if isinstance(given, str):
        raise ContractInvalid(f"the verb {name}: write {option}=({given!r},), a plain string is read as single letters")
    return None if given is None else tuple(given)
