"""How a run ends: a closed set of values, stored before the engine hears of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Completed:
    """The verb is done: these bytes, this seal and these flags are the answer for ever."""

    payload: bytes
    seal: str
    flags: Mapping[str, object] = field(default_factory=dict)
    correlation: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thrown:
    """The domain said no with a code, and the model catches it: the engine is told a BPMN error."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed and may be tried again after `delay` seconds, for one of the retries."""

    kind: str
    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Yielded:
    """Our own infrastructure got in the way: the job goes back and costs no retry."""

    code: str
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class Incident:
    """No retry can help: the job stops until a person looks at it."""

    kind: str
    code: str
    message: str


Outcome = Completed | Thrown | Retry | Yielded | Incident
Verdict = Completed | Thrown
"""An outcome that is final: its frame is `completed` and is replayed, never run again."""


def told(kind: str, code: str, text: str, *, verb: str, entry_id: object, job_key: int) -> str:
    """A failure as an operator reads it in the engine: class, code and where to look; never a payload."""
    return f"{kind} {code}: {text} (verb {verb}, entry {entry_id or 'unknown'}, frame {job_key})"
