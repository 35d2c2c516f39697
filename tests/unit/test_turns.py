"""When a claim serves the tenants in turn: during a backlog, at its beginning and now and then."""

from typing import Any

from verbworker.stores.tenants.turns import Turns

MOST = 4


def claims(turns: Turns, *batches: list[dict[str, Any]]) -> list[bool]:
    """Whether each claim served the tenants in turn, given what it took."""
    told = []
    for batch in batches:
        told.append(turns.is_next)
        turns.note([{**row, "served": "b", "has_several": row["several"]} if told[-1] else {} for row in batch], MOST)
    return told


def full(*, several: bool = False) -> list[dict[str, Any]]:
    return [{"several": several}] * MOST


def test_claims_that_take_all_there_is_need_no_turns() -> None:
    assert claims(Turns(), [], full()[:3], full()[:3], []) == [False] * 4


def test_a_backlog_of_one_tenant_is_looked_through_at_its_beginning_and_at_every_eighth_claim() -> None:
    told = claims(Turns(), *[full()] * 18)

    assert [place for place, is_in_turn in enumerate(told) if is_in_turn] == [1, 9, 17]


def test_several_tenants_are_served_in_turn_until_the_backlog_is_over() -> None:
    turns = Turns()

    told = claims(turns, full(), *[full(several=True)] * 3, full()[:1], full(), full())

    assert told == [False, True, True, True, True, False, True]
    assert turns.served == "b"
