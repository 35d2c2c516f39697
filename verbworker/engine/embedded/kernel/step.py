"""The kernel: applies one command to one instance. Pure: no clock, no randomness, no I/O."""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from verbworker.engine.embedded.kernel import commands, conditions, joins, scopes
from verbworker.engine.embedded.kernel.commands import Command, Effect, TargetMissing
from verbworker.engine.embedded.kernel.definition import Action, Definition, MessageWait, Node, NodeListener, TimerWait
from verbworker.engine.embedded.kernel.state import InstanceStatus, Phase, State, Token, TokenIncident, TokenWait
from verbworker.engine.embedded.kernel.user_task_headers import resolve_headers
from verbworker.model import schedule

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
        self._now = now
        self._now_ms = int(now.timestamp() * 1000)
        self._moves: deque[Callable[[], None]] = deque()

    def apply(self, command: Command) -> None:
        if self.state.status is not InstanceStatus.ACTIVE:
            raise TargetMissing("the instance has ended")
        match command:
            case commands.Begin(variables, start):
                self._begin(variables, start)
            case commands.CompleteJob(job, variables):
                self._complete(job, variables)
            case commands.ExhaustJob(job, message):
                token = self._token_of_job(job)
                self.effects.append(commands.JobHeld(job))
                listens = token.phase is not Phase.ACTIVE
                self._incident(
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

    def _drain(self) -> None:
        moves = 0
        while self._moves:
            moves += 1
            if moves > _MOST_MOVES:
                raise TargetMissing("the model moves for ever without waiting for anything")
            self._moves.popleft()()

    def _key(self) -> int:
        self.state.last_key += 1
        return self.state.instance_key + self.state.last_key

    # ---- commands ------------------------------------------------------------------------------------------------

    def _begin(self, variables: Mapping[str, Any], start: str) -> None:
        self.state.variables.update(variables)
        root = self._make_token(self.state.instance_key, "", -1)
        root.taken = [start] if start else []
        self._enter(root)

    def _complete(self, job: int, variables: Mapping[str, Any]) -> None:
        token = self._token_of_job(job)
        self._end_job(token)
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

    def _thrown(self, job: int, code: str, message: str) -> None:
        token = self._token_of_job(job)
        if token.phase is not Phase.ACTIVE:
            raise TargetMissing("a listener's job throws no error")
        if not self._catch(token, code):
            self.effects.append(commands.JobHeld(job))
            words = f"an error with the code '{code}' was thrown and nothing catches it: {message}"
            self._incident(token, "UNHANDLED_ERROR_EVENT", words, job=job)

    def _fire(self, key: int, variables: Mapping[str, Any]) -> None:
        wait = self.state.waits.get(key)
        if wait is None:
            raise TargetMissing("the wait is over")
        token, node = self.state.tokens[wait.token], self._nodes[wait.node]
        if node.id == token.node:
            self._close(wait)
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
        if incident.job:
            self.effects.append(commands.JobFreed(incident.job))
            return
        token = self.state.tokens[incident.token]
        token.is_stuck = False
        self._enter(token, is_new=True)

    def _cancel(self) -> None:
        self._terminate(self.state.tokens[self.state.instance_key])
        self._end(InstanceStatus.TERMINATED)

    def _visible(self, token: Token) -> Mapping[str, Any]:
        return scopes.visible(self.state, token)

    def _visible_for(self, token: Token, node: Node) -> Mapping[str, Any]:
        """Return what a wait of a token sees: an event on its boundary does not see the token's own variables."""
        return scopes.visible(self.state, self.state.tokens.get(token.parent) if node.attached_to else token)

    def _make_token(self, key: int, node_id: str, parent: int) -> Token:
        token = Token(key, node_id, parent, since_ms=self._now_ms)
        self.state.tokens[key] = token
        return token

    # ---- a token's path through a node -------------------------------------------------------------------------------

    def _arrive(self, node_id: str, parent: int, *, thrower: int = 0) -> None:
        token = self._make_token(self._key(), node_id, parent)
        token.thrower = thrower
        self._moves.append(lambda: self._enter(token, is_new=True))

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
            self._open_boundaries(token, node)
            token.phase, token.listener = Phase.ACTIVE, 0
            self._act(token, node)
        except conditions.Stuck as stuck:
            self._close_waits(token)
            # Resolving the incident runs the listeners before the node again, as on the broker.
            token.is_stuck, token.phase, token.listener = True, Phase.ENTERING, 0
            self._incident(token, stuck.kind, str(stuck))

    def _act(self, token: Token, node: Node) -> None:
        match node.act:
            case Action.PASS | Action.PARALLEL:
                self._leave(token)
            case Action.JOB:
                headers = resolve_headers(node.headers, self._visible(token)) if node.headers else node.headers
                self._make_job(token, node.job_type, node.retries, headers)
            case Action.CATCH:
                self._open(token, node)
            case Action.EXCLUSIVE:
                token.taken = conditions.one_way(node, self._visible(token))
                self._leave(token)
            case Action.INCLUSIVE:
                token.taken = conditions.every_way(node, self._visible(token))
                self._leave(token)
            case Action.CHOICE:
                for flow in node.outgoing:
                    self._open(token, self._nodes[flow.target])
            case Action.SCOPE:
                start = token.taken[0] if token.taken else node.starts
                token.taken = []
                self._arrive(start, token.key)
            case Action.ERROR_END:
                self._end_by_error(token, node)
            case Action.TERMINATE_END:
                for other in [t for t in self.state.tokens.values() if t.parent == token.parent and t is not token]:
                    self._terminate(other)
                joins.forget(self.state, token.parent)
                self._leave(token)
            case Action.COMPENSATE:  # pragma: no branch  # there is no other action
                self._undo(token, node)

    def _leave(self, token: Token, variables: Mapping[str, Any] = _NO_VARIABLES) -> None:
        self._close_waits(token)
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
        del self.state.tokens[token.key]
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
        for flow in node.outgoing:
            if token.taken and flow.id not in token.taken:
                continue
            if joins.is_complete(self.state, token.parent, self._nodes[flow.target], flow.id):
                self._arrive(flow.target, token.parent)
        self._moves.append(lambda: self._settle(token.parent))

    def _settle(self, scope: int) -> None:
        """Leave a scope without active tokens; a token waiting at a join is active."""
        token = self.state.tokens.get(scope)
        if token is None or token.phase is not Phase.ACTIVE:
            return
        if any(t.parent == scope for t in self.state.tokens.values()):
            return
        if joins.has_waiting(self.state, scope):
            return
        self._leave(token)

    def _end(self, status: InstanceStatus) -> None:
        self.state.status = status
        self.effects.append(commands.Ended(status.value))

    # ---- events ----------------------------------------------------------------------------------------------------

    def _open_boundaries(self, token: Token, node: Node) -> None:
        for boundary in node.boundaries:
            if self._nodes[boundary].wait is not None:
                self._open(token, self._nodes[boundary])

    def _open(self, token: Token, node: Node) -> None:
        match node.wait:
            case TimerWait():
                self._set_timer(token, node, node.wait)
            case MessageWait(name, variable):  # pragma: no branch  # there is no other wait
                key = conditions.correlation_key(variable, self._visible_for(token, node))
                wait = TokenWait(self._key(), token.key, node.id, message=name, correlation_key=key)
                self.state.waits[wait.key] = wait
                self.effects.append(commands.Subscribed(wait.key, name, key, node.id, node.is_interrupting))

    def _set_timer(self, token: Token, node: Node, timer: TimerWait) -> None:
        due, text = conditions.due(timer, self._visible_for(token, node), self._now)
        wait = TokenWait(self._key(), token.key, node.id, due.at, due.again, text)
        self.state.waits[wait.key] = wait
        self.effects.append(commands.TimerSet(wait.key, due.at))

    def _boundary(self, wait: TokenWait, host: Token, node: Node, variables: Mapping[str, Any]) -> None:
        if node.is_interrupting:
            parent = host.parent
            self._terminate(host)
            self._happen(node, parent, variables)
            return
        due = (
            None
            if wait.due is None
            else schedule.next_due(wait.text, schedule.DueTime(wait.due, wait.again), self._now)
        )
        if due is not None:
            wait.due, wait.again = due.at, due.again
            self.effects.append(commands.TimerSet(wait.key, due.at))
        elif wait.due is not None:
            self._close(wait)
        self._happen(node, host.parent, variables)

    def _chosen(self, gateway: Token, node: Node, variables: Mapping[str, Any]) -> None:
        self._close_waits(gateway)
        del self.state.tokens[gateway.key]
        self._happen(node, gateway.parent, variables)

    def _happen(self, node: Node, parent: int, variables: Mapping[str, Any] = _NO_VARIABLES) -> None:
        """Enter an event that was awaited by another token: it is left immediately, without start listeners."""
        token = self._make_token(self._key(), node.id, parent)
        self._moves.append(lambda: self._leave(token, variables))

    def _end_by_error(self, token: Token, node: Node) -> None:
        scope = self.state.tokens[token.parent]
        if node.error_code is None or not self._catch(scope, node.error_code):
            raise conditions.Stuck("UNHANDLED_ERROR_EVENT", f"nothing catches the error '{node.error_code}'")

    def _catch(self, token: Token, code: str) -> bool:
        """Pass an error to the nearest event that catches it; one with the exact code has priority."""
        host: Token | None = token
        while host is not None:
            boundaries = [self._nodes[boundary] for boundary in self._nodes[host.node].boundaries]
            catching = [b for b in boundaries if b.catches_error and b.error_code in (code, None)]
            if catching:
                catching.sort(key=lambda b: b.error_code is None)
                parent = host.parent
                self._terminate(host)
                self._happen(catching[0], parent)
                return True
            host = self.state.tokens.get(host.parent)
        return False

    # ---- compensation ------------------------------------------------------------------------------------------------

    def _undo(self, token: Token, node: Node) -> None:
        mine = [item for item in self.state.undoable if item[0] == token.parent and node.undoes in ("", item[1])]
        self.state.undoable = [item for item in self.state.undoable if item not in mine]
        token.undo = [handler for _, _, handler in reversed(mine)]
        self._undo_next(token)

    def _undo_next(self, token: Token) -> None:
        if token.undo:
            self._arrive(token.undo.pop(0), token.parent, thrower=token.key)
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
        key = self._key()
        token.job = key
        self.state.jobs[key] = token.key
        self.effects.append(commands.JobCreated(key, kind, token.node, token.key, retries, headers))

    def _make_listener_job(self, token: Token, listener: NodeListener) -> None:
        self._make_job(token, listener.type, listener.retries, {})

    def _token_of_job(self, job: int) -> Token:
        token = self.state.jobs.get(job)
        if token is None:
            raise TargetMissing("there is no such job")
        return self.state.tokens[token]

    def _end_job(self, token: Token) -> None:
        if token.job:
            del self.state.jobs[token.job]
            self.effects.append(commands.JobEnded(token.job))
            self._clear_incidents(token)
            token.job = 0

    def _incident(self, token: Token, kind: str, message: str, *, job: int = 0) -> None:
        incident = TokenIncident(self._key(), token.key, kind, message, job)
        self.state.incidents[incident.key] = incident
        self.effects.append(commands.IncidentRaised(incident.key, kind, message, token.node, job, token.key))

    def _clear_incidents(self, token: Token) -> None:
        for key in [key for key, incident in self.state.incidents.items() if incident.token == token.key]:
            del self.state.incidents[key]
            self.effects.append(commands.IncidentGone(key))

    def _close(self, wait: TokenWait) -> None:
        del self.state.waits[wait.key]
        self.effects.append(commands.WaitClosed(wait.key))

    def _close_waits(self, token: Token) -> None:
        for wait in [wait for wait in self.state.waits.values() if wait.token == token.key]:
            self._close(wait)

    def _terminate(self, token: Token) -> None:
        if token.key not in self.state.tokens:
            return
        for child in [t for t in self.state.tokens.values() if t.parent == token.key or t.thrower == token.key]:
            self._terminate(child)
        joins.forget(self.state, token.key)
        self.state.undoable = [item for item in self.state.undoable if item[0] != token.key]
        self._end_job(token)
        self._close_waits(token)
        self._clear_incidents(token)
        del self.state.tokens[token.key]
