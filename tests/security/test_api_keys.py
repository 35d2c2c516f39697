"""A credential of the API that is removed or made smaller counts no more at once: no restart, and no stream goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.security.test_auth_attacks import now, sign
from tests.support.api_server import ALL, ApiServer
from tests.support.embedded_service import TENANT, VERB
from tests.support.ingress_process import WEBHOOK_SECRET

pytestmark = pytest.mark.attack("auth")

ANN, BOB = "a-key-of-ann", "a-key-of-bob"
ENDED = 20.0  # seconds in which a stream must have ended; it takes about one


def row(name: str, key: str, **more: Any) -> dict[str, Any]:
    """One key of the file."""
    return {"name": name, "tenant": TENANT, "sha256": sha256(key.encode()).hexdigest(), "scopes": ALL, **more}


def write(path: Path, *rows: dict[str, Any], **more: Any) -> None:
    """Replace the credentials as a mounted secret is replaced: another file under the same name."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"api_keys": rows, **more}))
    beside.replace(path)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.json"
    secret = {"name": "scanner", "tenant": TENANT, "secrets": [WEBHOOK_SECRET]}
    write(path, row("ann", ANN), row("bob", BOB), webhooks=[secret])
    return path


@pytest.fixture
async def server(dsn: str, keys: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(dsn, credentials=None, credentials_file=keys)
    async with server.serving():
        yield server


async def look(server: ApiServer, key: str) -> int:
    async with server.caller(key) as caller:
        return (await caller.get("/v1/entries")).status_code


CHANGES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "removed": ([], 401),
    "replaced by another": ([row("ann", "another-key")], 401),
    "without the scope": ([row("ann", ANN, scopes=["messages"])], 403),
    "for another tenant": ([row("ann", ANN, tenant="others")], 404),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_key_that_is_changed_counts_as_it_is_now(
    server: ApiServer, keys: Path, change: tuple[list[dict[str, Any]], int]
) -> None:
    rows, status = change
    async with server.caller(ANN) as ann:
        begun = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "one"}}, timeout=60)
        place = f"/v1/entries/{begun.json()['entry_id']}"
        before = await ann.get(place)
        write(keys, *rows, row("bob", BOB))
        after = await ann.get(place)

    assert (before.status_code, after.status_code) == (200, status)
    assert await look(server, BOB) == 200


@pytest.mark.parametrize("roles", [[], ["reader"]], ids=["no roles", "reader"])
async def test_roles_that_are_taken_away_are_gone_at_once(server: ApiServer, keys: Path, roles: list[str]) -> None:
    write(keys, row("ann", ANN, roles=roles), row("bob", BOB))
    async with server.caller(ANN) as ann:
        answer = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "one"}}, timeout=60)

    assert (answer.status_code, await look(server, ANN)) == (403, 200)


async def test_a_secret_of_a_webhook_that_is_removed_signs_nothing(server: ApiServer, keys: Path) -> None:
    body = json.dumps({"message_name": "shop.letter", "message_id": "1", "correlation_key": "k", "tenant_id": TENANT})
    async with server.caller(None) as sender:

        async def send() -> int:
            headers = {"Content-Type": "application/json", **sign(body.encode(), at=now())}
            return (await sender.post("/messages", content=body, headers=headers)).status_code

        before = await send()
        write(keys, row("ann", ANN))
        after = await send()

    assert before not in (401, 403)
    assert after == 401


async def test_the_streams_of_a_removed_key_end_and_others_go_on(server: ApiServer, keys: Path) -> None:
    async def read(answer: httpx.Response) -> None:
        async for _ in answer.aiter_bytes():
            pass

    async with server.caller(ANN) as ann, server.caller(BOB) as bob:
        begun = await ann.post("/v1/entries", json={"verb": VERB, "args": {"name": "one"}}, timeout=60)
        place = f"/v1/entries/{begun.json()['entry_id']}/events/stream"
        async with ann.stream("GET", place, timeout=60) as mine, bob.stream("GET", place, timeout=60) as kept:
            own, other = asyncio.create_task(read(mine)), asyncio.create_task(read(kept))
            await asyncio.sleep(0)
            write(keys, row("bob", BOB))
            await asyncio.wait_for(own, ENDED)
            is_open = not other.done()
            other.cancel()

    assert is_open


async def test_a_key_that_is_added_counts_without_a_restart(server: ApiServer, keys: Path) -> None:
    before = await look(server, "a-key-of-eve")
    write(keys, row("ann", ANN), row("eve", "a-key-of-eve"))

    assert (before, await look(server, "a-key-of-eve")) == (401, 200)


@pytest.mark.parametrize("words", ["", "{", '{"api_keys": [{"name": "ann"}]}', '{"oidc": {"issuer": "x"}}'])
async def test_a_file_that_cannot_be_read_changes_nothing(server: ApiServer, keys: Path, words: str) -> None:
    await asyncio.to_thread(keys.write_text, words)

    assert await look(server, ANN) == 200


async def test_without_any_credential_nobody_gets_in(server: ApiServer, keys: Path) -> None:
    await asyncio.to_thread(keys.write_text, "{}")

    assert await look(server, ANN) == 401
