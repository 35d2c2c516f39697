"""The batch: what waits anyway shares a statement, and nobody waits for ever or for a neighbour's mistake."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from verbworker.errors import StoreConflict, StoreError, StoreUnavailable
from verbworker.stores.batch import Batch

Item = tuple[str, int]


class Table:
    """Takes batches as a database would: one at a time, at its own pace, refusing what is bad."""

    def __init__(self) -> None:
        self.written: list[list[Item]] = []
        self.errors: list[Exception | None] = []
        self.bad: set[Item] = set()
        self.poison: set[Item] = set()
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.stuck_at = 0
        self.stuck = asyncio.Event()

    async def write(self, items: list[Item]) -> list[str]:
        self.written.append(items)
        self.began.set()
        await self.open.wait()
        if len(self.written) == self.stuck_at:
            self.stuck.set()
            await asyncio.Event().wait()
        if self.errors and (error := self.errors.pop(0)):
            raise error
        if self.bad & set(items):
            raise StoreError("a bad row")
        if self.poison & set(items):
            raise LookupError("a bug")
        return [f"{key}{number}" for key, number in items]

    @property
    def sizes(self) -> list[int]:
        return [len(items) for items in self.written]


@asynccontextmanager
async def running(table: Table, *, size: int = 64) -> AsyncIterator[tuple[Batch[Item, str], asyncio.Task[None]]]:
    batch = Batch(table.write, lambda item: item[0], size=size)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        writer = group.create_task(batch.run())
        try:
            yield batch, writer
        finally:
            writer.cancel()


async def answers(batch: Batch[Item, str], *items: Item) -> list[str | BaseException]:
    return await asyncio.gather(*(batch.add(item) for item in items), return_exceptions=True)


async def held_up(table: Table, batch: Batch[Item, str], group: asyncio.TaskGroup) -> asyncio.Task[str]:
    """Let one statement be under way until the table opens."""
    table.open.clear()
    first = group.create_task(batch.add(("first", 0)))
    await table.began.wait()
    return first


async def queued(batch: Batch[Item, str], count: int) -> None:
    while True:
        if len(batch._waiting) >= count:
            return
        await asyncio.sleep(0)


async def test_an_item_alone_goes_out_at_once() -> None:
    table = Table()
    async with running(table) as (batch, _):
        assert await batch.add(("a", 1)) == "a1"

    assert table.sizes == [1]


async def test_what_queued_up_behind_a_statement_shares_the_next() -> None:
    table = Table()
    async with running(table) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        rest = [group.create_task(batch.add((key, 1))) for key in "abcde"]
        await queued(batch, 5)
        table.open.set()

    assert [task.result() for task in rest] == ["a1", "b1", "c1", "d1", "e1"]
    assert table.sizes == [1, 5]


async def test_a_statement_takes_no_more_than_its_size() -> None:
    table = Table()
    async with running(table, size=2) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        for key in "abcde":
            group.create_task(batch.add((key, 1)))
        await queued(batch, 5)
        table.open.set()

    assert table.sizes == [1, 2, 2, 1]


async def test_items_of_one_key_never_share_a_statement_and_keep_their_order() -> None:
    table = Table()
    async with running(table) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        for item in (("a", 1), ("a", 2), ("b", 1), ("a", 3)):
            group.create_task(batch.add(item))
        await queued(batch, 4)
        table.open.set()

    assert table.written[1:] == [[("a", 1), ("b", 1)], [("a", 2)], [("a", 3)]]


async def test_a_bad_row_does_not_fail_its_neighbours() -> None:
    table = Table()
    table.bad = {("b", 1)}
    async with running(table) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        rest = group.create_task(answers(batch, ("a", 1), ("b", 1), ("c", 1)))
        await queued(batch, 3)
        table.open.set()
        good, bad, last = await rest

    assert (good, last) == ("a1", "c1")
    assert isinstance(bad, StoreError)
    assert not isinstance(bad, StoreUnavailable)


async def test_a_bad_row_alone_is_written_once() -> None:
    table = Table()
    table.bad = {("a", 1)}
    async with running(table) as (batch, _):
        (bad,) = await answers(batch, ("a", 1))

    assert isinstance(bad, StoreError)
    assert table.sizes == [1]


async def test_a_lost_connection_fails_everybody_and_the_next_statement_goes_on() -> None:
    table = Table()
    async with running(table) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        lost = group.create_task(answers(batch, ("a", 1), ("b", 1)))
        await queued(batch, 2)
        table.open.set()
        table.errors = [None, StoreUnavailable("gone")]
        told = await lost

        assert [type(one) for one in told] == [StoreUnavailable] * 2
        assert await batch.add(("c", 1)) == "c1"


async def test_a_collision_is_tried_once_more() -> None:
    table = Table()
    table.errors = [StoreConflict("deadlock")]
    async with running(table) as (batch, _):
        assert await batch.add(("a", 1)) == "a1"


async def test_a_collision_that_goes_on_is_told() -> None:
    table = Table()
    table.errors = [StoreConflict("deadlock"), StoreConflict("deadlock")]
    async with running(table) as (batch, _):
        (told,) = await answers(batch, ("a", 1))

    assert isinstance(told, StoreConflict)


async def test_an_item_nobody_waits_for_any_more_is_not_written() -> None:
    table = Table()
    async with running(table) as (batch, _), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        leaver = group.create_task(batch.add(("a", 1)))
        stayer = group.create_task(batch.add(("b", 1)))
        await queued(batch, 2)
        leaver.cancel()
        await asyncio.wait([leaver])
        table.open.set()
        await stayer

    assert table.written[1:] == [[("b", 1)]]


async def test_stopping_tells_who_is_being_written_and_who_waits() -> None:
    table = Table()
    async with running(table) as (batch, writer), asyncio.TaskGroup() as group:
        table.open.clear()
        everybody = group.create_task(answers(batch, ("a", 1), ("a", 2)))
        await table.began.wait()
        writer.cancel()
        told = await everybody

    # What was under way may have happened, so both are told the same: look before you repeat.
    assert [type(one) for one in told] == [StoreUnavailable] * 2


async def test_stopping_while_rows_are_tried_alone_leaves_nobody_waiting() -> None:
    table = Table()
    table.bad = {("a", 1)}
    async with running(table) as (batch, writer), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        everybody = group.create_task(answers(batch, ("a", 1), ("b", 1), ("c", 1)))
        await queued(batch, 3)
        table.stuck_at = 4  # the first statement, the batch, its first row alone, its second row alone
        table.open.set()
        await table.stuck.wait()
        writer.cancel()
        told = await everybody

    assert [type(one).__name__ for one in told] == ["StoreError", "StoreUnavailable", "StoreUnavailable"]


async def test_after_stopping_nothing_is_taken() -> None:
    table = Table()
    async with running(table) as (batch, writer):
        await batch.add(("a", 1))
        writer.cancel()
        await asyncio.wait([writer])

        with pytest.raises(StoreUnavailable, match="stopped"):
            await batch.add(("b", 1))


async def test_what_is_added_before_the_writer_runs_is_written_when_it_does() -> None:
    table = Table()
    batch = Batch(table.write, lambda item: item[0])
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        early = group.create_task(batch.add(("a", 1)))
        await queued(batch, 1)
        writer = group.create_task(batch.run())
        assert await early == "a1"
        writer.cancel()


async def test_a_bug_with_one_row_is_reported_and_stops_neither_its_neighbours_nor_the_writer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Table()
    table.poison = {("b", 1)}
    async with running(table) as (batch, writer), asyncio.TaskGroup() as group:
        await held_up(table, batch, group)
        rest = group.create_task(answers(batch, ("a", 1), ("b", 1), ("c", 1)))
        await queued(batch, 3)
        table.open.set()
        good, bad, last = await rest
        is_writing = not writer.done()

    assert (good, last, is_writing) == ("a1", "c1", True)
    # Whether it was written is unknown: who asked looks before it repeats anything.
    assert isinstance(bad, StoreUnavailable)
    assert [record.getMessage() for record in caplog.records] == ["item skipped because of a bug"]


async def test_a_lost_connection_is_reported_as_the_service_waiting(caplog: pytest.LogCaptureFixture) -> None:
    table = Table()
    table.errors = [StoreUnavailable("gone")]
    async with running(table) as (batch, _):
        await answers(batch, ("a", 1))
        assert await batch.add(("b", 1)) == "b1"

    assert [record.getMessage() for record in caplog.records] == ["service is waiting"]
