"""`value`: a decorator for frozen classes with slots, much faster to apply than `dataclasses`.

The linter starts for every commit and every file an editor saves. The standard decorator took more than 40 of the first
90 ms, compiling methods that few values use. Here the methods are shared, and only frequently used classes get a
compiled constructor. Type checkers see a dataclass.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter

from verblint.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

    T = TypeVar("T")

_REQUIRED = object()
_set = object.__setattr__
# Costs in units of one plain call (all fields, in order): compiling a constructor, and a call with defaults or
# keywords.
_COMPILATION = 200
_SORTING = 6


class _Factory:
    """A default created anew for each value."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def field(*, default_factory: "Callable[[], T]") -> "T":
    """Declare a default that is created anew for each value."""
    return _Factory(default_factory)  # type: ignore[return-value]  # the decorator replaces it


if TYPE_CHECKING:

    @overload
    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value(cls: type[T], /) -> type[T]: ...
    @overload
    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value(
        *, eq: bool = True, frozen: bool = True, guarded: bool = True, slots: bool = True, kw_only: bool = False
    ) -> Callable[[type[T]], type[T]]: ...
    def value(cls: Any = None, /, **options: bool) -> Any:
        """Turn the annotated fields of a class into constructor parameters."""

else:

    def value(cls=None, /, *, eq=True, frozen=True, guarded=True, slots=True, kw_only=False):
        """Turn the annotated fields of a class into constructor parameters.

        Without `eq`, values compare by identity. Without `slots`, a value can have cached properties. A value that is
        not `guarded` is frozen only for type checkers: assigning a field past the guard takes fifteen times as long,
        which matters when a file has thousands of values. A class that defines its own constructor keeps it.
        """
        if cls is not None:
            return _build_class(cls, eq, frozen and guarded, slots, kw_only)
        return lambda decorated: _build_class(decorated, eq, frozen and guarded, slots, kw_only)


def replace(original: "T", **changes: object) -> "T":
    """Return a copy of a value with some fields changed."""
    return type(original)(**{name: getattr(original, name) for name in fields(type(original))} | changes)


def fields(cls: type) -> tuple[str, ...]:
    """Return the field names of a value class in definition order."""
    names: tuple[str, ...] = cls.__dict__["__fields__"]
    return names


def _build_class(cls: "type[T]", eq: bool, frozen: bool, slots: bool, kw_only: bool) -> "type[T]":
    namespace: dict[str, Any] = dict(cls.__dict__)
    names = tuple(cls.__annotations__)
    defaults = {name: namespace.pop(name, _REQUIRED) for name in names}
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    namespace["__fields__"] = namespace["__match_args__"] = names
    namespace.setdefault("__init__", _first_constructor(defaults, frozen, kw_only))
    namespace["__reduce__"] = _reduce
    namespace.setdefault("__repr__", _repr)
    if slots:
        namespace["__slots__"] = names
    if eq:
        namespace.update(_comparison(attrgetter(*names) if names else type))
    if frozen:
        namespace.update(__setattr__=_refuse, __delattr__=_refuse)
    metaclass: Any = type(cls)
    made: type[T] = metaclass(cls.__name__, cls.__bases__, namespace)
    return made


def _first_constructor(defaults: dict[str, object], frozen: bool, kw_only: bool) -> Callable[..., None]:
    """Return a constructor that counts its cost and replaces itself once a compiled one is cheaper."""
    names = tuple(defaults)
    cost = 0

    def construct(self: object, *given: object, **named: object) -> None:
        nonlocal cost
        if len(given) == len(names) and not named and not kw_only and cost < _COMPILATION:
            cost += 1
            for name, content in zip(names, given, strict=True):
                _set(self, name, content)
            return
        cost += _SORTING
        contents = defaults | dict(zip(names, given, strict=False)) | named
        is_odd = (
            len(contents) > len(names) or len(given) > len(names) or not named.keys().isdisjoint(names[: len(given)])
        )
        lacks = any(content is _REQUIRED for content in contents.values())
        if cost > _COMPILATION or is_odd or lacks or (given and kw_only):
            # Invalid calls also go to the compiled constructor, which raises the better error.
            compiled: Any = _compiled_constructor(defaults, frozen, kw_only)
            type.__setattr__(type(self), "__init__", compiled)
            compiled(self, *given, **named)
            return
        for name, content in contents.items():
            _set(self, name, content.make() if isinstance(content, _Factory) else content)

    return construct


def _compiled_constructor(defaults: Mapping[str, object], frozen: bool, kw_only: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": _set, "_Factory": _Factory}
    parameters = ["self", *(["*"] if kw_only and defaults else [])]
    lines = []
    for name, default in defaults.items():
        known[f"_default_{name}"] = default
        parameters.append(name if default is _REQUIRED else f"{name}=_default_{name}")
        made = f"_default_{name}.make() if {name} is _default_{name} else {name}"
        source = made if isinstance(default, _Factory) else name
        lines.append(f"    _set(self, {name!r}, {source})" if frozen else f"    self.{name} = {source}")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass"), known)
    constructor: Callable[..., None] = known["__init__"]
    return constructor


def _comparison(content: Callable[[object], object]) -> "dict[str, Callable[..., Any]]":
    def equal(self: object, other: object) -> bool:
        return content(self) == content(other) if type(self) is type(other) else NotImplemented

    def compute_hash(self: object) -> int:
        return hash(content(self))

    return {"__eq__": equal, "__hash__": compute_hash}


def _refuse(self: object, name: str, *_: object) -> "NoReturn":
    raise AttributeError(f"{type(self).__name__} is frozen; its field {name!r} stays as it is")


def _repr(self: object) -> str:
    content = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields(type(self)))
    return f"{type(self).__name__}({content})"


def _reduce(self: object) -> tuple[object, ...]:
    return _restore, (type(self), *(getattr(self, name) for name in fields(type(self))))


def _restore(cls: "type[T]", *contents: object) -> "T":
    restored = cls.__new__(cls)
    for name, content in zip(fields(cls), contents, strict=True):
        _set(restored, name, content)
    return restored
