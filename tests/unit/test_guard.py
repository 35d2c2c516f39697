"""The guard in front of a verb's connection: what it refuses, however it is written."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.statements import CONTROL, DISGUISES, HARMLESS, NOTHING
from verbworker.errors import PermanentContract, StoreUnavailable
from verbworker.stores.access.guarded_connection import GuardedConnection

METHODS = ["fetch", "fetchrow", "fetchval", "execute", "executemany"]


class Wire:
    """A connection that keeps what it was asked, and breaks when told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[str] = []
        self._error = error

    async def _ask(self, query: str) -> Any:
        if self._error is not None:
            raise self._error
        self.asked.append(query)
        return query

    async def fetch(self, query: str, *args: object) -> list[Any]:
        return [await self._ask(query), *args]

    async def fetchrow(self, query: str, *args: object) -> Any:
        return [await self._ask(query), *args]

    async def fetchval(self, query: str, *args: object) -> Any:
        return [await self._ask(query), *args]

    async def execute(self, query: str, *args: object) -> str:
        return str([await self._ask(query), *args])

    async def executemany(self, query: str, args: Sequence[Sequence[object]]) -> None:
        await self._ask(query)


async def asked(wire: Wire, query: str, method: str = "execute") -> Any:
    guarded = GuardedConnection(wire)
    arguments: list[Any] = [[(1,), (2,)]] if method == "executemany" else [1, 2]
    return await getattr(guarded, method)(query, *arguments)


async def refusal(query: str) -> str:
    wire = Wire()
    with pytest.raises(PermanentContract) as caught:
        await asked(wire, query)
    assert (caught.value.code, wire.asked) == ("TransactionControl", [])
    return str(caught.value)


@pytest.mark.parametrize("disguise", DISGUISES)
async def test_a_statement_that_controls_the_transaction_is_refused_wherever_it_hides(disguise: str) -> None:
    refusals = [await refusal(disguise.format(statement)) for statement in CONTROL.values()]

    assert refusals == [f"a verb may not run {word}: its transaction belongs to the runtime" for word in CONTROL]


@pytest.mark.parametrize("query", ["commit", "CoMmIt", "rollback to savepoint a", "prepare/**/transaction 'x'"])
async def test_case_and_comments_hide_nothing(query: str) -> None:
    with pytest.raises(PermanentContract, match="may not run"):
        await asked(Wire(), query)


@pytest.mark.parametrize("query", [*HARMLESS, *NOTHING])
async def test_what_only_looks_like_it_passes(query: str) -> None:
    wire = Wire()
    await asked(wire, query)

    assert wire.asked == [query]


@pytest.mark.parametrize("method", METHODS)
async def test_every_way_to_ask_is_guarded(method: str) -> None:
    with pytest.raises(PermanentContract):
        await asked(Wire(), "COMMIT", method)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "executemany"])
async def test_arguments_and_answers_pass_unchanged(method: str) -> None:
    answer = await asked(Wire(), "SELECT $1, $2", method)

    assert answer in (["SELECT $1, $2", 1, 2], "['SELECT $1, $2', 1, 2]")


@pytest.mark.req("FAIL-01")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", [ConnectionResetError("by peer"), TimeoutError(), BrokenPipeError()])
async def test_a_socket_that_breaks_is_our_database_and_not_the_verbs_outside(method: str, error: Exception) -> None:
    with pytest.raises(StoreUnavailable):
        await asked(Wire(error), "SELECT 1", method)


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x")])
async def test_other_errors_reach_the_verb_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)):
        await asked(Wire(error), "SELECT 1")
