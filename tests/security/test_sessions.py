"""A session of the console ends when its person logs out, its key is gone, or its time is over, and stays ended."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.support.console_server import ConsoleServer, key_file
from tests.support.databases import plain
from tests.support.site import KEYS
from verbworker.stores.database import Database
from verbworker.stores.retention import RetiredRows

pytestmark = pytest.mark.attack("auth")

ENDED = 20.0  # seconds in which a stream must have ended; it takes about one


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.json"
    key_file(path, ["ann", "bob"])
    return path


@pytest.fixture
async def console(dsn: str, keys: Path) -> AsyncIterator[ConsoleServer]:
    server = ConsoleServer(dsn, keys)
    async with server.serving():
        yield server


def thief(server: ConsoleServer, browser: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return another browser with a copy of the cookies."""
    other = server.browser()
    other.cookies.update(browser.cookies)
    return other


def _shown(cookie: str) -> str:
    """Return what the holder of a cookie can read in it."""
    body = cookie.partition(".")[0]
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()


@asynccontextmanager
async def stream(browser: httpx.AsyncClient) -> AsyncIterator[asyncio.Task[None]]:
    """An open stream of events; the task ends with it."""

    async def read(answer: httpx.Response) -> None:
        async for _ in answer.aiter_bytes():
            pass

    async with browser.stream("GET", "/events?topic=runbook", headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200
        task = asyncio.create_task(read(answer))
        try:
            yield task
        finally:
            task.cancel()


async def test_a_copied_cookie_is_worth_nothing_after_the_logout(console: ConsoleServer) -> None:
    async with console.browser() as ann:
        await console.log_in(ann)
        async with thief(console, ann) as copy:
            before = await copy.get("/gates")
            await console.log_out(ann)
            after = await copy.get("/gates")
            form = await copy.post("/logout", data={"csrf": "x"})

    assert (before.status_code, after.status_code) == (200, 303)
    assert after.headers["location"].startswith("/login")
    assert form.status_code == 303


async def test_a_logout_ends_this_session_and_its_streams_and_no_other(console: ConsoleServer) -> None:
    async with console.browser() as desk, console.browser() as phone:
        await console.log_in(desk)
        await console.log_in(phone)
        async with thief(console, desk) as copy, stream(copy) as stolen, stream(phone) as own:
            await console.log_out(desk)
            await asyncio.wait_for(stolen, ENDED)
            other = await phone.get("/gates")
            is_open = not own.done()

    assert other.status_code == 200
    assert is_open


async def test_a_removed_key_ends_its_sessions_and_streams_at_once_without_a_restart(
    console: ConsoleServer, keys: Path
) -> None:
    async with console.browser() as ann, console.browser() as bob:
        await console.log_in(ann)
        await console.log_in(bob, "bob")
        async with stream(ann) as own, stream(bob) as other:
            key_file(keys, ["bob"])
            page = await ann.get("/gates")
            await asyncio.wait_for(own, ENDED)
            kept = await bob.get("/gates")
            is_open = not other.done()
        again = await ann.post("/login", data={"key": KEYS["ann"], "next": "/"})
        program = await ann.post(
            "/api/gates/00000000-0000-0000-0000-000000000001/review",
            json={"decision": "approve"},
            headers={"X-Api-Key": KEYS["ann"]},
        )
        key_file(keys, ["ann", "bob"])
        late = await ann.get("/gates")

    assert (page.status_code, kept.status_code, is_open) == (303, 200, True)
    assert (again.status_code, program.status_code) == (401, 401)
    assert late.status_code == 303  # a key that comes back does not bring its old sessions back


async def test_a_removed_key_ends_its_sessions_across_a_restart_too(dsn: str, keys: Path) -> None:
    server = ConsoleServer(dsn, keys)
    async with server.browser() as ann, server.browser() as bob:
        async with server.serving():
            await server.log_in(ann)
            await server.log_in(bob, "bob")
        key_file(keys, ["bob"])
        async with server.serving():
            gone, kept = await ann.get("/gates"), await bob.get("/gates")

    assert (gone.status_code, kept.status_code) == (303, 200)


@pytest.mark.parametrize("roles", [["reader"], [], ["reviewer", "lead"], None], ids=str)
async def test_other_roles_of_a_key_end_its_sessions_and_no_other(
    console: ConsoleServer, keys: Path, roles: list[str] | None
) -> None:
    key_file(keys, ["ann", "bob"], ann=["reviewer"], bob=["lead", "reviewer"])
    async with console.browser() as ann, console.browser() as bob:
        await console.log_in(ann)
        await console.log_in(bob, "bob")
        before = await ann.get("/gates")
        key_file(keys, ["ann", "bob"], **({} if roles is None else {"ann": roles}), bob=["reviewer", "lead"])
        after, kept = await ann.get("/gates"), await bob.get("/gates")

    assert (before.status_code, after.status_code, kept.status_code) == (200, 303, 200)


async def test_the_roles_of_a_session_are_on_the_server_and_survive_a_restart(dsn: str, keys: Path) -> None:
    key_file(keys, ["ann", "bob"], ann=["reader"])
    server = ConsoleServer(dsn, keys)
    place = "/gates/00000000-0000-0000-0000-000000000001/claim"
    async with server.browser() as ann, server.browser() as bob:
        async with server.serving():
            await server.log_in(ann)
            await server.log_in(bob, "bob")
        async with server.serving():
            answers = [await one.post(place, data={"csrf": await server.token(one)}) for one in (ann, bob)]
    cookie = next(iter(ann.cookies.jar)).value or ""

    assert [answer.status_code for answer in answers] == [403, 404]
    assert "may only look" in answers[0].text
    assert "reader" not in _shown(cookie)


@pytest.mark.parametrize("words", ["", "{", '{"api_keys": [{"name": "ann"}]}'])
async def test_a_file_of_credentials_that_cannot_be_read_changes_nothing(
    console: ConsoleServer, keys: Path, words: str
) -> None:
    async with console.browser() as ann:
        await console.log_in(ann)
        await asyncio.to_thread(keys.write_text, words)
        page = await ann.get("/gates")

    assert page.status_code == 200


async def test_an_idle_session_ends_and_a_page_that_reloads_itself_does_not_prolong_it(dsn: str, keys: Path) -> None:
    server = ConsoleServer(dsn, keys, session_idle=600)
    async with server.serving(), server.browser() as ann, server.browser() as bob:
        await server.log_in(ann)
        await server.log_in(bob, "bob")
        async with stream(ann) as own, plain(dsn) as connection:
            back = "UPDATE verbworker.console_session SET seen_at = seen_at - $1::interval"
            await connection.execute(back, timedelta(minutes=6))
            by_script = await ann.get("/gates", headers={"Sec-Fetch-Mode": "cors"})
            by_hand = await bob.get("/gates", headers={"Sec-Fetch-Mode": "navigate"})
            await connection.execute(back, timedelta(minutes=6))
            await asyncio.wait_for(own, ENDED)
            idle, used = await ann.get("/gates"), await bob.get("/gates")

    assert (by_script.status_code, by_hand.status_code) == (200, 200)
    assert (idle.status_code, used.status_code) == (303, 200)


async def test_a_session_ends_at_its_absolute_limit_however_busy_it_is(dsn: str, keys: Path) -> None:
    server = ConsoleServer(dsn, keys)
    async with server.browser() as ann:
        async with server.serving(session=3600):
            await server.log_in(ann)
            before = await ann.get("/gates")
            async with plain(dsn) as connection:
                await connection.execute(
                    "UPDATE verbworker.console_session SET started_at = started_at - interval '31 minutes'"
                )
            later = await ann.get("/gates")
        async with server.serving(session=1800):
            shorter = await ann.get("/gates")

    assert (before.status_code, later.status_code) == (200, 200)
    assert shorter.status_code == 303  # a shorter limit counts for sessions that are open, too


async def test_the_cookie_says_nothing_and_the_database_cannot_be_used_to_log_in(
    console: ConsoleServer, dsn: str
) -> None:
    async with console.browser() as ann:
        await console.log_in(ann)
        cookie = next(iter(ann.cookies.jar)).value or ""
        async with plain(dsn) as connection:
            row = await connection.fetchrow("SELECT * FROM verbworker.console_session")
    shown = json.loads(_shown(cookie))

    assert row is not None
    assert "ann" not in json.dumps(shown)
    assert not [value for value in row.values() if value in (shown["i"], shown["c"], shown["i"].encode())]


async def test_wrong_keys_of_programs_are_slowed_down_at_the_console_too(console: ConsoleServer) -> None:
    place = "/api/gates/00000000-0000-0000-0000-000000000001/review"
    async with console.browser() as guesser:
        wrong = [
            await guesser.post(place, json={"decision": "approve"}, headers={"X-Api-Key": f"guess-{number}"})
            for number in range(25)
        ]
        right = await guesser.post(place, json={"decision": "approve"}, headers={"X-Api-Key": KEYS["ann"]})

    assert [answer.status_code for answer in wrong[:20]] == [401] * 20
    assert (wrong[-1].status_code, int(wrong[-1].headers["retry-after"]) >= 1) == (429, True)
    assert right.status_code == 404


async def test_sessions_that_are_over_are_deleted_by_retention(console: ConsoleServer, dsn: str) -> None:
    async with console.browser() as ann, console.browser() as bob, Database(dsn, size=2) as database:
        await console.log_in(ann)
        await console.log_in(bob, "bob")
        await console.log_out(ann)
        rows = RetiredRows(database)
        due = await rows.due("console_session", timedelta(0), most=10)
        dropped = await rows.drop("console_session", timedelta(0), limit=10)
        kept = await bob.get("/gates")

    assert (due.rows, dropped) == (1, 1)
    assert kept.status_code == 200
