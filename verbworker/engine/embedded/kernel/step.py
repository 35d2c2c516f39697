"""The kernel: applies one command to one instance. Pure: no clock, no randomness, no I/O."""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from verbworker.engine.embedded.kernel import commands, conditions, joins, scopes
from verbworker.engine.embedded.kernel.commands import Command, Effect, TargetMissing
from verbworker.engine.embedded.kernel.definition import (
    USER_TASK,
    Action,
    Definition,
    Node,
    NodeListener,
)
from verbworker.engine.embedded.kernel.state import InstanceStatus, Phase, State, Token, TokenWait
from verbworker.engine.embedded.kernel.token_life import TokenMode, TokenStatus
from verbworker.engine.embedded.kernel.token_moves import TokenMoves
from verbworker.engine.embedded.kernel.user_task_headers import resolve_headers
from verbworker.engine.embedded.kernel.waits import Waits

_NO_VARIABLES: Mapping[str, Any] = {}
_MOST_MOVES = 10_000  # a loop of gateways would move for ever inside one transaction


def step(definition: Definition, state: State, command: Command, now: datetime) -> tuple[State, list[Effect]]:
    """Return the state after a command, and its effects; raises `TargetMissing` and leaves `state` unchanged."""
    run = _Run(definition, state.copy(), now)
    run.apply(command)
    return run.state, run.effects


class _Run:
    """One step in progress."""

    def __init__(self, definition: Definition, state: State, now: datetime) -> None:
        self.state = state
        self.effects: list[Effect] = []
        self._nodes = definition.nodes
        self._tokens = TokenMoves(state, int(now.timestamp() * 1000))
        self._waits = Waits(state, self.effects, definition, now)
        self._moves: deque[Callable[[], None]] = deque()

    def apply(self, command: Command) -> None:
        if self.state.status is not InstanceStatus.ACTIVE:
            raise TargetMissing("the instance has ended")
        match command:
            case commands.Begin(variables, start):
                self._begin(variables, start)
            case commands.CompleteJob(job, variables):
                self._complete(job, variables)
            case commands.FailJob(job, retries, backoff_ms):
                self._retry(job, retries, backoff_ms)
            case commands.ExhaustJob(job, message):
                token = self._token_of_job(job)
                self._tokens.fail(token)
                self.effects.append(commands.JobHeld(job))
                listens = token.phase is not Phase.ACTIVE
                self._waits.raise_incident(
                    token, "EXECUTION_LISTENER_NO_RETRIES" if listens else "JOB_NO_RETRIES", message, job=job
                )
            case commands.ThrowError(job, code, message):
                self._thrown(job, code, message)
            case commands.Fire(wait):
                self._fire(wait, {})
            case commands.Deliver(wait, variables):
                self._fire(wait, variables)
            case commands.Resolve(incident):
                self._resolve(incident)
            case commands.Cancel():  # pragma: no branch  # there is no other command
                self._cancel()
        self._drain()
        self._tokens.prune_forks()

    def _drain(self) -> None:
        moves = 0
        while self._moves:
            moves += 1
            if moves > _MOST_MOVES:
                raise TargetMissing("the model moves for ever without waiting for anything")
            self._moves.popleft()()

    # ---- commands ------------------------------------------------------------------------------------------------

    def _begin(self, variables: Mapping[str, Any], start: str) -> None:
        self.state.variables.update(variables)
        root = self._tokens.make(self.state.instance_key, "", -1, (), TokenMode.FORWARD)
        root.taken = (start,) if start else ()
        self._enter(root)

    def _complete(self, job: int, variables: Mapping[str, Any]) -> None:
        token = self._token_of_job(job)
        self._tokens.claim(token)
        self._waits.end_job(token)
        token.listener += 1
        match token.phase:
            case Phase.ENTERING:
                scopes.put_own(token, variables)
                self._enter(token)
            case Phase.ACTIVE:
                self._leave(token, variables)
            case Phase.LEAVING:  # pragma: no branch  # there is no other phase
                scopes.merge(self.state, token, variables)
                self._listen_and_finish(token)

    def _retry(self, job: int, retries: int, backoff_ms: int) -> None:
        """Reschedule the token of a job: the job's due time is the timer that wakes it."""
        token = self._token_of_job(job)
        self._tokens.fail(token)
        if backoff_ms > 0:
            self._tokens.rest(token)
        else:
            self._await_worker(token)
        node = self._nodes[token.node]
        listeners = {Phase.ENTERING: node.entering, Phase.LEAVING: node.leaving}.get(token.phase)
        kind = node.job_type if listeners is None else listeners[token.listener].type
        self.effects.append(commands.JobRested(job, kind, retries, backoff_ms))

    def _thrown(self, job: int, code: str, message: str) -> None:
        token = self._token_of_job(job)
        if token.phase is not Phase.ACTIVE:
            raise TargetMissing("a listener's job throws no error")
        self._tokens.fail(token)
        if not self._catch(token, code, token):
            self.effects.append(commands.JobHeld(job))
            words = f"an error with the code '{code}' was thrown and nothing catches it: {message}"
            self._waits.raise_incident(token, "UNHANDLED_ERROR_EVENT", words, job=job)

    def _fire(self, key: int, variables: Mapping[str, Any]) -> None:
        wait = self.state.waits.get(key)
        if wait is None:
            raise TargetMissing("the wait is over")
        token, node = self.state.tokens[wait.token], self._nodes[wait.node]
        if node.id == token.node:
            self._tokens.claim(token)
            self._waits.close(wait)
            self._leave(token, variables)
        elif node.attached_to:
            self._boundary(wait, token, node, variables)
        else:
            self._chosen(token, node, variables)

    def _resolve(self, key: int) -> None:
        incident = self.state.incidents.pop(key, None)
        if incident is None:
            raise TargetMissing("there is no such incident")
        self.effects.append(commands.IncidentGone(key))
        token = self.state.tokens[incident.token]
        if incident.job:
            self._await_worker(token)
            self.effects.append(commands.JobFreed(incident.job))
            return
        self._tokens.claim(token)
        token.is_stuck = False
        self._enter(token, is_new=True)

    def _cancel(self) -> None:
        self._terminate(self.state.tokens[self.state.instance_key])
        self._end(InstanceStatus.TERMINATED)

    def _visible(self, token: Token) -> Mapping[str, Any]:
        return scopes.visible(self.state, token)

    # ---- a token's path through a node -------------------------------------------------------------------------------

    def _arrive(self, node_id: str, parent: int, groups: tuple[int, ...], mode: TokenMode, *, flow: str = "") -> Token:
        """Make a token at a node; with a flow, at a join."""
        token = self._tokens.make(self.state.new_key(), node_id, parent, groups, mode)
        token.flow = flow
        self._later(token, (lambda: self._join(token)) if flow else (lambda: self._enter(token, is_new=True)))
        return token

    def _later(self, token: Token, move: Callable[[], None]) -> None:
        """Move a token when all that came before is done, unless that ended it."""
        self._moves.append(lambda: move() if self._tokens.is_here(token) else None)

    def _enter(self, token: Token, *, is_new: bool = False) -> None:
        if is_new:
            scopes.map_in(self.state, token, self._nodes[token.node].inputs)
        listeners = self._nodes[token.node].entering
        if token.listener < len(listeners):
            self._make_listener_job(token, listeners[token.listener])
        else:
            self._activate(token)

    def _activate(self, token: Token) -> None:
        node = self._nodes[token.node]
        try:
            self._waits.open_boundaries(token, node)
            token.phase, token.listener = Phase.ACTIVE, 0
            self._act(token, node)
        except conditions.Stuck as stuck:
            self._waits.close_all(token)
            # Resolving the incident runs the listeners before the node again, as on the broker.
            token.is_stuck, token.phase, token.listener = True, Phase.ENTERING, 0
            self._tokens.fail(token)
            self._waits.raise_incident(token, stuck.kind, str(stuck))

    def _act(self, token: Token, node: Node) -> None:
        match node.act:
            case Action.PASS | Action.PARALLEL:
                self._leave(token)
            case Action.JOB:
                headers = resolve_headers(node.headers, self._visible(token)) if node.headers else node.headers
                self._make_job(token, node.job_type, node.retries, headers)
            case Action.CATCH:
                self._waits.open(token, node)
                self._tokens.block(token)
            case Action.EXCLUSIVE:
                token.taken = tuple(conditions.one_way(node, self._visible(token)))
                self._leave(token)
            case Action.INCLUSIVE:
                token.taken = tuple(conditions.every_way(node, self._visible(token)))
                self._leave(token)
            case Action.CHOICE:
                for flow in node.outgoing:
                    self._waits.open(token, self._nodes[flow.target])
                self._tokens.block(token)
            case Action.SCOPE:
                start = token.taken[0] if token.taken else node.starts
                token.taken = ()
                self._tokens.block(token)
                self._arrive(start, token.key, token.life.groups, token.life.mode)
            case Action.ERROR_END:
                self._end_by_error(token, node)
            case Action.TERMINATE_END:
                for other in [t for t in self.state.tokens.values() if t.parent == token.parent and t is not token]:
                    self._terminate(other)
                self._leave(token)
            case Action.COMPENSATE:  # pragma: no branch  # there is no other action
                self._undo(token, node)

    def _leave(self, token: Token, variables: Mapping[str, Any] = _NO_VARIABLES) -> None:
        self._tokens.claim(token)
        self._waits.close_all(token)
        scopes.map_out(self.state, token, self._nodes[token.node].outputs, variables)
        token.phase, token.listener = Phase.LEAVING, 0
        self._listen_and_finish(token)

    def _listen_and_finish(self, token: Token) -> None:
        listeners = self._nodes[token.node].leaving
        if token.listener < len(listeners):
            self._make_listener_job(token, listeners[token.listener])
        else:
            self._finish(token)

    def _finish(self, token: Token) -> None:
        node = self._nodes[token.node]
        self._tokens.complete(token)
        if token.key == self.state.instance_key:
            self._end(InstanceStatus.COMPLETED)
            return
        if node.act is Action.SCOPE:
            self._hand_up(token)
        if token.thrower:
            self._undo_next(self.state.tokens[token.thrower])
            return
        if node.undone_by:
            self.state.undoable.append((token.parent, node.id, node.undone_by))
        self._take_flows(token, node)
        self._moves.append(lambda: self._settle(token.parent))

    def _take_flows(self, token: Token, node: Node) -> None:
        """Go on over the flows that were chosen. Several make a fork: its children are one group."""
        flows = [flow for flow in node.outgoing if not token.taken or flow.id in token.taken]
        groups = token.life.groups
        if len(flows) > 1:
            groups = (*joins.inside_of(self.state, groups), token.key)
            self.state.forks[token.key] = node.id
        for flow in flows:
            waits = joins.is_join(self._nodes[flow.target])
            self._arrive(flow.target, token.parent, groups, token.life.mode, flow=flow.id if waits else "")

    def _join(self, token: Token) -> None:
        """Wait at a join for the others of the group, or complete them all and go on as one token."""
        node = self._nodes[token.node]
        met = joins.meet(self.state, node, token)
        if met is None:
            self._tokens.block(token)
            return
        for one in met:
            self._tokens.complete(one)
        self._arrive(node.id, token.parent, joins.groups_after(self.state, met), token.life.mode)

    def _settle(self, scope: int) -> None:
        """Leave a scope without tokens; one that waits at a join is a token."""
        token = self.state.tokens.get(scope)
        if token is None or token.phase is not Phase.ACTIVE:
            return
        if any(t.parent == scope for t in self.state.tokens.values()):
            return
        self._leave(token)

    def _end(self, status: InstanceStatus) -> None:
        self.state.status = status
        self.effects.append(commands.Ended(status.value))

    # ---- events ----------------------------------------------------------------------------------------------------

    def _boundary(self, wait: TokenWait, host: Token, node: Node, variables: Mapping[str, Any]) -> None:
        if node.is_interrupting:
            self._terminate(host)
            self._happen(node, host, variables)
            return
        self._waits.repeat(wait)
        self._happen(node, host, variables)

    def _chosen(self, gateway: Token, node: Node, variables: Mapping[str, Any]) -> None:
        self._waits.close_all(gateway)
        self._tokens.complete(gateway)
        self._happen(node, gateway, variables)

    def _happen(self, node: Node, host: Token, variables: Mapping[str, Any] = _NO_VARIABLES) -> None:
        """Enter an event that was awaited by another token: it is left immediately, without start listeners."""
        token = self._tokens.make(self.state.new_key(), node.id, host.parent, host.life.groups, host.life.mode)
        self._later(token, lambda: self._leave(token, variables))

    def _end_by_error(self, token: Token, node: Node) -> None:
        scope = self.state.tokens[token.parent]
        if node.error_code is None or not self._catch(scope, node.error_code, token):
            raise conditions.Stuck("UNHANDLED_ERROR_EVENT", f"nothing catches the error '{node.error_code}'")

    def _catch(self, first: Token, code: str, failed: Token) -> bool:
        """Pass an error to the nearest event that catches it; one with the exact code has priority."""
        host: Token | None = first
        while host is not None:
            boundaries = [self._nodes[boundary] for boundary in self._nodes[host.node].boundaries]
            catching = [b for b in boundaries if b.catches_error and b.error_code in (code, None)]
            if catching:
                catching.sort(key=lambda b: b.error_code is None)
                if failed.life.status is not TokenStatus.FAILED:
                    self._tokens.fail(failed)
                self._terminate(host, failed)
                self._happen(catching[0], host)
                return True
            host = self.state.tokens.get(host.parent)
        return False

    # ---- compensation ------------------------------------------------------------------------------------------------

    def _undo(self, token: Token, node: Node) -> None:
        mine = [item for item in self.state.undoable if item[0] == token.parent and node.undoes in ("", item[1])]
        self.state.undoable = [item for item in self.state.undoable if item not in mine]
        token.undo = tuple(handler for _, _, handler in reversed(mine))
        self._undo_next(token)

    def _undo_next(self, token: Token) -> None:
        if token.undo:
            self._tokens.block(token)
            handler, token.undo = token.undo[0], token.undo[1:]
            undoing = self._arrive(handler, token.parent, token.life.groups, TokenMode.COMPENSATION)
            undoing.thrower = token.key
        else:
            self._leave(token)

    def _hand_up(self, scope: Token) -> None:
        """Make the activities of a completed subprocess undoable from outside."""
        self.state.undoable = [
            (scope.parent, node, handler) if owner == scope.key else (owner, node, handler)
            for owner, node, handler in self.state.undoable
        ]

    # ---- jobs, incidents, the end of a token ---------------------------------------------------------------------

    def _make_job(self, token: Token, kind: str, retries: int, headers: Mapping[str, str]) -> None:
        self._await_worker(token)
        self._waits.open_job(token, kind, retries, headers)

    def _await_worker(self, token: Token) -> None:
        """Let a worker claim the token for its job; a user task waits for a person."""
        if token.phase is Phase.ACTIVE and self._nodes[token.node].job_type == USER_TASK:
            self._tokens.block(token)
        else:
            self._tokens.schedule(token)

    def _make_listener_job(self, token: Token, listener: NodeListener) -> None:
        self._make_job(token, listener.type, listener.retries, {})

    def _token_of_job(self, job: int) -> Token:
        token = self.state.jobs.get(job)
        if token is None:
            raise TargetMissing("there is no such job")
        return self.state.tokens[token]

    def _terminate(self, token: Token, failed: Token | None = None) -> None:
        """End a token and all that is inside it; `failed` is the one whose error is the reason."""
        if not self._tokens.is_here(token):
            return
        for child in [t for t in self.state.tokens.values() if t.parent == token.key or t.thrower == token.key]:
            self._terminate(child, failed)
        self.state.undoable = [item for item in self.state.undoable if item[0] != token.key]
        self._waits.end_job(token)
        self._waits.close_all(token)
        self._waits.clear_incidents(token)
        if token is failed:
            self._tokens.end_failure(token)
        else:
            self._tokens.terminate(token)
