"""Tenants in turn: which due rows a claim takes, as the statements with a part `turn` choose them."""

from collections.abc import Sequence
from datetime import datetime

from tests.simulator.store import Values

_FARTHEST = 64
"""How many tenants one claim looks at."""


def take_in_turn(
    waiting: Sequence[Values], free: Sequence[Values], limit: int, served: str, now: datetime
) -> tuple[list[Values], Values]:
    """Return up to `limit` of the free rows, and what each row says besides: where the next turn begins.

    `waiting` are all rows of the queue: tenants with nothing due are visited too, and those that have something due get
    a share even if none of it is free.
    """
    tenants = sorted({row["tenant_id"] for row in waiting})
    turn = [one for one in tenants if one > served] + [one for one in tenants if one <= served]
    turn = turn[:_FARTHEST]
    oldest = sorted(free, key=lambda row: row["next_at"])
    due = {row["tenant_id"] for row in waiting if row["next_at"] <= now}
    of_tenant = {one: [row for row in oldest if row["tenant_id"] == one] for one in turn}
    with_due = [one for one in turn if one in due]
    share = -(-limit // len(with_due)) if with_due else 0
    ranked = [
        (rank, place, row) for place, one in enumerate(with_due) for rank, row in enumerate(of_tenant[one][:share])
    ]
    ranked.sort(key=lambda item: item[:2])
    chosen = [row for _, _, row in ranked[:limit]]
    found = [id(row) for _, _, row in ranked]
    rest = [row for row in oldest if id(row) not in found]
    places = [place for _, place, _ in ranked[:limit]]
    last: str | None = turn[-1] if turn else served
    if len(with_due) > limit:
        last = with_due[max(places)] if places else None
    more: Values = {"served": last, "has_several": len(with_due) > 1 or len(turn) == _FARTHEST}
    return chosen + rest[: limit - len(chosen)], more
