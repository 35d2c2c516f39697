"""The hub of the console: one change or a thousand are one word, and a reader that never reads stays small."""

import asyncio
import gc
import tracemalloc
from contextlib import ExitStack
from uuid import UUID

from verbworker.console.live_updates import GATES, RUNBOOK, LiveUpdates, PageReader
from verbworker.stores.database import Database

CHANGED = b"event: changed\ndata: \n\n"
ENTRY, OTHER = UUID(int=1), UUID(int=2)


def updates(most: int = 10) -> LiveUpdates:
    return LiveUpdates(Database("postgresql://nobody@127.0.0.1:1/none", size=1), most=most)


async def heard(reader: PageReader, count: int) -> list[bytes]:
    lines = reader.lines(breath=5)
    async with asyncio.timeout(5):
        return [await anext(lines) for _ in range(count)]


async def test_many_changes_before_a_reader_looks_are_one_word() -> None:
    console = updates()
    with console.reading(RUNBOOK, "ann") as reader:
        for _ in range(1000):
            console.tell(RUNBOOK)
        lines = await heard(reader, 2)
        console.tell(RUNBOOK)
        after = await heard(reader, 2)

    assert lines[1] == CHANGED
    assert after[1] == CHANGED


async def test_a_reader_hears_of_its_own_topic_alone() -> None:
    console = updates()
    with console.reading(ENTRY, "ann") as one, console.reading(OTHER, "ann") as other:
        console.tell(ENTRY, GATES)
        first = await heard(one, 2)
        lines = other.lines(breath=0.01)
        second = [await anext(lines) for _ in range(2)]

    assert (first[1], second[1]) == (CHANGED, b": still here\n\n")


async def test_a_status_that_changed_is_told_to_the_list_the_gates_and_the_entry() -> None:
    console = updates()
    with (
        console.reading(RUNBOOK, "ann") as one,
        console.reading(GATES, "ann") as two,
        console.reading(ENTRY, "ann") as three,
    ):
        console._hear(str(ENTRY))
        lines = [(await heard(reader, 2))[1] for reader in (one, two, three)]

    assert lines == [CHANGED] * 3


async def test_after_a_word_a_reader_rests_and_hears_once_of_all_that_came_meanwhile() -> None:
    console = updates()
    with console.reading(RUNBOOK, "ann") as reader:
        lines = reader.lines(breath=5, rest=0.05)
        console.tell(RUNBOOK)
        heard = [await anext(lines) for _ in range(2)]
        for _ in range(100):
            console.tell(RUNBOOK)
        heard.append(await anext(lines))
        quiet = reader.lines(breath=0.01)
        after = [await anext(quiet) for _ in range(2)]

    assert (heard[1:], after[1]) == ([CHANGED, CHANGED], b": still here\n\n")


async def test_the_end_does_not_wait_for_a_rest() -> None:
    console = updates()
    with console.reading(RUNBOOK, "ann") as reader:
        lines = reader.lines(breath=60, rest=60)
        console.tell(RUNBOOK)
        heard = [await anext(lines) for _ in range(2)]
        console.end()
        async with asyncio.timeout(5):
            rest = [line async for line in lines]

    assert (heard[1], rest) == (CHANGED, [])


async def test_the_end_ends_every_stream_and_begins_none() -> None:
    console = updates()
    with console.reading(RUNBOOK, "ann") as reader:
        console.end()
        lines = [line async for line in reader.lines(breath=5)]

    assert lines == [b"retry: 2000\n: hello\n\n"]
    assert console.is_full("ann")


async def test_a_stream_ends_by_itself_so_that_a_login_that_ended_is_noticed() -> None:
    reader = PageReader(RUNBOOK)
    lines = [line async for line in reader.lines(breath=0.01, life=0.02)]

    assert lines[0].startswith(b"retry:")
    assert set(lines[1:]) <= {b": still here\n\n"}


async def test_there_are_never_more_readers_than_allowed() -> None:
    console = updates(most=2)
    with console.reading(RUNBOOK, "ann"):
        one = console.is_full("bob")
        with console.reading(GATES, "bob"):
            two = console.is_full("eve")
        after = console.is_full("eve")

    assert (one, two, after) == (False, True, False)


async def test_one_login_cannot_use_up_the_streams_of_the_others() -> None:
    console = updates(most=9)
    with ExitStack() as stack:
        for _ in range(3):
            assert not console.is_full("ann")
            stack.enter_context(console.reading(RUNBOOK, "ann"))

        assert console.is_full("ann")
        assert not console.is_full("bob")
    assert not console.is_full("ann")


async def test_a_reader_that_does_not_read_does_not_grow() -> None:
    console = updates()
    with console.reading(RUNBOOK, "ann"):
        console.tell(RUNBOOK)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            console.tell(RUNBOOK)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()

    assert grown < 10_000
