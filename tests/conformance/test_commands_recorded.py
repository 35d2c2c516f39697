"""Each of the 306 exchanges with 8.10: sent by our own engine and answered as recorded, or named with the reason."""

import re
from collections import Counter
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any

import pytest

from tests.support.commands_story import call_of
from tests.support.recorded_8_10 import RECORDING, Said, answering, recorded
from tests.support.recorded_story import MODEL, NotSent, OurCall
from tests.support.rest_replay import Answer, Seen, now, rest_server, wire_json
from tests.support.zeebe_engine import outcome
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.engine import ZeebeEngine
from verbworker.errors import (
    AlreadyStarted,
    CommandInvalid,
    EngineError,
    EngineUnavailable,
    InstanceSuspended,
    JobGone,
    JobNotActive,
    LeaseLost,
    TaskTaken,
)

DIGEST = "b97d76cda1902fa3046a3b6a486519608d321ad24720bdd1674eae30c138fcaa"
TOPOLOGY = wire_json({"gatewayVersion": "8.10.0-SNAPSHOT", "clusterSize": 1, "partitionsCount": 1})

CALLS = [(one, call_of(one)) for one in recorded()]
BY_GRPC = [(one, call) for one, call in CALLS if isinstance(call, OurCall) and one.transport == "gRPC"]
BY_REST = [(one, call) for one, call in CALLS if isinstance(call, OurCall) and one.transport == "REST"]
NOT_SENT = [(one, call) for one, call in CALLS if isinstance(call, NotSent)]

# Words of the engine, in order, and the error they must become.
_MEANINGS: tuple[tuple[str, type[EngineError] | None], ...] = (
    ("matching lease token must be provided", LeaseLost),
    ("lease token does not match", LeaseLost),
    ("process instance is suspended", InstanceSuspended),
    ("has already been assigned", TaskTaken),
    ("Expected to find subscription for message", None),  # nothing waits: an answer, no error
    ("a message with that id was already published", None),
    ("instance of process with business id", AlreadyStarted),
    ("no such", JobGone),
    ("it is not active", JobNotActive),
    ("in state 'FAILED'", JobNotActive),
    ("Cannot throw BPMN error", JobNotActive),
    ("Expected to deploy new resources", CommandInvalid),
    ("businessId exceeds the limit", CommandInvalid),
    ("business id exceeds", CommandInvalid),
    ("Failed to validate variable document", CommandInvalid),
)


def meaning(one: Said) -> type[EngineError] | None:
    """The error that an answer must become; None for a command that was performed."""
    if one.code == "OK" or 200 <= one.status < 300:
        return None
    if not one.code and not one.status:
        return EngineUnavailable  # the server never answered
    found = [error for words, error in _MEANINGS if words in one.reason]
    assert found or one.code == "INVALID_ARGUMENT", f"a refusal without a meaning: {one.reason}"
    return found[0] if found else CommandInvalid


def _name(given: object) -> str:
    return f"{given.number} {given.name}" if isinstance(given, Said) else ""


def test_the_recording_is_the_one_that_was_made() -> None:
    assert sha256(RECORDING.read_bytes()).hexdigest() == DIGEST


def test_every_exchange_is_replayed_or_has_its_reason() -> None:
    assert (len(CALLS), len(BY_GRPC), len(BY_REST), len(NOT_SENT)) == (306, 174, 105, 27)
    assert all(call.why for _, call in NOT_SENT)


def test_what_is_not_sent_is_no_lease_of_a_job() -> None:
    """No case of the table of leases is among what is left out, but for commands that we do not have."""
    left = Counter(call.why for one, call in NOT_SENT if re.search("lease", one.name))

    assert sorted(left) == [
        "an operator's command carries no token",
        "jobs have no priorities of ours",
        "nothing was asked or answered: an observation",
        "sent on purpose to see the refusal; ours is beside the changeset",
    ]


@pytest.mark.parametrize(("one", "call"), BY_GRPC, ids=_name)
async def test_an_exchange_over_grpc(one: Said, call: OurCall) -> None:
    leases = one.rpc not in ("ActivateJobs", "StreamActivatedJobs") or "withLease" in one.request
    async with AsyncExitStack() as stack:
        address, gateway = await stack.enter_async_context(answering(one))
        engine = ZeebeEngine(GatewayAddress(address), engine_id="recorded", leases=leases)
        answer = await outcome(call.send(await stack.enter_async_context(engine)))

    assert gateway.asked == [dict(call.ours(one.request)) if call.ours else one.request]
    assert_meaning(one, answer)


@pytest.mark.parametrize(("one", "call"), BY_REST, ids=_name)
async def test_an_exchange_over_rest(one: Said, call: OurCall) -> None:
    body = b"" if one.response is None else wire_json(one.response)
    said = Answer(one.status, body, one.content_type) if one.status else Answer(delay_s=30.0)

    def answer_to(seen: Seen) -> Answer:
        return Answer(body=TOPOLOGY) if seen.path.endswith("/topology") else said

    leases = not one.path.endswith("/activation") or (one.request or {}).get("withLease") is True
    limit = 10.0 if one.status else 1.0
    began = now()
    with rest_server(answer_to) as server:
        address = GatewayAddress(rest_url=server.url, transport="rest", call_timeout_s=limit)
        async with ZeebeEngine(address, engine_id="recorded", leases=leases) as engine:
            answer = await outcome(call.send(engine))

    (sent,) = [seen for seen in server.seen if not seen.path.endswith("/topology")]
    assert (sent.method, sent.path) == (one.method, one.path)
    assert_body(one, call, sent)
    assert_meaning(one, answer)
    assert now() - began < limit + 20.0


def assert_body(one: Said, call: OurCall, sent: Seen) -> None:
    if isinstance(one.request, str):
        assert MODEL in sent.body
        assert one.request.removeprefix("multipart: resources=").encode() in sent.body
    elif one.request is None and call.ours is None:
        assert sent.body in (b"", b"{}")
    else:
        assert sent.body == wire_json(call.ours(one.request or {}) if call.ours else one.request)


def assert_meaning(one: Said, answer: Any) -> None:
    expected = meaning(one)
    if expected is None:
        assert not isinstance(answer, EngineError), one.name
    else:
        assert type(answer) is expected, one.name
