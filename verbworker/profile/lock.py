"""The lock: a compiled process, stored beside its model so that every change shows in a review.

It holds no time and no path, so that the same files always give the same bytes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from verbworker.errors import ContractInvalid
from verbworker.payload.canonical import canonical
from verbworker.profile.compile import Compiled

FILE = "compile.lock.json"
_FORMAT = 1  # of the lock file; a file of another format is refused
_ABSENT = object()


class Lock(BaseModel):
    """A compiled process as stored in its lock file."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    lock: int = Field(default=_FORMAT, ge=_FORMAT, le=_FORMAT)
    tool: str
    process: str
    definition_id: str | None
    ir_digest: str
    ir: dict[str, Any]
    policies: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Return the file's bytes: indented for readers, and deterministic."""
        # Through the canonical form, so that 30 and 30.0 are written alike.
        plain = json.loads(canonical(self.model_dump(mode="json")))
        return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"

    @property
    def is_true(self) -> bool:
        """Whether the digest matches the content; a manual merge may have left another."""
        compiled = Compiled(self.process, "", self.definition_id, self.ir, self.policies)
        return compiled.ir_digest == self.ir_digest


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed value; an absent `was` or `now` has the value None."""

    path: str
    was: object
    now: object


def lock_of(compiled: Compiled) -> Lock:
    """Return the lock of a compiled process, by this version of the tool."""
    return Lock(
        tool=f"verbworker {version('verbworker')}",
        process=compiled.process_id,
        definition_id=compiled.definition_id,
        ir_digest=compiled.ir_digest,
        ir=compiled.ir,
        policies=compiled.policies,
    )


def read_lock(content: bytes, name: str) -> Lock:
    """Parse a lock file; raises `ContractInvalid` with one sentence if it is invalid."""
    try:
        return Lock.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise ContractInvalid(f"{name}: {where}: {problem['msg']}; run verbworker verify --write") from None


def differences(was: Lock, now: Lock) -> list[Difference]:
    """Return what changed between two locks, value by value; digests and tools are not compared."""
    old = {"definition_id": was.definition_id, "ir": was.ir, "policies": was.policies}
    new = {"definition_id": now.definition_id, "ir": now.ir, "policies": now.policies}
    return list(_compare(json.loads(canonical(old)), json.loads(canonical(new)), ""))


def _compare(was: Any, now: Any, path: str) -> Iterator[Difference]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() | now.keys()):
            yield from _compare(was.get(key, _ABSENT), now.get(key, _ABSENT), f"{path}.{key}" if path else key)
    elif _has_name(was) and _has_name(now):
        yield from _compare({part["id"]: part for part in was}, {part["id"]: part for part in now}, path)
    elif was != now:
        yield Difference(path, None if was is _ABSENT else was, None if now is _ABSENT else now)


def _has_name(value: Any) -> bool:
    """Return whether this is a list of items with ids, which are matched by id and not by position."""
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) and "id" in part for part in value)
