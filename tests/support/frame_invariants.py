"""The invariants of frames that a store can break, asserted on what really stands in the database."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol
from uuid import UUID

from tests.support.frame_model import ModelFrame, ModelJob
from verbworker.stores.database import Database, Row

COLUMNS = (
    "job_key, state, epoch, owner, lease_until > clock_timestamp() AS is_live, activated_ms, runs, infra_runs, "
    "retries_left, generation, idempotency_key, next_retry_at <= clock_timestamp() AS is_due, outcome, output, "
    "output_hash, flags, error_code, reported_at, acked_at, "
    "keyed_at > clock_timestamp() - idempotency_window AS is_in_window"
)
FRAMES = (
    f"SELECT 'hot' AS place, {COLUMNS} FROM verbworker.job_frame "
    f"UNION ALL SELECT 'archive', {COLUMNS} FROM verbworker.job_frame_archive"
)
REST = (
    "SELECT content, (SELECT array_agg(job_key) FROM effect) AS effects "
    "FROM verbworker.payload_head WHERE instance_uid = $1"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything the database says at one moment."""

    frames: dict[int, Row]
    places: dict[int, list[str]]
    effects: dict[int, int]
    head: bytes


class Memory(Protocol):
    """What was seen before, which nothing later may contradict."""

    final: dict[int, tuple[object, ...]]
    told: dict[int, bytes | None]
    epochs: dict[int, tuple[int, object]]


async def look(database: Database, uid: UUID) -> Seen:
    """Read every frame, wherever it is, with the effects and the payload of record."""
    async with database.acquire() as connection:
        rows = await connection.fetch(FRAMES)
        rest = await connection.fetchrow(REST, uid)
    assert rest is not None
    places: dict[int, list[str]] = {}
    for row in rows:
        places.setdefault(row["job_key"], []).append(row["place"])
    frames = {row["job_key"]: row for row in sorted(rows, key=lambda row: row["place"] == "hot")}
    effects = list(rest["effects"] or [])
    return Seen(frames, places, {key: effects.count(key) for key in effects}, rest["content"])


def check(job: ModelJob, frame: ModelFrame, row: Row, places: list[str], memory: Memory) -> None:
    """Hold one frame to the model and to what was seen of it before."""
    assert sorted(places) == {"hot": ["hot"], "both": ["archive", "hot"], "archive": ["archive"]}[frame.place]  # I1
    if frame.place != "hot" and frame.state == "failed":
        # Closed as gone: the copy is as it was then, whatever is still noted of the row beside it.
        assert (row["state"], row["acked_at"] is not None) == ("failed", True)  # I11
        return
    assert (row["state"], row["epoch"], row["owner"]) == (frame.state, frame.epoch, frame.owner)
    assert (row["runs"], row["infra_runs"], row["retries_left"]) == (frame.runs, frame.infra_runs, frame.retries_left)
    assert (row["generation"], row["idempotency_key"]) == (frame.generation, frame.key)
    assert row["is_in_window"] == frame.is_in_window
    assert (row["activated_ms"], row["output"]) == (frame.act, frame.output)
    assert (row["acked_at"] is not None) == frame.acked
    assert frame.state != "started" or row["is_live"] == frame.is_live
    assert frame.state != "failed" or row["is_due"] == frame.is_due
    assert len({key for generation, key in job.keys_used if generation == frame.generation}) <= 1  # I6
    if frame.state in ("started", "completed"):
        assert row["reported_at"] is None  # I7: nothing counts as told that this epoch did not tell
    else:
        assert (row["reported_at"] is not None) == (frame.reported is not None)
    if row["outcome"] == "complete":
        assert row["output_hash"] == sha256(row["output"]).digest()  # I8
    if frame.place != "hot":
        assert (row["state"], row["acked_at"] is not None) == ("completed", True)  # I11
    _check_history(job.key, row, memory)


def _check_history(key: int, row: Row, memory: Memory) -> None:
    if key in memory.told:
        assert (row["state"], row["output"]) == ("completed", memory.told[key])  # I5
    if row["state"] == "completed" or key in memory.final:
        names = ("state", "epoch", "outcome", "output", "output_hash", "flags", "error_code")
        verdict = tuple(row[name] for name in names)
        assert memory.final.setdefault(key, verdict) == verdict  # I2
    epoch, owner = memory.epochs.get(key, (0, row["owner"]))
    assert row["epoch"] > epoch or (row["epoch"], row["owner"]) == (epoch, owner)  # I3
    memory.epochs[key] = (row["epoch"], row["owner"])
