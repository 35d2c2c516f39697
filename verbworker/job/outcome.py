"""How a run ends: a closed set of values, stored before the engine receives them.

Their labels are what metrics and spans call them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

PLAIN_SEAL = "plain"
"""The seal of a plain job's output, which is the variables themselves: there is no payload to seal."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The permanent answer of a job: the bytes of its envelope and their seal, flags and correlation keys.

    An engine completes the job with it. A result without a payload leaves the payload of the instance as it is.
    """

    label: ClassVar[str] = "completed"
    payload: bytes = b""
    seal: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    correlation: Mapping[str, str] = field(default_factory=dict)


NO_RESULT = JobResult()
"""Completes a job and changes nothing: what a listener or a gate answers."""


@dataclass(frozen=True, slots=True)
class Thrown:
    """A business rejection with a code that the model catches: the engine receives a BPMN error."""

    label: ClassVar[str] = "thrown"
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed and may be tried again after `delay` seconds, at the cost of one retry."""

    label: ClassVar[str] = "retry"
    kind: str
    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Yielded:
    """Our own infrastructure failed: the job is returned without spending a retry."""

    label: ClassVar[str] = "yielded"
    kind: ClassVar[str] = "TransientInfrastructure"
    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Incident:
    """Retrying cannot help: the job stops until a person looks at it."""

    label: ClassVar[str] = "incident"
    kind: str
    code: str
    message: str


Verdict = JobResult | Thrown
"""A final outcome: its frame is `completed` and is replayed, never run again."""


def describe_failure(kind: str, code: str, text: str, *, verb: str, entry_id: object, job_key: int) -> str:
    """Format a failure for operators in the engine: class, code and where to look; never a payload."""
    return f"{kind} {code}: {text} (verb {verb}, entry {entry_id or 'unknown'}, frame {job_key})"
