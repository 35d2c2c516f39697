"""Expand paths and patterns to files."""

import os
from collections.abc import Iterator
from functools import cache
from re import Pattern, error, escape
from re import compile as pattern

SUFFIX = ".bpmn"
_WILD = "*?["
# Skipped, as are all hidden folders (version control, environments): installed packages and caches.
_SKIPPED = ("node_modules", "__pycache__")


class NoMatch(Exception):
    """A path, folder or pattern that matches no file; the message is shown to the user."""


def expand(argument: str) -> Iterator[str]:
    """Yield the files of an argument in order, or raise NoMatch. It is a file, a folder of models, or a pattern."""
    if os.path.isdir(argument):
        found = _models(argument)
        if not found:
            raise NoMatch(f"{argument}: the folder holds no {SUFFIX} file")
    elif os.path.exists(argument) or not any(sign in argument for sign in _WILD):
        # A missing file is reported when it is opened, like an unreadable one.
        found = [argument]
    else:
        found = _match_names(argument)
        if not found:
            raise NoMatch(f"{argument}: no file matches")
    yield from found


def matches(path: str, wanted: str) -> bool:
    """Return whether a relative path matches a pattern; `**` matches any number of folders."""
    return compile_pattern(wanted).fullmatch(path) is not None


@cache
def compile_pattern(wanted: str) -> Pattern[str]:
    """Translate a pattern into a regular expression, or raise NoMatch if it is invalid."""
    parts = []
    at = 0
    while at < len(wanted):
        if wanted.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif wanted.startswith("**", at):
            parts.append(".*")
            at += 2
        elif wanted[at] in "*?":
            parts.append("[^/]*" if wanted[at] == "*" else "[^/]")
            at += 1
        else:
            part, at = _literal(wanted, at)
            parts.append(part)
    try:
        return pattern("".join(parts))
    except error:
        raise NoMatch(f"{wanted}: this is not a pattern") from None


def _models(folder: str) -> list[str]:
    return sorted(path for path in _below(folder) if path.endswith(SUFFIX))


def _match_names(wanted: str) -> list[str]:
    """Return the matching files, searched below the folder before the first wildcard."""
    fixed, rest = _split(wanted)
    start = fixed or os.curdir
    matching = (path for path in _below(start) if matches(_relative(path, start), rest))
    return sorted(path if fixed else path.removeprefix(os.curdir + os.sep) for path in matching)


def _split(wanted: str) -> tuple[str, str]:
    parts = wanted.replace(os.sep, "/").split("/")
    first = next(index for index, part in enumerate(parts) if any(sign in part for sign in _WILD))
    fixed = "/".join(parts[:first])
    return ("/" if first == 1 and not fixed else fixed), "/".join(parts[first:])


def _below(folder: str) -> Iterator[str]:
    # A folder that cannot be listed must not look empty, so its error is raised.
    for root, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (os.path.join(root, name) for name in files)


def _raise(error: OSError) -> None:
    raise NoMatch(f"{error.filename}: {error.strerror}")


def _relative(path: str, start: str) -> str:
    """Return a path relative to the folder it was found below."""
    return path[len(start) :].replace(os.sep, "/").lstrip("/")


def _literal(wanted: str, at: int) -> tuple[str, int]:
    """Translate one character, or a set of characters in brackets."""
    end = wanted.find("]", at + 2)
    if wanted[at] != "[" or end < 0:
        return escape(wanted[at]), at + 1
    signs = wanted[at + 1 : end]
    negated = signs.startswith("!")
    return f"[{'^' if negated else ''}{_set(signs.removeprefix('!'))}]", end + 1


def _set(signs: str) -> str:
    """Translate the inside of brackets. Only the dash of a range stays bare: two would be reserved in an expression."""
    parts = []
    while signs:
        if signs[1:2] == "-" and len(signs) > 2:
            parts.append(f"{escape(signs[0])}-{escape(signs[2])}")
            signs = signs[3:]
        else:
            parts.append(escape(signs[0]))
            signs = signs[1:]
    return "".join(parts)
