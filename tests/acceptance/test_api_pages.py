"""Lists over HTTP and by command: the same pages, the same models, and a cut list says so."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_server import ApiServer
from tests.support.command import verbworker
from tests.support.embedded_service import TENANT
from tests.support.entries import StoredEntry
from verbworker.runbook.event import Wait
from verbworker.stores.database import Database

KINDS = {"gates": (Wait.HUMAN_GATE, {"gate": "review"}), "incidents": (Wait.INCIDENT, {})}


@pytest.fixture
async def ann(dsn: str) -> AsyncIterator[httpx.AsyncClient]:
    server = ApiServer(dsn)
    async with server.serving(), server.caller() as caller:
        yield caller


async def put_waits(dsn: str, kind: Wait, changes: dict[str, Any]) -> None:
    async with Database(dsn, size=2) as database:
        for number in range(1, 6):
            book = await StoredEntry.open(database, tenant_id=TENANT)
            await book.park(book.token(number, kind, tenant_id=TENANT, job_key=number, **changes))


@pytest.mark.parametrize("name", KINDS)
async def test_a_list_has_the_same_pages_by_request_and_by_command(
    dsn: str, ann: httpx.AsyncClient, tmp_path: Path, name: str
) -> None:
    await put_waits(dsn, *KINDS[name])

    def command(*words: str, does: str = "list") -> Any:
        said = verbworker(name, does, *words, directory=tmp_path, dsn=dsn, VERBWORKER_TENANT=TENANT)
        assert said.code == 0, said.err
        return said

    first = (await ann.get(f"/v1/{name}", params={"limit": 3})).json()
    second = (await ann.get(f"/v1/{name}", params={"limit": 3, "cursor": first["next"]})).json()
    wrong = await ann.get(f"/v1/{name}", params={"cursor": "x"})

    assert ([len(first[name]), len(second[name])], second["next"]) == ([3, 2], None)
    assert len({row["entry_id"] for row in (*first[name], *second[name])}) == 5
    assert (wrong.status_code, "the cursor is invalid" in wrong.json()["detail"]) == (422, True)
    assert json.loads(command("--limit", "3", "--json").out) == first
    assert json.loads(command("--limit", "3", "--cursor", first["next"], "--json").out) == second
    cut = command("--limit", "3")
    assert (len(cut.out.splitlines()), cut.err) == (4, "verbworker: there are 2 more; to see them: --limit 5\n")
    if name == "incidents":
        which = first[name][0]["incident_id"]
        read = (await ann.get(f"/v1/incidents/{which}")).json()
        assert json.loads(command(which[:8], "--json", does="show").out) == read
