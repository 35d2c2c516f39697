"""The complete state of one instance: its variables, its tokens and what they wait for."""

from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from verbworker.engine.embedded.kernel.token_life import Life, TokenEvent

EndedToken = tuple[Any, ...]
"""Its key inside the instance, node, how it ended as a number, version, when and after how many ms, and its groups."""


class Phase(StrEnum):
    """A token's progress at its node."""

    ENTERING = "entering"  # listeners before the node
    ACTIVE = "active"
    LEAVING = "leaving"  # listeners after the node


class InstanceStatus(StrEnum):
    """The status of an instance."""

    ACTIVE = "active"
    COMPLETED = "completed"
    TERMINATED = "terminated"


@dataclass(slots=True)
class Token:
    """The right to execute a node, inside the token of its scope. The process itself is a token too."""

    key: int
    node: str
    parent: int
    life: Life
    phase: Phase = Phase.ENTERING
    listener: int = 0  # the index of the current listener
    job: int = 0  # the job it waits for
    taken: tuple[str, ...] = ()  # the flows a gateway chose
    undo: tuple[str, ...] = ()  # handlers a compensation throw still has to run
    thrower: int = 0  # the compensation throw event that a handler runs for
    is_stuck: bool = False  # an incident holds it before its node
    since_ms: int = 0  # when it arrived; 0 in states of earlier versions
    flow: str = ""  # the flow by which it came to a join, where it waits for others
    own: dict[str, Any] | None = None  # variables that only it and the tokens inside it see; replaced, never changed


@dataclass(slots=True)
class TokenWait:
    """A timer or a subscription: its token, and the event that follows when it fires."""

    key: int
    token: int
    node: str
    due: datetime | None = None
    again: int | None = 0
    text: str = ""
    message: str = ""
    correlation_key: str = ""


@dataclass(slots=True)
class TokenIncident:
    """Why a token cannot continue without an operator."""

    key: int
    token: int
    kind: str
    message: str
    job: int = 0


@dataclass(slots=True)
class State:
    """An instance. A step works on a copy, so the previous state is unchanged."""

    instance_key: int
    variables: dict[str, Any] = field(default_factory=dict)
    tokens: dict[int, Token] = field(default_factory=dict)
    jobs: dict[int, int] = field(default_factory=dict)  # job -> token
    waits: dict[int, TokenWait] = field(default_factory=dict)
    incidents: dict[int, TokenIncident] = field(default_factory=dict)
    forks: dict[int, str] = field(default_factory=dict)  # group -> the gateway that made it, while a token is in it
    # Completed activities that can be undone, in order: their scope, the activity and its handler.
    undoable: list[tuple[int, str, str]] = field(default_factory=list)
    last_key: int = 0
    status: InstanceStatus = InstanceStatus.ACTIVE
    ended: list[EndedToken] = field(default_factory=list)  # tokens that are not in the stored history yet
    events: list[TokenEvent] = field(default_factory=list, compare=False)  # what the last step did to tokens

    def new_key(self) -> int:
        """Return the next key: each element, job, wait and incident of an instance has its own."""
        self.last_key += 1
        return self.instance_key + self.last_key

    def copy(self) -> "State":
        """Return an independent copy. Variable values are shared: a step replaces them whole."""
        return State(
            instance_key=self.instance_key,
            variables=dict(self.variables),
            tokens={key: _copy_token(token) for key, token in self.tokens.items()},
            jobs=dict(self.jobs),
            waits={key: copy(wait) for key, wait in self.waits.items()} if self.waits else {},
            incidents=dict(self.incidents),
            forks=dict(self.forks),
            undoable=list(self.undoable),
            last_key=self.last_key,
            status=self.status,
            ended=list(self.ended),
        )


def _copy_token(t: Token) -> Token:
    return Token(
        *(t.key, t.node, t.parent, t.life, t.phase, t.listener, t.job, t.taken, t.undo, t.thrower),
        *(t.is_stuck, t.since_ms, t.flow, t.own),
    )
