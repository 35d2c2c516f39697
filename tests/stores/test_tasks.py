"""The lists of tasks: who sees which, in which order, page by page, and what a due date may look like."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.support.entries import StoredEntry
from verbworker.contract.person import Person
from verbworker.runbook.event import Wait
from verbworker.stores.cases.tasks import ListedTask, TaskFilter, TaskList, TaskOrder, TaskView
from verbworker.stores.database import Database
from verbworker.work.gates.decide import Gates

ANN = Person("ann", frozenset({"clerk"}))
_elements = itertools.count(1)


async def park(database: Database, sentence: str = "Handle", *, gate: str = "review", **detail: Any) -> UUID:
    book = await StoredEntry.open(database, sentence=sentence)
    element = next(_elements)
    await book.start(element)
    token = book.token(element, Wait.HUMAN_GATE, gate=gate, instance_key=element, job_key=element, detail=detail)
    await book.park(token)
    (found,) = await Gates(database).list("default", entry_id=book.entry_id)
    return found.token_id


async def names(database: Database, person: Person = ANN, **wanted: Any) -> list[str | None]:
    roles = None if person.roles is None else sorted(person.roles)
    found = await TaskList(database).page("default", person, roles, TaskFilter(**wanted), limit=100)
    return [task.sentence for task in found]


async def test_my_tasks_are_those_i_claimed_and_those_free_for_my_roles(dsn: str) -> None:
    async with Database(dsn, size=2) as database:
        await park(database, "for clerks", audience=["lead", "clerk"])
        await park(database, "for one role as text", audience="clerk")
        await park(database, "for anyone")
        await park(database, "for leads", audience=["lead"])
        bobs, own = await park(database, "bob's"), await park(database, "mine", audience=["lead"])
        gates = Gates(database)
        await gates.claim(bobs, "bob", "default")
        await gates.claim(own, "ann", "default")
        counts = await TaskList(database).counts("default", ANN, ["clerk"])
        seen = {view: await names(database, view=view) for view in TaskView}
        without_roles = await names(database, Person("cleo"))
        stranger = await TaskList(database).page("other", ANN, None, TaskFilter(view=TaskView.ALL), limit=9)

    assert seen[TaskView.MINE] == ["mine", "for clerks", "for one role as text", "for anyone"]
    assert seen[TaskView.CLAIMED] == ["mine"]
    assert len(seen[TaskView.ALL]) == 6
    assert counts == {view: len(seen[view]) for view in TaskView}
    assert without_roles == ["for clerks", "for one role as text", "for anyone", "for leads"]
    assert stranger == []


async def test_a_namesake_with_another_identity_has_tasks_of_their_own(dsn: str) -> None:
    one, two = (Person("ann", None, "issuer", subject) for subject in ("1", "2"))
    async with Database(dsn, size=2) as database:
        await Gates(database).claim(await park(database, "hers"), one, "default")

        assert await names(database, one, view=TaskView.CLAIMED) == ["hers"]
        assert await names(database, two, view=TaskView.CLAIMED) == []


ORDERS = {
    TaskOrder.DUE: ["soon", "urgent", "far", "never"],
    TaskOrder.PRIORITY: ["urgent", "soon", "never", "far"],
    TaskOrder.OLDEST: ["never", "far", "soon", "urgent"],
    TaskOrder.NEWEST: ["urgent", "soon", "far", "never"],
}


@pytest.mark.parametrize("order", TaskOrder)
async def test_each_order_is_read_page_by_page_without_a_gap(dsn: str, order: TaskOrder) -> None:
    async with Database(dsn, size=2) as database:
        await park(database, "never", priority="50")
        await park(database, "far", due="2040-01-31T12:00Z", priority="1")
        await park(database, "soon", due="2030-01-31T12:00:00+01:00[Europe/Berlin]", priority="70")
        await park(database, "urgent", due="2030-02-01", priority="90")
        tasks, wanted = TaskList(database), TaskFilter(order=order)
        pages: list[ListedTask] = []
        while True:
            after = pages[-1].key if pages else None
            page = await tasks.page("default", ANN, ["clerk"], wanted, after=after, limit=1)
            if not page:
                break
            pages += page

    assert [task.sentence for task in pages] == ORDERS[order]


@pytest.mark.parametrize(
    ("due", "at"),
    [
        ("2030-01-31T12:00Z", datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("2030-01-31T12:00:30.5+02:00", datetime(2030, 1, 31, 10, 0, 30, 500000, tzinfo=UTC)),
        ("2030-01-31T12:00:00", datetime(2030, 1, 31, 12, tzinfo=UTC)),
        ("2030-13-31T12:00Z", None),
        ("2030-01-31T25:00Z", None),
        ("infinity", None),
        ("now", None),
        ("soon'; DROP TABLE verbworker.parked_token; --", None),
        (["2030-01-31"], None),
        (20300131, None),
    ],
)
async def test_a_due_date_that_is_no_moment_counts_as_none(dsn: str, due: Any, at: datetime | None) -> None:
    async with Database(dsn, size=2) as database:
        await park(database, due=due, priority="much")
        (task,) = await TaskList(database).page("default", ANN, None, TaskFilter(), limit=2)

    assert (task.task_due, task.priority) == (at, 50)


async def test_the_filters_narrow_a_list(dsn: str) -> None:
    async with Database(dsn, size=2) as database:
        await park(database, "Claim 100% of_it")
        await park(database, "Other", gate="approval")
        today = datetime.now(UTC)
        tomorrow, yesterday = today + timedelta(days=1), today - timedelta(days=1)
        found = [
            await names(database, text="100% OF_"),
            await names(database, text="100x"),
            await names(database, gate="approval"),
            await names(database, since=tomorrow),
            await names(database, until=yesterday),
            await names(database, since=yesterday, until=tomorrow),
        ]
        gates = await TaskList(database).gates("default")

    assert found == [["Claim 100% of_it"], [], ["Other"], [], [], ["Claim 100% of_it", "Other"]]
    assert gates == ["approval", "review"]
