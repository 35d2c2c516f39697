"""Payloads of record that an older release left, and workers of one that still run."""

from hashlib import sha256

import pytest

from tests.support.frames import Place, claimed
from verbworker.stores import sql
from verbworker.stores.cases import payloads
from verbworker.stores.jobs.frames import Frames

_AS_BEFORE = """
DROP TRIGGER head_moves_on ON verbworker.payload_head;
DROP FUNCTION verbworker.check_head();
ALTER TABLE verbworker.payload_head DROP COLUMN seal, DROP COLUMN flags, DROP COLUMN unversioned_until;
ALTER TABLE verbworker.payload_version DROP COLUMN flags;
"""
_MOVE_AS_BEFORE = """
WITH head AS (
  UPDATE verbworker.payload_head SET version = version + 1, hash = sha256($2::bytea), content = $2
  WHERE instance_uid = $1 RETURNING instance_uid, hash, version
)
INSERT INTO verbworker.payload_version (instance_uid, hash, version) SELECT instance_uid, hash, version FROM head
"""


@pytest.mark.parametrize("is_archived", [False, True])
async def test_the_migration_finds_the_seal_of_each_open_case(place: Place, frames: Frames, is_archived: bool) -> None:
    verdict = place.verdict(await claimed(frames, place.delivery()))
    await frames.pop_completed(verdict)
    await place.database.execute("SELECT verbworker.ensure_archive_month(now())")
    if is_archived:
        columns = await place.database.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'verbworker.job_frame'::regclass AND attnum > 0"
            " AND NOT attisdropped"
        )
        names = ", ".join(row["attname"] for row in columns if row["attname"] != "acked_at")
        await place.database.execute(
            f"INSERT INTO verbworker.job_frame_archive (archived_at, acked_at, {names})"
            f" SELECT now(), now(), {names} FROM verbworker.job_frame"
        )
        await place.database.execute("DELETE FROM verbworker.job_frame")
    migration = next(text for name, text in sql.migrations() if name.endswith("payload_of_record"))
    async with place.database.transaction() as connection:
        await connection.execute(_AS_BEFORE)
        await connection.execute(migration)

    async with place.database.transaction() as connection:
        head = await payloads.hold_head(connection, place.instance.instance_uid)

    assert (head.version, head.seal, head.unversioned_until, head.flags) == (1, verdict.seal, 1, None)


async def test_a_worker_of_an_older_release_moves_the_head_without_its_seal_and_flags(place: Place) -> None:
    uid = place.instance.instance_uid
    async with place.database.transaction() as connection:
        first = await payloads.head_in(connection, uid)
        await connection.execute(
            "UPDATE verbworker.payload_head SET seal = 'sha256:' || encode(hash, 'hex'), flags = '{\"orch_a\": true}'"
            " WHERE instance_uid = $1",
            uid,
        )
    await place.database.execute(_MOVE_AS_BEFORE, uid, b'{"step":1}')

    head = await payloads.head(place.database, uid)

    assert (head.hash, head.version) == (sha256(b'{"step":1}').digest(), first.version + 1)
    assert (head.seal, head.flags, head.unversioned_until) == (None, None, head.version)
