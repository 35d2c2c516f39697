"""Which event catches a code: the engines do what the linter and the worker read from the model."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.engines import ENGINES, MARKS
from tests.support.error_models import ROWS, Row
from tests.support.scenario import Play
from tests.support.stages import Stage
from verbworker.errors import EngineUnavailable

CASES = [
    pytest.param(engine, row, marks=MARKS.get(engine, ()), id=f"{engine}-{row.name}")
    for engine in ENGINES
    for row in ROWS
    if engine.removesuffix("-rest") in row.on
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("engine", "row"), CASES)
async def test_an_engine_catches_a_code_where_the_table_says(
    engine: str, row: Row, stage_of: Callable[[str], Awaitable[Stage]]
) -> None:
    play = Play(await stage_of(engine), engine.removesuffix("-rest"))
    await play.deploy(row.drawing)
    await play.start(corr_key="k")
    if row.message:
        await play.sees("main")
        await play.publish(row.message)
    await play.sees("work", *row.beside)

    if row.is_event:
        with pytest.raises(EngineUnavailable, match="ThrowError"):
            await play.throw("work", row.code)
        return
    await play.throw("work", row.code)

    if row.by is not None:
        await play.lives(f"after_{row.by}")
    else:
        await play.stands("UNHANDLED_ERROR_EVENT")
