"""Changes a verb made to the data, and the three-way merge that preserves the changes of parallel branches.

Objects are compared field by field; everything else, including lists, is one value that changes as a whole.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from verbworker.errors import PermanentContract
from verbworker.payload.canonical import canonical

Path = tuple[str, ...]


class Removed(Enum):
    """The change that removes a field."""

    REMOVED = "removed"


REMOVED = Removed.REMOVED
Changes = Mapping[Path, Any]
"""Each changed path with its new value or REMOVED; no path is inside another."""

_MOST_SHOWN = 5  # paths in a sentence
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}")


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Return what must be set and removed to get from `before` to `after`."""
    return dict(_compare(before, after, ()))


def apply(onto: Mapping[str, Any], changed: Changes) -> dict[str, Any]:
    """Return `onto` with the changes made; `onto` itself is unchanged."""
    root = dict(onto)
    owned: dict[Path, dict[str, Any]] = {(): root}
    for path, value in changed.items():
        parent = _parent(owned, path, create=value is not REMOVED)
        if value is not REMOVED:
            parent[path[-1]] = value
        else:
            parent.pop(path[-1], None)
    return root


def merge(base: Mapping[str, Any], ours: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """Apply to `head` what `ours` changed since `base`; fail where both changed something differently."""
    mine, theirs = changes(base, ours), changes(base, head)
    if clashes := sorted(_clashes(mine, theirs)):
        raise PermanentContract(
            f"another branch changed the same fields meanwhile: {_format_paths(clashes)}", code="MergeConflict"
        )
    return apply(head, mine)


def enforce_writes(changed: Iterable[Path], writes: Iterable[str] | None, verb: str) -> None:
    """Raise `PermanentContract` unless all changes are inside the declared `writes`; None allows all."""
    if writes is None:
        return
    allowed = [tuple(field.split(".")) for field in writes]
    outside = sorted(path for path in changed if not any(path[: len(field)] == field for field in allowed))
    if outside:
        raise PermanentContract(
            f"{verb} changed what it does not declare in `writes`: {_format_paths(outside)}", code="WriteUndeclared"
        )


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key in before:
        if key not in after:
            yield (*path, key), REMOVED
    for key, value in after.items():
        here = (*path, key)
        if key not in before:
            yield from _iterate_additions(value, here)
        elif isinstance(value, dict) and isinstance(before[key], dict):
            yield from _compare(before[key], value, here)
        elif not _same(before[key], value):
            yield here, value


def _iterate_additions(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    # Field by field: two branches may each add their part to an object that neither of them found.
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _iterate_additions(part, (*path, key))
    else:
        yield path, value


def _same(left: Any, right: Any) -> bool:
    # Python treats True as equal to 1, at any depth; the canonical bytes do not.
    return left is right or (left == right and canonical(left) == canonical(right))


def _parent(owned: dict[Path, dict[str, Any]], path: Path, *, create: bool) -> dict[str, Any]:
    """Return the object that contains the last key of `path`, copied once so that it may be changed."""
    parent = owned[()]
    for length in range(1, len(path)):
        here = path[:length]
        if here not in owned:
            inside = parent.get(here[-1])
            if not isinstance(inside, dict) and not create:
                return {}  # nothing to remove
            owned[here] = parent[here[-1]] = dict(inside) if isinstance(inside, dict) else {}
        parent = owned[here]
    return parent


def _clashes(mine: Changes, theirs: Changes) -> set[Path]:
    equal = {path for path in mine.keys() & theirs.keys() if _same(mine[path], theirs[path])}
    return {
        *(path for path in mine.keys() - equal if any(start in theirs for start in _starts(path))),
        *(path for path in theirs.keys() - equal if any(start in mine for start in _starts(path))),
    }


def _starts(path: Path) -> Iterator[Path]:
    return (path[:length] for length in range(1, len(path) + 1))


def _format_paths(paths: list[Path]) -> str:
    shown = ", ".join(".".join(map(_key, path)) for path in paths[:_MOST_SHOWN])
    more = len(paths) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else ascii(key[:60])
