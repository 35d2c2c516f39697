"""How an author's function is called: by the types of its parameters. Also for the hooks around verbs, and refusals."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar, get_origin, get_type_hints

from pydantic import BaseModel

from verbworker.contract.verb import Act, Call, Result, Verb
from verbworker.errors import ContractInvalid
from verbworker.job.error_place import locate_function

Hook = Callable[..., Any]
"""A function of a case (before) or a `Result` (after), and a `Call` if it wants one. It returns nothing."""

Choice = TypeVar("Choice", bound=StrEnum)
_TAKEN = "one pydantic model and a Call"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def read_act(name: str, function: Callable[..., Any]) -> tuple[Act, type[BaseModel]]:
    """Return how to call an author's function, and the model it takes."""
    case: tuple[str, type[BaseModel]] | None = None
    call: str | None = None
    for parameter, hint in _parameters(name, function):
        if hint is Call and call is None:
            call = parameter
        elif isinstance(hint, type) and issubclass(hint, BaseModel) and case is None:
            case = (parameter, hint)
        else:
            raise ContractInvalid(f"the verb {name} takes {_describe(parameter, hint)}; a verb takes {_TAKEN}")
    if case is None:
        raise ContractInvalid(f"the verb {name} takes no pydantic model, so it cannot see the case")
    return Act(function, case[0], call, inspect.iscoroutinefunction(function)), case[1]


def before_hook(name: str, hook: Hook, model: type[BaseModel]) -> Act:
    """Return how to call a hook before a verb of `model`."""
    act, taken = read_act(f"{name} (its hook {_name_of(hook)})", hook)
    if not issubclass(model, taken):
        raise ContractInvalid(f"the hook {_name_of(hook)} takes {taken.__name__}, but {name} takes {model.__name__}")
    return act


def after_hook(name: str, hook: Hook) -> Act:
    """Return how to call a hook after a verb."""
    result: str | None = None
    call: str | None = None
    for parameter, hint in _parameters(name, hook):
        if hint is Call and call is None:
            call = parameter
        elif Result in (hint, get_origin(hint)) and result is None:
            result = parameter
        else:
            raise ContractInvalid(
                f"the hook {_name_of(hook)} of {name} takes {parameter!r}; it takes a Result and a Call"
            )
    if result is None:
        raise ContractInvalid(f"the hook {_name_of(hook)} of {name} takes no Result, so it cannot see the answer")
    return Act(hook, result, call, inspect.iscoroutinefunction(hook))


def _describe(parameter: str, hint: object) -> str:
    """Return a parameter with its type as it is written."""
    if hint is None:
        return f"{parameter!r} without a type"
    return f"{parameter!r} of type {hint.__name__ if isinstance(hint, type) else hint}"


def _parameters(name: str, function: Callable[..., Any]) -> list[tuple[str, object]]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ContractInvalid(f"the type hints of the verb {name} cannot be read: {error}") from error
    found: list[tuple[str, object]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _NAMED:
            raise ContractInvalid(f"the verb {name} takes {parameter.name!r} without its name, but is called by names")
        found.append((parameter.name, hints.get(parameter.name)))
    return found


def _name_of(hook: Hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


@contextmanager
def locate_refusals(function: Callable[..., object]) -> Iterator[None]:
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


def list_known(names: Collection[str]) -> str:
    """Return a list of the names there are, for a refusal."""
    return f"known are {', '.join(sorted(names))}" if names else "no policies are loaded"


def names(name: str, option: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the words of an option; raise `ContractInvalid` for a plain string."""
    if isinstance(given, str):
        raise ContractInvalid(f"the verb {name}: write {option}=({given!r},), a plain string is read as single letters")
    return None if given is None else tuple(given)


def describe_difference(workflow: str, verb: Verb, written: Sequence[str] | None) -> str:
    """Describe how the codes in a contract differ from those of the verb, and what to change."""
    if written is None:
        codes = ", ".join(sorted(verb.errors or ()))
        return (
            f"{verb.name} declares that it {_ends_with(verb.errors or ())}, but the contract of {workflow} declares no"
            f" codes for it; add errors: {{{verb.name}: [{codes}]}} to the contract, or leave errors= of the verb out"
        )
    declared = f"the contract of {workflow} declares that {verb.name} {_ends_with(written)}, but the verb declares"
    if verb.errors is None:
        given = tuple(sorted(written))
        return f"{declared} no codes; add errors={given} to the verb, or take {verb.name} out of the contract's errors"
    return f"{declared} that it {_ends_with(verb.errors)}; write the same codes in both"


def _ends_with(codes: Iterable[str]) -> str:
    named = ", ".join(sorted(codes))
    return f"may end with {named}" if named else "ends with no error code"
