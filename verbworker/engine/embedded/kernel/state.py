"""The complete stored state of one instance: its variables, its tokens and what they wait for."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


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
    """A point of execution at a node, inside the token of its scope. The process itself is a token too."""

    key: int
    node: str
    parent: int
    phase: Phase = Phase.ENTERING
    listener: int = 0  # the index of the current listener
    job: int = 0  # the job it waits for
    taken: list[str] = field(default_factory=list)  # the flows a gateway chose
    undo: list[str] = field(default_factory=list)  # handlers a compensation throw still has to run
    thrower: int = 0  # the compensation throw event that a handler runs for
    is_stuck: bool = False  # an incident holds it before its node
    since_ms: int = 0  # when it arrived; 0 in states of earlier versions
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
    # Tokens waiting at a join: scope and gateway -> flow -> count.
    arrivals: dict[str, dict[str, int]] = field(default_factory=dict)
    # Completed activities that can be undone, in order: their scope, the activity and its handler.
    undoable: list[tuple[int, str, str]] = field(default_factory=list)
    last_key: int = 0
    status: InstanceStatus = InstanceStatus.ACTIVE

    def copy(self) -> "State":
        """Return an independent copy. Variable values are shared: a step replaces them whole."""
        return State(
            instance_key=self.instance_key,
            variables=dict(self.variables),
            tokens={key: _copy_token(token) for key, token in self.tokens.items()},
            jobs=dict(self.jobs),
            waits={key: copy(wait) for key, wait in self.waits.items()},
            incidents=dict(self.incidents),
            arrivals={place: dict(flows) for place, flows in self.arrivals.items()},
            undoable=list(self.undoable),
            last_key=self.last_key,
            status=self.status,
        )


def _copy_token(t: Token) -> Token:
    return Token(
        *(t.key, t.node, t.parent, t.phase, t.listener, t.job, list(t.taken), list(t.undo), t.thrower, t.is_stuck),
        *(t.since_ms, t.own),
    )


def dump_state(state: State) -> dict[str, Any]:
    """Return the state as plain JSON values."""
    own = {"own": [[t.key, t.own] for t in state.tokens.values() if t.own]}
    return {
        "variables": state.variables,
        "tokens": [
            [
                *(t.key, t.node, t.parent, t.phase.value, t.listener, t.job, t.taken, t.undo, t.thrower, t.is_stuck),
                t.since_ms,
            ]
            for t in state.tokens.values()
        ],
        "jobs": [[job, token] for job, token in state.jobs.items()],
        "waits": [
            [
                *(w.key, w.token, w.node, None if w.due is None else w.due.isoformat()),
                *(w.again, w.text, w.message, w.correlation_key),
            ]
            for w in state.waits.values()
        ],
        "incidents": [[i.key, i.token, i.kind, i.message, i.job] for i in state.incidents.values()],
        "arrivals": state.arrivals,
        "undoable": [list(item) for item in state.undoable],
        "last_key": state.last_key,
        "status": state.status.value,
        **(own if own["own"] else {}),
    }


def load_state(instance_key: int, value: Mapping[str, Any]) -> State:
    """Return the state that `dump_state` wrote."""
    tokens = [
        Token(key, node, parent, Phase(phase), listener, job, taken, undo, thrower, stuck, *since)
        for key, node, parent, phase, listener, job, taken, undo, thrower, stuck, *since in value["tokens"]
    ]
    waits = [
        TokenWait(key, token, node, None if due is None else datetime.fromisoformat(due), again, text, message, wanted)
        for key, token, node, due, again, text, message, wanted in value["waits"]
    ]
    incidents = [TokenIncident(*item) for item in value["incidents"]]
    by_key = {token.key: token for token in tokens}
    for key, own in value.get("own", ()):
        by_key[key].own = own
    return State(
        instance_key=instance_key,
        variables=value["variables"],
        tokens=by_key,
        jobs=dict(value["jobs"]),
        waits={wait.key: wait for wait in waits},
        incidents={incident.key: incident for incident in incidents},
        arrivals=value["arrivals"],
        undoable=[(scope, node, handler) for scope, node, handler in value["undoable"]],
        last_key=value["last_key"],
        status=InstanceStatus(value["status"]),
    )
