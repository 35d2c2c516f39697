"""The life of a token: its states, and the named transitions between them. Nothing else changes a token's status."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class TokenStatus(StrEnum):
    """What may happen to a token."""

    CREATED = "created"  # not scheduled yet
    READY = "ready"  # it may be claimed
    EXECUTING = "executing"  # claimed by one executor
    WAITING = "waiting"  # for a timer, a person, a message, tokens inside it, or others at a join
    COMPLETED = "completed"
    FAILED = "failed"  # an operator may reschedule it while its incident stands; otherwise it has ended
    TERMINATED = "terminated"


class TokenMode(StrEnum):
    """Whether a token does work or undoes it."""

    FORWARD = "forward"
    COMPENSATION = "compensation"


class IllegalTransition(RuntimeError):
    """A token cannot go from its status to another one. A bug of the kernel, never of a model."""


class Life(NamedTuple):
    """A token's status and what goes with it. A value: each transition returns the next one."""

    status: TokenStatus
    mode: TokenMode
    groups: tuple[int, ...]  # the forks it is inside of, outermost first; each by the key of the token that forked
    version: int  # one more with each transition
    updated_ms: int


TokenEvent = tuple[str, int, int]
"""A transition that happened: its name, the token, and the token's version afterwards."""

_make = tuple.__new__


@dataclass(frozen=True, slots=True)
class Transition:
    """A named step of a token's life: the statuses that it may start from, and the one it leads to."""

    event: str
    sources: tuple[TokenStatus, ...]
    target: TokenStatus

    def apply(self, life: Life, now_ms: int) -> Life:
        """Return the life afterwards; raises `IllegalTransition` from any other status."""
        if life.status not in self.sources:
            raise IllegalTransition(f"{self.event}: a token that is {life.status} cannot become {self.target}")
        _, mode, groups, version, _ = life
        # Not by calling Life: several transitions per step make the difference worth measuring.
        return _make(Life, (self.target, mode, groups, version + 1, now_ms))


_S = TokenStatus
CREATED: Final = "TokenCreated"
SCHEDULED: Final = Transition("TokenScheduled", (_S.CREATED,), _S.READY)
CLAIMED: Final = Transition("TokenClaimed", (_S.READY,), _S.EXECUTING)
RELEASED: Final = Transition("TokenReleased", (_S.EXECUTING,), _S.READY)  # there is more to do at its node
BLOCKED: Final = Transition("TokenBlocked", (_S.EXECUTING,), _S.WAITING)
RESUMED: Final = Transition("TokenResumed", (_S.WAITING,), _S.READY)
COMPLETED: Final = Transition("TokenCompleted", (_S.EXECUTING,), _S.COMPLETED)
FAILED: Final = Transition("TokenFailed", (_S.EXECUTING,), _S.FAILED)
RESTED: Final = Transition("TokenRested", (_S.FAILED,), _S.WAITING)  # until the timer of its retry
RESCHEDULED: Final = Transition("TokenRescheduled", (_S.FAILED,), _S.READY)
TERMINATED: Final = Transition(
    "TokenTerminated", (_S.CREATED, _S.READY, _S.EXECUTING, _S.WAITING, _S.FAILED), _S.TERMINATED
)
TRANSITIONS: Final = (
    *(SCHEDULED, CLAIMED, RELEASED, BLOCKED, RESUMED, COMPLETED, FAILED, RESTED, RESCHEDULED, TERMINATED),
)

TO_READY: Final[Mapping[TokenStatus, tuple[Transition, ...]]] = {
    _S.CREATED: (SCHEDULED,),
    _S.READY: (),
    _S.EXECUTING: (RELEASED,),
    _S.WAITING: (RESUMED,),
    _S.FAILED: (RESCHEDULED,),
    **dict.fromkeys((_S.COMPLETED, _S.TERMINATED), (SCHEDULED,)),  # which is illegal from there
}
"""The transitions by which a token becomes claimable, by its status."""

TO_EXECUTING: Final[Mapping[TokenStatus, tuple[Transition, ...]]] = {
    _S.CREATED: (SCHEDULED, CLAIMED),
    _S.READY: (CLAIMED,),
    _S.EXECUTING: (),
    _S.WAITING: (RESUMED, CLAIMED),
    _S.FAILED: (RESCHEDULED, CLAIMED),
    **dict.fromkeys((_S.COMPLETED, _S.TERMINATED), (CLAIMED,)),
}
"""The transitions by which an executor gets a token: it is made ready if it must be, and then claimed."""


def make_life(mode: TokenMode, groups: tuple[int, ...], now_ms: int) -> Life:
    """Return the life of a new token."""
    return Life(TokenStatus.CREATED, mode, groups, 1, now_ms)
