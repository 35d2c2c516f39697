"""Fixtures of this floor: a place with an instance, the frames of two rival workers, the embedded engine twice,
a recorded cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.support.embedded import embedded
from tests.support.frames import ENGINE, Place, opened
from tests.support.recorded_search import RecordedCluster, recorded_cluster
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.stores.jobs.frames import Frames


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    """The embedded engine as this process has it open."""
    async with embedded(dsn) as engine:
        yield engine


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[EmbeddedEngine]:
    """The engine as another process has it open."""
    async with embedded(dsn) as engine:
        yield engine


@pytest.fixture
async def place(dsn: str) -> AsyncIterator[Place]:
    """A database with one opened instance."""
    async with opened(dsn) as place:
        yield place


@pytest.fixture
async def frames(place: Place) -> AsyncIterator[Frames]:
    """The frames as the worker under test writes them."""
    async for frames in _working(place):
        yield frames


@pytest.fixture
async def rival(place: Place) -> AsyncIterator[Frames]:
    """The frames as another worker writes them."""
    async for frames in _working(place):
        yield frames


@pytest.fixture
def cluster() -> Iterator[RecordedCluster]:
    """A cluster that answers over REST as a recorded one did."""
    with recorded_cluster() as cluster:
        yield cluster


async def _working(place: Place) -> AsyncIterator[Frames]:
    frames = Frames(place.database, engine_id=ENGINE, owner=uuid4())
    # A fixture begins and ends in two different tasks, so a TaskGroup cannot hold its writers.
    writers = asyncio.create_task(frames.run())
    yield frames
    writers.cancel()
    with suppress(asyncio.CancelledError):
        await writers
