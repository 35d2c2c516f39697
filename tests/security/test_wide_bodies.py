"""Bodies with more of something than anybody sends, at every route of the API: refused in few words."""

from collections.abc import AsyncIterator

import pytest

from tests.security.fuzz.bodies import HUGE
from tests.support.api_server import ApiServer
from tests.support.embedded_service import VERB

pytestmark = pytest.mark.attack("payload")

_ID = "00000000-0000-0000-0000-000000000001"
ROUTES = (
    *("/messages", "/v1/messages", "/api/workflow/message", "/v1/entries", f"/v1/entries/{_ID}/cancel"),
    *(f"/v1/gates/{_ID}/decision", f"/v1/gates/{_ID}/claim", f"/v1/incidents/{_ID}/resolution"),
)


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[ApiServer]:
    server = ApiServer(dsn, rate=1_000_000, burst=1_000_000)
    async with server.serving():
        yield server


@pytest.mark.parametrize("path", ROUTES)
async def test_a_body_of_too_much_is_refused_in_few_words(server: ApiServer, path: str) -> None:
    async with server.caller() as caller:
        answers = {
            name: await caller.post(path, content=make(), headers={"Content-Type": "application/json"}, timeout=120)
            for name, make in HUGE.items()
        }

    assert {answer.status_code for answer in answers.values()} <= {403, 413, 422}
    assert max(len(answer.content) for answer in answers.values()) < 1_000


@pytest.mark.parametrize("verb", ["kyc.unknown", VERB, "shop.first"], ids=["unknown", "a workflow", "a step"])
async def test_of_many_unknown_arguments_the_first_are_told(server: ApiServer, verb: str) -> None:
    args = {f"argument-{number}": 1 for number in range(20_000)} | {"x" * 100_000: 1}
    async with server.caller() as caller:
        answer = await caller.post("/v1/entries", json={"verb": verb, "args": args}, timeout=120)

    assert answer.status_code == 422
    assert len(answer.content) < 2_000
    if verb == VERB:
        assert "and 19,996 more" in answer.json()["detail"]
        assert len(answer.json()["fields"]) == 6  # five unknown ones, and one that is missing


async def test_a_body_says_how_many_fields_it_has(server: ApiServer) -> None:
    async with server.caller() as caller:
        answer = await caller.post("/v1/messages", json={f"field{number}": 1 for number in range(101)})

    assert answer.json()["detail"] == "the body has 101 fields, and no request has more than 100"
