"""Ids by their beginnings: one is found, several are told, and no other tenant's counts."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.mail import make_request
from verbworker.errors import InvocationInvalid, NotFound, RequestConflict
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Database
from verbworker.stores.id_prefixes import IdPrefixes

ONE = UUID("8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40")
OTHER = UUID("8b1f6a52-0d0e-4c55-9a6e-ffffffffffff")
FOREIGN = UUID("8b1f0000-0000-4000-8000-000000000000")


@pytest.fixture
async def prefixes(dsn: str) -> AsyncIterator[IdPrefixes]:
    async with Database(dsn, size=2) as database:
        async with database.transaction() as connection:
            for entry_id, tenant in ((ONE, "acme"), (OTHER, "acme"), (FOREIGN, "globex")):
                await Runbook(database).open_in(connection, make_request(entry_id, tenant))
        yield IdPrefixes(database, "acme")


@pytest.mark.parametrize("text", [str(ONE), ONE.hex, str(ONE)[:25], " 8B1F6A52-0d0e4c559a6e3f", str(ONE)[:-1]])
async def test_a_beginning_that_one_id_has_is_that_id(prefixes: IdPrefixes, text: str) -> None:
    assert await prefixes.entry(text) == ONE
    assert await prefixes.entry_or_gate(text) == ONE


async def test_a_beginning_of_several_names_two_of_them(prefixes: IdPrefixes) -> None:
    with pytest.raises(RequestConflict, match=f"8b1f is the beginning of several ids, such as {ONE} and {OTHER}"):
        await prefixes.entry("8b1f")


@pytest.mark.parametrize("text", ["8b1f0000", "0000", "8b1f6a53"])
async def test_what_begins_no_id_of_the_tenant_is_not_found(prefixes: IdPrefixes, text: str) -> None:
    with pytest.raises(NotFound, match=f"the tenant acme has no entry whose id begins with {text}"):
        await prefixes.entry(text)
    with pytest.raises(NotFound):
        await prefixes.letter(text)


async def test_an_id_in_full_is_not_looked_up(prefixes: IdPrefixes) -> None:
    assert await prefixes.entry(str(FOREIGN)) == FOREIGN


@pytest.mark.parametrize("text", ["", "8b1", "review", "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e400", "é" * 8])
async def test_what_cannot_be_an_id_is_refused(prefixes: IdPrefixes, text: str) -> None:
    with pytest.raises(InvocationInvalid, match="is not an id"):
        await prefixes.entry(text)
