"""How an author's function is called: by the types of its parameters. Also for the hooks around verbs."""

import inspect
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from pydantic import BaseModel

from verbworker.contract.verb import Act, Call, Result
from verbworker.errors import ContractInvalid

Hook = Callable[..., Any]
"""A function of a case (before) or a `Result` (after), and a `Call` if it wants one. It returns nothing."""

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
