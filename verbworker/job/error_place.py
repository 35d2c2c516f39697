"""Where an exception of a verb comes from: its type, and the file, line and function of its author's code.

The exception's message is left out: it may hold anything, a payload as well as a password.
"""

import inspect
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from traceback import walk_tb
from types import CodeType, FrameType

from verbworker.errors import Failure, leaves

_OURS = ("verbworker", "verblint")
_LIBRARIES = {"site-packages", "dist-packages"}
_PYTHON = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An exception without its message. It has no place if no code of the verb's author was involved."""

    type: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    sqlstate: str | None = None

    @property
    def name(self) -> str:
        """Return its type, with the state that Postgres gave it."""
        return self.type if self.sqlstate is None else f"{self.type} (SQLSTATE {self.sqlstate})"

    @property
    def place(self) -> str:
        """Return where it was raised, or an empty text."""
        return "" if self.file is None else f"at {self.file}:{self.line} in {self.function}"

    def fields(self) -> dict[str, object]:
        """Return what is known, as fields of a log line."""
        known = {"error": self.type, "sqlstate": self.sqlstate, "file": self.file, "line": self.line}
        return {name: value for name, value in (known | {"function": self.function}).items() if value is not None}


def locate_error(error: BaseException, module: str = "") -> RaisedError:
    """Return an exception with the innermost place in its author's code; `module` is the module of the verb.

    Everything in the package of `module` is the author's, also when it is installed; other installed packages, Python
    and verbworker itself are not.
    """
    home = module.partition(".")[0]
    # A group that was raised has a place even if its members were never raised themselves.
    for cause in (*_causes(error), error):
        frames = [(frame, line) for frame, line in walk_tb(cause.__traceback__) if _is_authors(frame, home)]
        if frames:
            frame, line = frames[-1]
            return RaisedError(
                type(cause).__name__, _short_name(frame), line, _function(frame.f_code), _sqlstate(cause)
            )
    if isinstance(error, Failure) and error.function is not None:
        return _about(error, error.function)
    states = (state for cause in _causes(error) if (state := _sqlstate(cause)) is not None)
    return RaisedError(type(next(leaves(error))).__name__, sqlstate=next(states, None))


def locate_function(function: Callable[..., object]) -> str:
    """Return the file and line of a function of a verb's author, as `verbs/kyc.py:12`; its module without a line."""
    module = str(getattr(function, "__module__", ""))
    code = getattr(inspect.unwrap(function), "__code__", None)
    return module if code is None else f"{_short_file(code.co_filename, module)}:{code.co_firstlineno}"


def _about(error: Failure, function: Callable[..., object]) -> RaisedError:
    """Return an error with the place of the function that it is about."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return RaisedError(type(error).__name__)
    name = _short_file(code.co_filename, str(getattr(function, "__module__", "")))
    return RaisedError(type(error).__name__, name, code.co_firstlineno, _function(code))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what led to it, newest first; of a group, its members."""
    seen: set[int] = set()
    waiting = [*leaves(error)]
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        before = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        if before is not None:
            waiting += leaves(before)


def _is_authors(frame: FrameType, home: str) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in _OURS:
        return False
    if home and package == home:
        return True
    # Compiled code names the source that it was compiled from; its module knows where it is.
    names = (frame.f_code.co_filename, str(frame.f_globals.get("__file__", "")))
    return not any(map(_is_library, names))


def _is_library(name: str) -> bool:
    return name.startswith(("<", *_PYTHON)) or not _LIBRARIES.isdisjoint(PurePath(name).parts)


def _short_name(frame: FrameType) -> str:
    return _short_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))


def _short_file(name: str, module: str) -> str:
    """Return a file's name from its package on: where it is installed is private."""
    path = PurePath(name)
    parts = module.count(".") + (2 if path.stem == "__init__" else 1)
    return "/".join(path.parts[-parts:])


def _function(code: CodeType) -> str:
    return code.co_qualname.replace("<locals>.", "")


def _sqlstate(error: BaseException) -> str | None:
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) and len(state) == 5 and state.isalnum() else None
