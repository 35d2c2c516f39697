"""Verdicts of jobs of the embedded engine, stored together with the steps that complete the jobs."""

from collections.abc import Sequence

from verbworker.stores.batch import Batch
from verbworker.stores.database import Connection, Database
from verbworker.stores.embedded.tokens import Change, job_rows
from verbworker.stores.rows import columns
from verbworker.stores.sql import query

_VERDICT_COLUMNS = 9  # behind the engine and the owner


class Finishes:
    """Stores a verdict, given as the columns of its frame, with the plain step that completes its job: both or none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.service: Batch[tuple[Sequence[object], Change], int] = Batch(
            self._finish_many, lambda item: item[1].kept.instance_key, name="engine-finishes"
        )

    async def finish(self, verdict: Sequence[object], change: Change) -> int:
        """Store both, together with others that wait; return the time in ms, or 0 if one does not fit any more."""
        return await self.service.add((verdict, change))

    async def finish_in(self, connection: Connection, verdict: Sequence[object], change: Change) -> tuple[str, int]:
        """Store both in a transaction; return the answer and the time in ms."""
        kept = change.kept
        row = await connection.fetchrow(
            query("finishes", "finish_one"),
            *verdict,
            *(kept.instance_key, kept.revision, change.variables, change.state, change.ended),
            *columns(job_rows(change), 8),
            change.jobs_gone,
            change.case_tenant,
        )
        assert row is not None, "a function returns its row"
        return row["answer"], row["at_ms"] or 0

    async def _finish_many(self, items: list[tuple[Sequence[object], Change]]) -> list[int]:
        owners: dict[tuple[object, object], list[tuple[Sequence[object], Change]]] = {}
        for item in items:
            owners.setdefault((item[0][0], item[0][1]), []).append(item)
        finished: dict[object, int] = {}
        for owner, own in owners.items():
            own.sort(key=_job_key)
            changes = [change for _, change in own]
            rows = await self._database.fetch(
                query("finishes", "finish"),
                *owner,
                *columns([verdict[2:] for verdict, _ in own], _VERDICT_COLUMNS),
                *columns([_move(change) for change in changes], 5),
                *columns([row for change in changes for row in job_rows(change)], 8),
                [key for change in changes for key in change.jobs_gone],
                [change.case_tenant for change in changes for _ in change.jobs],
            )
            finished.update((row["job_key"], row["at_ms"]) for row in rows)
        return [finished.get(_job_key(item), 0) for item in items]


def _job_key(item: tuple[Sequence[object], Change]) -> int:
    return item[1].guard


def _move(change: Change) -> tuple[object, ...]:
    kept = change.kept
    return kept.instance_key, kept.revision, change.variables, change.state, change.ended
