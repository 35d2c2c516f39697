"""What tokens wait for in one step: jobs, timers, messages, and the operators of their incidents."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from verbworker.engine.embedded.kernel import commands, conditions, scopes
from verbworker.engine.embedded.kernel.commands import Effect
from verbworker.engine.embedded.kernel.definition import Definition, MessageWait, Node, TimerWait
from verbworker.engine.embedded.kernel.state import State, Token, TokenIncident, TokenWait
from verbworker.model import schedule


class Waits:
    """Opens and closes jobs, waits and incidents, with the effects that store them."""

    def __init__(self, state: State, effects: list[Effect], definition: Definition, now: datetime) -> None:
        self._state = state
        self._effects = effects
        self._nodes = definition.nodes
        self._now = now

    def open_boundaries(self, token: Token, node: Node) -> None:
        """Open the waits of the events on a node's boundary."""
        for boundary in node.boundaries:
            if self._nodes[boundary].wait is not None:
                self.open(token, self._nodes[boundary])

    def open(self, token: Token, node: Node) -> None:
        """Let a token wait for the event of a node, its own or one on its boundary."""
        match node.wait:
            case TimerWait():
                self._set_timer(token, node, node.wait)
            case MessageWait(name, variable):  # pragma: no branch  # there is no other wait
                key = conditions.correlation_key(variable, self._visible(token, node))
                wait = TokenWait(self._state.new_key(), token.key, node.id, message=name, correlation_key=key)
                self._state.waits[wait.key] = wait
                self._effects.append(commands.Subscribed(wait.key, name, key, node.id, node.is_interrupting))

    def _set_timer(self, token: Token, node: Node, timer: TimerWait) -> None:
        due, text = conditions.due(timer, self._visible(token, node), self._now)
        wait = TokenWait(self._state.new_key(), token.key, node.id, due.at, due.again, text)
        self._state.waits[wait.key] = wait
        self._effects.append(commands.TimerSet(wait.key, due.at))

    def _visible(self, token: Token, node: Node) -> Mapping[str, Any]:
        """Return what a wait of a token sees: an event on its boundary does not see the token's own variables."""
        return scopes.visible(self._state, self._state.tokens.get(token.parent) if node.attached_to else token)

    def repeat(self, wait: TokenWait) -> None:
        """Set a timer that fired to its next time, or close it after the last one. A message wait stays open."""
        if wait.due is None:
            return
        due = schedule.next_due(wait.text, schedule.DueTime(wait.due, wait.again), self._now)
        if due is None:
            self.close(wait)
            return
        wait.due, wait.again = due.at, due.again
        self._effects.append(commands.TimerSet(wait.key, due.at))

    def close(self, wait: TokenWait) -> None:
        """Close one wait."""
        del self._state.waits[wait.key]
        self._effects.append(commands.WaitClosed(wait.key))

    def close_all(self, token: Token) -> None:
        """Close every wait of a token."""
        for wait in [wait for wait in self._state.waits.values() if wait.token == token.key]:
            self.close(wait)

    def open_job(self, token: Token, kind: str, retries: int, headers: Mapping[str, str]) -> None:
        """Give a token's work to the workers."""
        key = self._state.new_key()
        token.job = key
        self._state.jobs[key] = token.key
        self._effects.append(commands.JobCreated(key, kind, token.node, token.key, retries, headers))

    def end_job(self, token: Token) -> None:
        """Remove the job of a token, and the incidents that held it."""
        if token.job:
            del self._state.jobs[token.job]
            self._effects.append(commands.JobEnded(token.job))
            self.clear_incidents(token)
            token.job = 0

    def raise_incident(self, token: Token, kind: str, message: str, *, job: int = 0) -> None:
        """Say why a token cannot continue without an operator."""
        incident = TokenIncident(self._state.new_key(), token.key, kind, message, job)
        self._state.incidents[incident.key] = incident
        self._effects.append(commands.IncidentRaised(incident.key, kind, message, token.node, job, token.key))

    def clear_incidents(self, token: Token) -> None:
        """Remove the incidents of a token that goes on or ends."""
        for key in [key for key, incident in self._state.incidents.items() if incident.token == token.key]:
            del self._state.incidents[key]
            self._effects.append(commands.IncidentGone(key))
