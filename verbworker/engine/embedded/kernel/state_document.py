"""The stored form of a state: plain JSON values, which workers of the release before can read and write too.

They drop what they do not know, so a document without lives is upgraded when it is read: its tokens are as their jobs,
waits and incidents say, and those that are counted at a join become tokens of no group.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from verbworker.engine.embedded.kernel.state import InstanceStatus, Phase, State, Token, TokenIncident, TokenWait
from verbworker.engine.embedded.kernel.token_life import Life, TokenMode, TokenStatus


def dump_state(state: State) -> dict[str, Any]:
    """Return the state as plain JSON values."""
    tokens = [token for token in state.tokens.values() if not token.flow]
    at_joins = [token for token in state.tokens.values() if token.flow] if len(tokens) < len(state.tokens) else []
    own = [[token.key, token.own] for token in tokens if token.own]
    value = {
        "variables": state.variables,
        "tokens": [
            [
                *(t.key, t.node, t.parent, t.phase._value_, t.listener, t.job, t.taken, t.undo, t.thrower, t.is_stuck),
                t.since_ms,
            ]
            for t in tokens
        ],
        "lives": [_dump_life(token.life) for token in tokens],
        "jobs": [[job, token] for job, token in state.jobs.items()],
        "waits": [
            [
                *(w.key, w.token, w.node, None if w.due is None else w.due.isoformat()),
                *(w.again, w.text, w.message, w.correlation_key),
            ]
            for w in state.waits.values()
        ],
        "incidents": [[i.key, i.token, i.kind, i.message, i.job] for i in state.incidents.values()],
        "arrivals": _count_arrivals(at_joins),
        "undoable": [list(item) for item in state.undoable],
        "last_key": state.last_key,
        "status": state.status.value,
        "ended": state.ended,
    }
    if at_joins:
        value["joining"] = [[t.key, t.node, t.parent, t.flow, t.since_ms, *_dump_life(t.life)] for t in at_joins]
    if state.forks:
        value["forks"] = list(state.forks.items())
    if own:
        value["own"] = own
    return value


def _dump_life(life: Life) -> list[Any]:
    # `_value_` is what `value` reads by way of a descriptor, which costs more than the rest of this line.
    return [life.status._value_, life.mode._value_, life.version, life.updated_ms, *life.groups]


def _count_arrivals(at_joins: list[Token]) -> dict[str, dict[str, int]]:
    """Return how many tokens came over each flow of a join; by this the release before knows them."""
    counts: dict[str, dict[str, int]] = {}
    for token in at_joins:
        flows = counts.setdefault(f"{token.parent}:{token.node}", {})
        flows[token.flow] = flows.get(token.flow, 0) + 1
    return counts


def load_state(instance_key: int, value: Mapping[str, Any]) -> State:
    """Return the state that `dump_state` wrote, of this release or the one before."""
    lives = value.get("lives")
    by_key = {token.key: token for token in _load_tokens(value, lives)}
    for key, own in value.get("own", ()):
        by_key[key].own = own
    waits = [
        TokenWait(key, token, node, None if due is None else datetime.fromisoformat(due), again, text, message, wanted)
        for key, token, node, due, again, text, message, wanted in value["waits"]
    ]
    incidents = [TokenIncident(*item) for item in value["incidents"]]
    state = State(
        instance_key=instance_key,
        variables=value["variables"],
        tokens=by_key,
        jobs=dict(value["jobs"]),
        waits={wait.key: wait for wait in waits},
        incidents={incident.key: incident for incident in incidents},
        forks=dict(value.get("forks", ())) if lives is not None else {},
        undoable=[(scope, node, handler) for scope, node, handler in value["undoable"]],
        last_key=value["last_key"],
        status=InstanceStatus(value["status"]),
        ended=[tuple(row) for row in value.get("ended", ())],
    )
    if lives is None:
        _upgrade(state, value["arrivals"])
    return state


def _load_tokens(value: Mapping[str, Any], lives: list[Any] | None) -> Iterator[Token]:
    for place, row in enumerate(value["tokens"]):
        key, node, parent, phase, listener, job, taken, undo, thrower, stuck, *since = row
        life = _UNKNOWN if lives is None else _load_life(*lives[place])
        progress = Phase(phase), listener, job, tuple(taken), tuple(undo), thrower, stuck
        yield Token(key, node, parent, life, *progress, *since[:1])
    for key, node, parent, flow, since_ms, *life in () if lives is None else value.get("joining", ()):
        yield Token(key, node, parent, _load_life(*life), since_ms=since_ms, flow=flow)


def _load_life(status: str, mode: str, version: int, updated_ms: int, *groups: int) -> Life:
    return Life(TokenStatus(status), TokenMode(mode), groups, version, updated_ms)


_UNKNOWN = Life(TokenStatus.WAITING, TokenMode.FORWARD, (), 1, 0)


def _upgrade(state: State, arrivals: Mapping[str, Mapping[str, int]]) -> None:
    """Give the tokens of an older document their lives."""
    failed = {incident.token for incident in state.incidents.values()}
    for token in state.tokens.values():
        status = TokenStatus.FAILED if token.key in failed else _UNKNOWN.status
        if token.job and token.key not in failed:
            status = TokenStatus.READY
        around = state.tokens.get(token.parent)  # older than what is inside it, so its mode is known
        undoes = token.thrower or (around is not None and around.life.mode is TokenMode.COMPENSATION)
        mode = TokenMode.COMPENSATION if undoes else TokenMode.FORWARD
        token.life = Life(status, mode, (), 1, token.since_ms)
    for place, flows in arrivals.items():
        scope, node = place.split(":", 1)
        for flow, count in flows.items():
            for _ in range(count):
                state.last_key += 1
                key = state.instance_key + state.last_key
                state.tokens[key] = Token(key, node, int(scope), _UNKNOWN, flow=flow)
