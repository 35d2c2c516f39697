"""The tokens of one step: makes them, moves them through their lives, and notes each transition as an event."""

from verbworker.engine.embedded.kernel import token_life as lives
from verbworker.engine.embedded.kernel.state import State, Token
from verbworker.engine.embedded.kernel.token_life import IllegalTransition, TokenMode, TokenStatus, Transition

# How a token ended, in the stored history; those in compensation mode count on.
_ENDS = {TokenStatus.COMPLETED: 0, TokenStatus.FAILED: 1, TokenStatus.TERMINATED: 2}


class TokenMoves:
    """All changes of tokens in one step. What ends leaves the state for the history, in the same commit."""

    def __init__(self, state: State, now_ms: int) -> None:
        self._state = state
        self._events = state.events
        self._now_ms = now_ms

    def make(self, key: int, node: str, parent: int, groups: tuple[int, ...], mode: TokenMode) -> Token:
        """Create a token at a node."""
        life = lives.make_life(mode, groups, self._now_ms)
        token = Token(key, node, parent, life, since_ms=self._now_ms)
        self._state.tokens[key] = token
        self._events.append((lives.CREATED, key, life.version))
        return token

    def is_here(self, token: Token) -> bool:
        """Return whether a token has not ended."""
        return token.key in self._state.tokens

    def schedule(self, token: Token) -> None:
        """Let a worker claim the token."""
        for transition in lives.TO_READY[token.life.status]:
            self._move(token, transition)

    def claim(self, token: Token) -> None:
        """Give the token to this step, or note that a worker claimed it. What it waited for has come."""
        for transition in lives.TO_EXECUTING[token.life.status]:
            self._move(token, transition)

    def block(self, token: Token) -> None:
        """Let the token wait for an event."""
        self.claim(token)
        self._move(token, lives.BLOCKED)

    def fail(self, token: Token) -> None:
        """Fail the token; its incident, an error event or a retry decides what follows."""
        self.claim(token)
        self._move(token, lives.FAILED)

    def rest(self, token: Token) -> None:
        """Let a failed token wait for the timer of its retry."""
        self._move(token, lives.RESTED)

    def complete(self, token: Token) -> None:
        """Complete the token."""
        self.claim(token)
        self._move(token, lives.COMPLETED)
        self._end(token)

    def terminate(self, token: Token) -> None:
        """End the token before its work is done."""
        self._move(token, lives.TERMINATED)
        self._end(token)

    def end_failure(self, token: Token) -> None:
        """End a token that has failed: an error event takes over."""
        if token.life.status is not TokenStatus.FAILED:
            raise IllegalTransition(f"a token that is {token.life.status} has not failed")
        self._end(token)

    def prune_forks(self) -> None:
        """Forget the forks that no token is inside of."""
        if self._state.forks:
            alive = {group for token in self._state.tokens.values() for group in token.life.groups}
            self._state.forks = {group: node for group, node in self._state.forks.items() if group in alive}

    def _move(self, token: Token, transition: Transition) -> None:
        life = token.life = transition.apply(token.life, self._now_ms)
        self._events.append((transition.event, token.key, life.version))

    def _end(self, token: Token) -> None:
        state, key, since_ms = self._state, token.key, token.since_ms
        del state.tokens[key]
        if key != state.instance_key:
            status, mode, groups, version, now_ms = token.life
            code = _ENDS[status] if mode is TokenMode.FORWARD else _ENDS[status] + len(_ENDS)
            took_ms = now_ms - since_ms if since_ms else 0
            state.ended.append((key - state.instance_key, token.node, code, version, now_ms, took_ms, *groups))
