"""The client in a program: starts, reads, follows, decides, sends and cancels, beside a worker or without one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

import verbworker
from tests.support.databases import unreachable_database, value
from tests.support.embedded_service import LETTER, TENANT, VERB, Case, Steps, Workshop, workshop
from verbworker import Client, Registry, SyncClient
from verbworker.app.settings import Settings
from verbworker.client.incident_records import IncidentRecord
from verbworker.client.records import EntryRecord, EventRecord, GateRecord, WaitRecord
from verbworker.errors import (
    CannotRun,
    ContractInvalid,
    EntryFailed,
    EntryNotEnded,
    InvocationInvalid,
    MessageInvalid,
    NotFound,
    Refused,
    RequestConflict,
    StoreUnavailable,
)
from verbworker.runbook.event import Entry, Event, OpenToken
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.overview import Trouble


def settings_of(dsn: str, **more: Any) -> Settings:
    return Settings.model_validate({"dsn": dsn, "engine": "embedded", "tenant": TENANT, **more})


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Client]:
    async with Client(settings_of(dsn), Steps().registry(), by="ann") as client:
        yield client


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Workshop]:
    async with workshop(dsn) as shop:
        yield shop


async def test_a_case_shows_where_it_stands_in_its_model(shop: Workshop, client: Client) -> None:
    async with shop.working():
        entry = await client.start(VERB, {"name": "one"})
        await shop.waits(entry.entry_id, at="letter")
        (position,) = await entry.positions()

    assert (position.message_name, position.correlation_key) == (LETTER, "one")
    assert position.since is not None
    assert abs(datetime.now(UTC) - position.since) < timedelta(minutes=2)
    assert position.type in ("RECEIVE_TASK", "INTERMEDIATE_CATCH_EVENT")


async def test_a_start_for_an_engine_of_another_name_is_refused(shop: Workshop, dsn: str) -> None:
    async with Client(settings_of(dsn, engine_id="typo"), Steps().registry(), by="ann") as client:
        with pytest.raises(CannotRun, match=r"the engine in this database is called .* and not 'typo'"):
            await client.start(VERB, {"name": "one"})

    assert await shop.database.fetch("SELECT 1 FROM verbworker.runbook_entry") == []


@pytest.mark.req("ADP-10", "JOB-17")
async def test_a_case_is_started_followed_decided_and_awaited(shop: Workshop, client: Client) -> None:
    async with shop.working():
        entry = await client.start(VERB, {"name": "one"}, request_key="r-1")
        following = asyncio.create_task(gather(entry.events()))
        await shop.waits(entry.entry_id, at="letter")
        receipt = await client.send(LETTER, "one", {}, message_id="m-1")
        again = await client.send(LETTER, "one", {}, message_id="m-1")
        await shop.waits(entry.entry_id, at="review")
        waiting = await entry.read()
        (gate,) = (await client.gates(entry_id=entry.entry_id)).gates
        decided = await entry.decide("yes", reason="seen", by="bob")
        outcome = await entry.result(timeout=60)
        told = await following

    assert outcome == {"first": 1, "second": "done"}
    assert (receipt.is_new, again.is_new) == (True, False)
    assert [wait.gate for wait in waiting.waits] == ["Update_review"]
    assert (gate.token_id, decided.verdict and decided.verdict.by) == (decided.token_id, "bob")
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert [told[0].sentence, told[-1].sentence] == ["Started", "Completed"]
    assert (await entry.read()).status == "completed"


async def gather(events: AsyncIterator[EventRecord]) -> list[EventRecord]:
    return [event async for event in events]


async def test_a_start_needs_no_worker_and_a_repeated_key_starts_nothing(client: Client) -> None:
    entries = [await client.start(VERB, {"name": "one"}, request_key="r-1") for _ in range(2)]
    other = await client.start(f'({VERB} :name "one")')

    assert entries[0].entry_id == entries[1].entry_id != other.entry_id
    found = await entries[0].read()
    assert (found.asked_by, found.request_key, found.status) == ("ann", "r-1", "executing")
    with pytest.raises(RequestConflict, match="r-1"):
        await client.start(VERB, {"name": "two"}, request_key="r-1")
    with pytest.raises(EntryNotEnded, match=r"within 0\.1 seconds"):
        await other.result(timeout=0.1)


@pytest.mark.req("ADP-10")
async def test_a_direct_verb_has_ended_on_return(dsn: str) -> None:
    verbs = Registry()

    @verbs.verb("shop.greet", mode="external", writes=("second",))
    async def greet(case: Case) -> Case:
        """Greet."""
        return case.model_copy(update={"second": f"hello {case.name}"})

    async with Client(settings_of(dsn), verbs) as own:
        entry = await own.start("shop.greet", {"name": "one"})

        assert await entry.result(timeout=0) == {"name": "one", "first": 0, "second": "hello one"}


@pytest.mark.parametrize(
    ("verb", "args", "words"),
    [
        ("shop.cas", {"name": "x"}, "did you mean shop.case?"),
        (VERB, {}, "name"),
        (VERB, None, "name"),
        (VERB, {"name": "x", "more": 1}, "more"),
        (VERB, {"name": float("nan")}, "name"),
        (VERB, {"name": "a\x00b"}, "cannot be kept"),
        ("(", None, "character"),
        (VERB, "name", "a mapping of its arguments, not by str and str"),
        (5, {}, "not by int and dict"),
    ],
)
async def test_what_cannot_be_started_leaves_nothing(
    client: Client, verb: str, args: dict[str, Any] | None, words: str
) -> None:
    with pytest.raises(InvocationInvalid, match=words):
        await client.start(verb, args)

    assert (await client.entries()).entries == ()


async def test_who_waits_for_the_end_outlasts_a_database_that_is_away(dsn: str, client: Client) -> None:
    entry = await client.start(VERB, {"name": "one"})
    async with unreachable_database(dsn):
        waiting = asyncio.create_task(entry.result(timeout=600))
        with pytest.raises(StoreUnavailable):
            await entry.read()
        await asyncio.sleep(0.5)
        still_waiting = not waiting.done()
        with pytest.raises(StoreUnavailable):
            await entry.wait(timeout=0.1)
    await entry.cancel("a mistake")

    assert still_waiting
    with pytest.raises(EntryFailed, match="ended as cancelled"):
        await waiting


async def test_what_fails_is_told_by_its_class_and_code(client: Client) -> None:
    entry = await client.start(VERB, {"name": "one"})
    cancelled = await entry.cancel("a mistake", by="bob")

    with pytest.raises(EntryFailed, match="ended as cancelled") as failed:
        await entry.result(timeout=5)
    assert (cancelled.status, failed.value.status, failed.value.code) == ("cancelled", "cancelled", None)
    assert [event.kind for event in await entry.history()] == ["CancelRequested", "Cancelled"]
    assert [event.seq async for event in entry.events(after=2)] == []
    with pytest.raises(RequestConflict, match="asked for by bob"):
        await client.cancel(entry.entry_id, "another reason")


async def test_pages_follow_each_other_and_filters_narrow(client: Client) -> None:
    made = [(await client.start(VERB, {"name": f"case-{n}"})).entry_id for n in range(5)]
    await client.cancel(made[0], "not needed")
    first = await client.entries(limit=2)
    second = await client.entries(limit=2, cursor=first.next)
    third = await client.entries(limit=2, cursor=second.next)

    assert [one.entry_id for page in (first, second, third) for one in page.entries] == made[::-1]
    assert third.next is None
    assert [one.entry_id for one in (await client.entries(status="cancelled")).entries] == [made[0]]
    assert [one.entry_id for one in (await client.entries(entry_id=str(made[3]))).entries] == [made[3]]
    assert (await client.entries(verb="shop.other")).entries == ()
    assert (await client.entries(text="nothing like it")).entries == ()
    assert (await client.entries(stuck_for=timedelta(hours=1))).entries == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        {"cursor": "x"},
        {"cursor": f"2026-11-16T12:30:00~{UUID(int=7)}"},
        {"cursor": "2026-11-16T12:30:00Z~x"},
        {"limit": 0},
        {"limit": 20_001},
        {"stuck_for": timedelta(1), "verb": VERB},
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvocationInvalid):
        await client.entries(**wrong)


async def test_another_tenant_sees_and_does_nothing(client: Client) -> None:
    entry = await client.start(VERB, {"name": "one"})
    others = client.act_for("eve", tenant="others")

    assert (others.by, others.tenant) == ("eve", "others")
    assert (await others.entries()).entries == ()
    for ask in (others.entry(entry.entry_id), others.cancel(entry.entry_id, "x"), others.decide(entry.entry_id, "yes")):
        with pytest.raises(NotFound):
            await ask
    with pytest.raises(InvocationInvalid, match="acts for others"):
        await others.deliver(
            verbworker.Message(message_name="m", message_id="1", correlation_key="k", tenant_id=TENANT)
        )


async def test_what_does_not_exist_is_said(client: Client) -> None:
    for ask in (client.entry(uuid4()), client.gate(uuid4()), client.cancel(uuid4(), "y")):
        with pytest.raises(NotFound):
            await ask
    for ask in (client.entry("seven"), client.gate("x"), client.cancel("x", "y")):
        with pytest.raises(Refused, match="not an id"):
            await ask
    with pytest.raises(MessageInvalid):
        await client.send("", "key")
    assert (await client.incidents()).incidents == ()


async def test_a_client_that_is_not_open_or_has_no_registry_says_what_to_do(dsn: str, client: Client) -> None:
    with pytest.raises(CannotRun, match="async with"):
        await Client(settings_of(dsn)).entries()
    with pytest.raises(CannotRun, match="open already"):
        await client.__aenter__()
    async with Client(settings_of(dsn)) as without:
        assert (await without.entries()).entries == ()
        with pytest.raises(CannotRun, match="pass your registry"):
            await without.start(VERB, {})


async def test_settings_come_from_the_environment(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_DSN", dsn)
    monkeypatch.setenv("VERBWORKER_ENGINE", "embedded")
    async with Client.from_environment(Steps().registry(), by="ann", tenant="acme") as client:
        entry = await client.start(VERB, {"name": "one"})

        assert (await entry.read()).tenant_id == "acme"
    with pytest.raises(StoreUnavailable):
        async with Client.from_environment(dsn="postgresql://nobody@127.0.0.1:1/none"):
            pass


def test_without_a_database_a_program_is_told_what_it_can_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VERBWORKER_DSN", raising=False)

    with pytest.raises(ContractInvalid) as missing:
        Client.from_environment()

    words = 'no database is set; set VERBWORKER_DSN or pass Client.from_environment(dsn="postgresql://...")'
    assert str(missing.value) == words


async def test_a_message_that_no_process_takes_is_stored_and_not_refused(dsn: str, client: Client) -> None:
    receipt = await client.send("nobody", "x", message_id="m-1")

    assert (receipt.message_id, receipt.is_new) == ("m-1", True)
    assert await value(dsn, "SELECT message_name FROM verbworker.inbox_message") == "nobody"


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (EntryRecord, Entry),
        (EventRecord, Event),
        (GateRecord, HumanGate),
        (WaitRecord, OpenToken),
        (IncidentRecord, Trouble),
    ],
)
def test_a_record_holds_everything_that_is_stored(record: Any, kept: Any) -> None:
    assert {field.name for field in fields(kept)} <= set(record.model_fields)


# ---- the wrapper -----------------------------------------------------------------------------------------------------


@pytest.fixture
def blocking(dsn: str) -> Iterator[SyncClient]:
    with SyncClient(Client(settings_of(dsn), Steps().registry(), by="ann")) as client:
        yield client


def test_several_threads_share_one_blocking_client(blocking: SyncClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        entries = list(threads.map(lambda n: blocking.start(VERB, {"name": f"case-{n}"}), range(16)))

    page = blocking.entries(limit=100)
    assert {one.entry_id for one in page.entries} == {entry.entry_id for entry in entries}
    cancelled = blocking.act_for("bob").entry(entries[0].entry_id).cancel("a mistake")
    assert (cancelled.status, len(blocking.gates().gates), blocking.incidents().incidents) == ("cancelled", 0, ())
    assert [event.kind for event in entries[0].events()] == ["CancelRequested", "Cancelled"]
    with pytest.raises(EntryNotEnded):
        entries[1].result(timeout=0)
    with pytest.raises(NotFound):
        blocking.entry(uuid4())


async def test_a_blocking_client_works_beside_a_loop(blocking: SyncClient) -> None:
    entry = blocking.start(VERB, {"name": "one"})

    assert (await asyncio.to_thread(entry.read)).status == "executing"


def test_closing_ends_the_thread_and_what_waits(dsn: str) -> None:
    client = SyncClient(Client(settings_of(dsn), Steps().registry())).open()
    entry = client.start(VERB, {"name": "one"})
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            entry.result()
        except CannotRun as error:
            failed.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    entry.read()  # answered after the waiter's first statement was sent, or before: both must end
    client.close()
    waiter.join(10)

    assert not waiter.is_alive()
    assert "closed during the call" in str(failed[0]) or "not open" in str(failed[0])
    assert not [thread for thread in threading.enumerate() if thread.name == "verbworker-client"]
    for ask in (client.entries, entry.read):
        with pytest.raises(CannotRun, match="not open"):
            ask()
    client.close()


def test_a_database_that_is_away_is_said_when_the_client_is_opened() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        SyncClient.from_environment(dsn="postgresql://nobody@127.0.0.1:1/none", engine_id="e").open()


def test_the_wrapper_has_every_method_of_the_client() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(Client) - {"resources"} <= names(SyncClient) | {"tenant", "by"}
    assert names(verbworker.EntryHandle) <= names(verbworker.SyncEntryHandle)
