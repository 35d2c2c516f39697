"""Variables by scope: a token sees its own, those of the scopes around it, and those of the instance.

Only mappings and listeners before a node make variables that are a token's own, so hollow models have none.
"""

from collections.abc import Sequence
from typing import Any

from verbworker.engine.embedded.kernel.expressions import VariableMapping, Variables
from verbworker.engine.embedded.kernel.state import State, Token


def visible(state: State, token: Token | None) -> Variables:
    """Return the variables as a token sees them; without a token, those of the instance."""
    owners = _owners(state, token)
    if not owners:
        return state.variables
    seen = dict(state.variables)
    for owner in reversed(owners):
        seen.update(owner.own or {})
    return seen


def visible_at(state: State, token_key: int) -> Variables:
    """Return the variables as the token of a job sees them."""
    return visible(state, state.tokens.get(token_key))


def has_own_variables(stored: bytes) -> bool:
    """Return whether a token of a stored state may have variables of its own, without parsing the state."""
    return b'"own":' in stored


def put_own(token: Token, variables: Variables) -> None:
    """Set variables that only the token and what is inside it see."""
    if variables:
        token.own = {**(token.own or {}), **variables}


def merge(state: State, token: Token | None, variables: Variables) -> None:
    """Set each variable in the innermost scope that has one of its name, else in the instance."""
    owners = _owners(state, token)
    if not owners:
        state.variables.update(variables)
        return
    for name, value in variables.items():
        scope = next((owner for owner in owners if name in (owner.own or ())), None)
        if scope is None:
            state.variables[name] = value
        else:
            put_own(scope, {name: value})


def _owners(state: State, token: Token | None) -> list[Token]:
    """Return the token and the scopes around it that have variables of their own, innermost first."""
    owners: list[Token] = []
    while token is not None:
        if token.own:
            owners.append(token)
        token = state.tokens.get(token.parent)
    return owners


def map_in(state: State, token: Token, inputs: Sequence[VariableMapping]) -> None:
    """Make the variables of a token's own that its inputs name; each input sees those before it."""
    if not inputs:
        return
    made: dict[str, Any] = {}
    for mapping in inputs:
        value = mapping.read({**visible(state, token), **made})
        made[mapping.target[0]] = mapping.put(value, made)
    put_own(token, made)


def map_out(state: State, token: Token, outputs: Sequence[VariableMapping], variables: Variables) -> None:
    """Take the variables that a token ends with: all of them, or with outputs only what those name."""
    if not outputs:
        if variables:
            merge(state, token, variables)
        return
    put_own(token, variables)
    seen = visible(state, token)
    found: dict[str, Any] = {}
    for mapping in outputs:
        now = {**seen, **found}
        found[mapping.target[0]] = mapping.put(mapping.read(now), now)
    merge(state, state.tokens.get(token.parent), found)
