"""Compare what a process compiles to now with the lock beside its model."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from verblint.contracts.contract import Contracts
from verblint.report import Finding
from verbworker.errors import ContractInvalid
from verbworker.profile.lock import FILE, Difference, Lock, differences, read_lock
from verbworker.profile.verify.location import WRITE, Location
from verbworker.profile.verify.model_tree import ModelTree
from verbworker.profile.verify.policy_files import PolicyFiles
from verbworker.profile.verify.rules import LOCK_BY_ANOTHER_TOOL, LOCK_INVALID, LOCK_MISSING, LOCK_OUTDATED

_MOST = 25  # a redrawn process differs in everything
_WIDTH = 60  # characters of a value; old and new fit one line of 120
_INSTALL = f"{WRITE}, or install the version that wrote it"


@dataclass(frozen=True, slots=True)
class Origins:
    """The sources of a lock's values, to locate findings."""

    drawn: ModelTree
    policies: PolicyFiles
    contracts: Contracts

    def spot(self, path: str) -> Location | None:
        """Return where a value is declared, by its path in the lock; None if it no longer exists."""
        head, _, rest = path.partition(".")
        if head == "policies":
            return self.policies.spot(rest)
        if head == "definition_id":
            return self.drawn.definition_spot()
        part, _, rest = rest.partition(".")
        if part in ("nodes", "edges", "messages"):
            return self.drawn.element_spot(rest)
        if part == "flags":
            return self._flag_spot(rest.partition(".")[0])
        return self.drawn.process_spot()

    def _flag_spot(self, name: str) -> Location | None:
        process = self.drawn.process
        verb = None if process is None else self.contracts.of_process(process.id)
        return None if verb is None or name not in verb.flags else Location.origin(verb.origin.at("flags", name))


def compare_lock(content: bytes | None, path: str, now: Lock, origins: Origins) -> Iterator[Finding]:
    """Yield every difference between a lock file and the one that would be written now."""
    if content == now.to_bytes():
        return
    if content is None:
        words = f"the process {now.process} has no {FILE}"
        yield origins.drawn.process_spot().finding(LOCK_MISSING, words, process=now.process)
        return
    try:
        was = read_lock(content, path)
    except ContractInvalid as error:
        words = str(error).removeprefix(f"{path}: ").partition("; run ")[0]
        yield Location.at(path).finding(LOCK_INVALID, f"this is not a lock: {words}", process=now.process)
        return
    yield from _compare_locks(content, path, was, now, origins)


def _compare_locks(content: bytes, path: str, was: Lock, now: Lock, origins: Origins) -> Iterator[Finding]:
    lines = _lines(was) if content == was.to_bytes() else {}
    if was.tool != now.tool:
        words = f"{FILE} was written by {was.tool}, and this is {now.tool}"
        spot = Location.at(path, lines.get("tool", 1))
        yield spot.finding(LOCK_BY_ANOTHER_TOOL, words, hint=_INSTALL, process=now.process)
    if not was.is_true:
        words = f"the digest of {FILE} is not that of its content: it was changed by hand"
        yield Location.at(path, lines.get("ir_digest", 1)).finding(LOCK_INVALID, words, process=now.process)
    found = [*_iterate_differences(was, now)]
    for difference in found[:_MOST]:
        # A value removed from the sources is still in the lock.
        written = origins.spot(difference.path) if difference.now is not None else None
        spot = written or Location.at(path, lines.get(difference.path, 1))
        yield spot.finding(LOCK_OUTDATED, _sentence(difference), process=now.process, detail=difference.path)
    if len(found) > _MOST:
        words = f"{len(found) - _MOST} more values of {FILE} are not what they were"
        yield Location.at(path).finding(LOCK_OUTDATED, words, process=now.process, detail="more")
    if not found and was.tool == now.tool and was.is_true:
        words = f"{FILE} has the right content, but not the layout that verify writes"
        yield Location.at(path).finding(LOCK_OUTDATED, words, process=now.process, detail="layout")


def _iterate_differences(was: Lock, now: Lock) -> Iterator[Difference]:
    """Yield each difference once: the definition id is in a lock twice."""
    if was.process != now.process:
        yield Difference("process", was.process, now.process)
    yield from (found for found in differences(was, now) if found.path != "ir.process.definition_id")


def _sentence(difference: Difference) -> str:
    if difference.was is None:
        return f"{difference.path} is {_format_value(difference.now)}, and {FILE} does not have it"
    if difference.now is None:
        return f"{difference.path} no longer exists, and {FILE} has {_format_value(difference.was)}"
    return f"{difference.path} is {_format_value(difference.now)}, and {FILE} has {_format_value(difference.was)}"


def _format_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _lines(lock: Lock) -> dict[str, int]:
    """Return the line of every value in a lock file, by the path that differences use."""
    plain = json.loads(lock.to_bytes())
    return dict(_below(plain, "", 1))


def _below(value: Any, path: str, line: int) -> Iterator[tuple[str, int]]:
    """Yield the lines of everything inside a value that starts at `line`."""
    named = isinstance(value, list) and all(isinstance(part, dict) and "id" in part for part in value)
    parts = sorted(value.items()) if isinstance(value, dict) else [(p["id"], p) for p in value] if named else ()
    line += 1
    for key, part in parts:
        below = f"{path}.{key}" if path else str(key)
        yield below, line
        yield from _below(part, below, line)
        line += json.dumps(part, indent=2).count("\n") + 1
