"""The oracle: after everything has come to rest, it counts what happened and says whether anything is wrong."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tests.chaos.load import Load
from tests.chaos.provider import Calls, Provider
from tests.support.databases import plain
from verbworker.errors import JobGone

_FRAMES = """
SELECT
  count(*) AS frames,
  count(*) FILTER (WHERE state = 'completed') AS completed,
  count(*) FILTER (WHERE state = 'incident') AS incidents,
  count(*) FILTER (WHERE acked_at IS NOT NULL) AS acknowledged,
  count(*) FILTER (WHERE retries_left < 3) AS spent_retries,
  coalesce(sum(deliveries), 0) AS deliveries,
  coalesce(sum(epoch), 0) AS claims
FROM verbworker.job_frame
"""
_EVENTS = """
SELECT
  count(*) FILTER (WHERE kind = 'takeover') AS takeovers,
  count(*) FILTER (WHERE kind = 'fenced') AS fenced,
  count(*) FILTER (WHERE kind = 'replay') AS replays,
  count(*) FILTER (WHERE kind = 'relay') AS relays
FROM verbworker.frame_event
"""
_OUTPUTS = """
SELECT process_instance_key, input_hash, output_hash, output
FROM verbworker.job_frame
WHERE state = 'completed'
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything there is to know about a run that came to rest."""

    instances: int
    ended: int
    audited: int
    booked: int
    booked_twice: int
    sent: int
    frames: int
    completed: int
    incidents: int
    acknowledged: int
    spent_retries: int
    deliveries: int
    claims: int
    takeovers: int
    fenced: int
    replays: int
    relays: int
    differing: int
    provider: Calls

    @property
    def lost(self) -> int:
        """Instances that did not get to their end, or got there without their effects."""
        return self.instances - min(self.ended, self.audited, self.booked, self.sent)

    def __str__(self) -> str:
        return "\n".join(f"{one.name:>14} {getattr(self, one.name)}" for one in fields(self))


async def consult(load: Load, provider: Provider, dsn: str) -> Findings:
    """Look at the engine, the database and the provider."""
    sure, seen = load.started.keys(), provider.seen()
    async with plain(dsn) as connection:
        booked = await connection.fetch("SELECT number, count(*) AS rows FROM ledger GROUP BY number")
        frames = await connection.fetchrow(_FRAMES)
        events = await connection.fetchrow(_EVENTS)
        outputs = await connection.fetch(_OUTPUTS)
    return Findings(
        instances=len(sure),
        ended=await _ended(load),
        audited=load.arrived,
        booked=len({row["number"] for row in booked} & sure),
        booked_twice=sum(row["rows"] - 1 for row in booked),
        sent=len(seen.keys.keys() & sure),
        **dict(frames),
        **dict(events),
        differing=_differing(load, outputs),
        provider=seen,
    )


async def _ended(load: Load) -> int:
    """How many instances the engine has no more: cancelling one that runs would be taken."""
    ended = 0
    for key in load.started.values():
        try:
            await load.engine.cancel(key)
        except JobGone:
            ended += 1
    return ended


def _differing(load: Load, outputs: Sequence[Any]) -> int:
    """Instances whose audit saw another payload than the frame of their last verb holds."""
    frames: Mapping[int, list[Any]] = defaultdict(list)
    for row in outputs:
        frames[row["process_instance_key"]].append(row)
    return sum(load.audited.get(key, set()) != {_last(rows)} for key, rows in frames.items())


def _last(rows: list[Any]) -> str:
    """The output that no other verb of the instance began with."""
    inputs = {row["input_hash"] for row in rows}
    (last,) = [row["output"] for row in rows if row["output_hash"] not in inputs]
    return bytes(last).decode()
