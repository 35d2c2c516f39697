"""A worker process that only claims: `python -m tests.support.claimer DSN UID AT COUNT` prints what it won."""

import asyncio
import random
import sys
from dataclasses import replace
from uuid import UUID

from tests.support.frames import make_delivery, make_instance, make_job, working
from verbworker.stores.database import Database


async def claim(dsn: str, uid: str, at: int, count: int) -> list[int]:
    """Push every job once, all at the same time and in an order of our own."""
    instance = replace(make_instance(), instance_uid=UUID(uid))
    keys = list(range(1, count + 1))
    random.shuffle(keys)
    async with Database(dsn, size=2) as database, working(database) as frames:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        claims = await asyncio.gather(*(frames.push(make_delivery(make_job(key, at=at), instance)) for key in keys))
    return [claim.job_key for claim in claims if claim is not None]


if __name__ == "__main__":
    print(*asyncio.run(claim(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))), flush=True)
