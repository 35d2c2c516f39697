"""Joins: tokens that wait at a parallel gateway until one of their group has come over each of its incoming flows."""

from collections.abc import Sequence

from verbworker.engine.embedded.kernel.definition import Action, Node
from verbworker.engine.embedded.kernel.state import State, Token
from verbworker.engine.embedded.kernel.token_life import TokenStatus


def is_join(node: Node) -> bool:
    """Return whether tokens wait for each other at a node."""
    return node.act is Action.PARALLEL and len(node.incoming) > 1


def meet(state: State, node: Node, token: Token) -> list[Token] | None:
    """Return the tokens that an arrival lets join, itself included, one for each incoming flow; None to wait on.

    Tokens of different passes through the same fork never join each other: their groups tell them apart.
    """
    met = [token]
    there = [one for one in state.tokens.values() if _waits_at(one, node) and one.parent == token.parent]
    for flow in node.incoming:
        if flow == token.flow:
            continue
        fitting = (one for one in there if one.flow == flow and not any(_are_apart(state, one, two) for two in met))
        first = next(fitting, None)
        if first is None:
            return None
        met.append(first)
    return met


def _waits_at(token: Token, node: Node) -> bool:
    return token.node == node.id and bool(token.flow) and token.life.status is TokenStatus.WAITING


def _are_apart(state: State, one: Token, two: Token) -> bool:
    """Return whether two tokens come from different passes through one fork."""
    for left, right in zip(one.life.groups, two.life.groups, strict=False):
        if left != right:
            return state.forks.get(left) == state.forks.get(right)
    return False


def groups_after(state: State, met: Sequence[Token]) -> tuple[int, ...]:
    """Return the groups of the token that continues behind a join: those shared by all that joined."""
    shared: list[int] = []
    for groups in zip(*(one.life.groups for one in met), strict=False):
        if len(set(groups)) > 1:
            break
        shared.append(groups[0])
    return inside_of(state, tuple(shared))


def inside_of(state: State, groups: tuple[int, ...]) -> tuple[int, ...]:
    """Return the groups that still have other tokens: a group of one needs no join any more."""
    if not groups:
        return groups
    alive = {group for token in state.tokens.values() for group in token.life.groups}
    return tuple(group for group in groups if group in alive)
