"""One trace from the request of a case to its end: the example on the embedded engine, with a real worker."""

from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.support.eventually import eventually
from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from tests.support.telemetry import Telemetry, trace_id
from verbs import registry
from verbworker.app.tracing import open_telemetry
from verbworker.dev.demo import screening
from verbworker.job.trace import UNTRACED
from verbworker.runbook.event import Status
from verbworker.testing.play import Play

CASE = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
CONVENTIONS = {
    "messaging.system",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.destination.name",
    "messaging.message.id",
}


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    kept = Telemetry()
    monkeypatch.setenv("VERBWORKER_OTEL", "true")
    monkeypatch.setattr(open_telemetry, "open_providers", kept.open_providers)
    with screening() as url:
        monkeypatch.setenv("KYC_SCREENING_URL", url)
        yield kept


@pytest.fixture
async def play(dsn: str, telemetry: Telemetry) -> AsyncIterator[Play]:
    models = ["processes/kyc-open-case"]
    async with Play.open(dsn, registry, models, schema=TABLES.read_text(), engine="embedded") as opened:
        yield opened


async def play_to_the_end(play: Play, entry_id: UUID) -> list[str]:
    await play.send("kyc.documents-received", str(entry_id), {"documents": [PASSPORT, EXTRACT]})
    await play.decide(entry_id, "approve", reason="all is in order")
    entry = await play.ended(entry_id)
    assert entry.status is Status.COMPLETED
    return await play.steps(entry_id)


async def last_span(telemetry: Telemetry) -> ReadableSpan:
    """The span of the case's end, which follows the commit that a test sees."""

    async def look() -> list[ReadableSpan]:
        return telemetry.named("end case")

    (end,) = await eventually(look)
    return end


def of_case(telemetry: Telemetry) -> list[ReadableSpan]:
    """The spans of ours; a verb may have made some of its own."""
    return [span for span in telemetry.spans if span.instrumentation_scope is not None and span.name != "their request"]


async def test_a_case_is_one_trace_below_the_request_of_the_program_that_started_it(
    play: Play, telemetry: Telemetry
) -> None:
    with telemetry.provider.get_tracer("theirs").start_as_current_span("their request") as theirs:
        entry_id = await play.ask(CASE)
        wanted = f"{theirs.get_span_context().trace_id:032x}"
    steps = await play_to_the_end(play, entry_id)
    end = await last_span(telemetry)

    spans = of_case(telemetry)
    (start,) = telemetry.named("start ")
    assert {trace_id(span) for span in spans} == {wanted}
    assert start.name == "start kyc.open-case"
    assert start.parent is not None
    assert start.parent.span_id == theirs.get_span_context().span_id
    assert sorted(span.name for span in telemetry.named("process ")) == sorted(f"process {verb}" for verb in steps)
    assert [span.name for span in telemetry.named("publish ")] == ["publish kyc.documents-received"]
    assert dict(end.attributes or {})["verbworker.status"] == "completed"
    assert end.start_time is not None
    assert end.start_time >= max(span.start_time or 0 for span in spans)


async def test_spans_and_durations_follow_the_messaging_conventions(play: Play, telemetry: Telemetry) -> None:
    entry_id = await play.ask(CASE)
    steps = await play_to_the_end(play, entry_id)

    told = [span for span in of_case(telemetry) if span.name != "end case"]
    points = telemetry.durations("messaging.process.duration")
    assert [span.name for span in told if not set(span.attributes or {}) >= CONVENTIONS] == []
    for span in told:
        attributes = dict(span.attributes or {})
        named = f"{attributes['messaging.operation.name']} {attributes['messaging.destination.name']}"
        assert (span.name, attributes["messaging.message.conversation_id"]) == (named, str(entry_id))
    assert {attributes["messaging.destination.name"] for attributes, _ in points} == set(steps)
    assert sum(point.count for _, point in points) == len(steps)
    assert not any("error.type" in attributes for attributes, _ in points)


async def test_a_case_that_was_started_without_a_trace_has_one_of_its_own(
    play: Play, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a program that does not trace starts it.
    monkeypatch.setattr(open_telemetry.OpenTelemetryTracer, "request", UNTRACED.request)
    entry_id = await play.ask(CASE)
    await play_to_the_end(play, entry_id)
    await last_span(telemetry)

    assert telemetry.named("start ") == []
    assert {trace_id(span) for span in telemetry.spans} == {entry_id.hex}


async def test_a_cancelled_case_ends_its_trace(play: Play, telemetry: Telemetry) -> None:
    entry_id = await play.ask(CASE)
    await play.waiting(entry_id)
    await play.database.execute(
        "UPDATE verbworker.runbook_entry SET cancel_requested_at = clock_timestamp() - interval '1 minute'"
    )

    await play.ended(entry_id)
    end = await last_span(telemetry)

    (start,) = telemetry.named("start ")
    attributes = dict(end.attributes or {})
    assert trace_id(end) == trace_id(start)
    assert (attributes["verbworker.status"], attributes["error.type"]) == ("cancelled", "cancelled")
