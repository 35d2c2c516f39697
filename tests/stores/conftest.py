"""Fixtures of this floor: a place with an instance, and the frames of two rival workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.support.frames import ENGINE, Place, opened
from verbworker.stores.frames import Frames


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


async def _working(place: Place) -> AsyncIterator[Frames]:
    frames = Frames(place.database, engine_id=ENGINE, owner=uuid4())
    # A fixture begins and ends in two different tasks, so a TaskGroup cannot hold its writers.
    writers = asyncio.create_task(frames.run())
    yield frames
    writers.cancel()
    with suppress(asyncio.CancelledError):
        await writers
