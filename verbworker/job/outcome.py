"""How a run ends: a closed set of values, stored before the engine receives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Completed:
    """The verb is done: these bytes, this seal and these flags are its permanent answer."""

    payload: bytes
    seal: str
    flags: Mapping[str, object] = field(default_factory=dict)
    correlation: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thrown:
    """A business rejection with a code that the model catches: the engine receives a BPMN error."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed and may be tried again after `delay` seconds, at the cost of one retry."""

    kind: str
    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Yielded:
    """Our own infrastructure failed: the job is returned without spending a retry."""

    kind: ClassVar[str] = "TransientInfrastructure"
    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Incident:
    """Retrying cannot help: the job stops until a person looks at it."""

    kind: str
    code: str
    message: str


Verdict = Completed | Thrown
"""A final outcome: its frame is `completed` and is replayed, never run again."""


def describe_failure(kind: str, code: str, text: str, *, verb: str, entry_id: object, job_key: int) -> str:
    """Format a failure for operators in the engine: class, code and where to look; never a payload."""
    return f"{kind} {code}: {text} (verb {verb}, entry {entry_id or 'unknown'}, frame {job_key})"
