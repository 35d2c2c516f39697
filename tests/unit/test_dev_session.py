"""A dev session that cannot go on ends with one error, however deep its tasks wrap it."""

import asyncio

import pytest

from verbworker.app.output import run
from verbworker.dev.dev_session import unless
from verbworker.errors import CannotRun


def test_an_error_inside_nested_groups_reaches_the_command_alone() -> None:
    async def work() -> int:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [CannotRun("there is no Postgres")])])

    async def session() -> int | None:
        return await unless(asyncio.Event(), work)

    with pytest.raises(CannotRun, match="there is no Postgres"):
        run(session())
