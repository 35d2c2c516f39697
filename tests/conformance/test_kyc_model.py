"""The example's model as its author drew it, on each engine: it runs on flags alone and never sees a case."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Client, connected
from tests.support.engines import Gateway

MODEL = Path(__file__).parents[2] / "processes" / "kyc-open-case" / "process.bpmn"
FLAGS = {
    "orch_docs_received": False,
    "orch_review_deadline": "P5D",
    "orch_review_outcome": "pending",
    "orch_escalated": False,
}


@dataclass(frozen=True, slots=True)
class Walk:
    """One instance, moved along by hand."""

    client: Client
    suffix: str
    ending: "asyncio.Task[dict[str, Any]]"

    async def do(self, verb: str, flags: Mapping[str, object] | None = None) -> None:
        """Do one step as a worker would: with flags, and nothing else."""
        (job,) = await self.client.activate(f"{verb}-{self.suffix}")
        await self.client.complete(job.key, dict(flags or {}))

    async def decide(self) -> None:
        """Let the person at the gate be done."""
        (job,) = await self.client.activate(f"gate-{self.suffix}")
        await self.client.complete(job.key, {})

    async def send_documents(self) -> None:
        """Publish the customer's message, buffered if nobody waits yet."""
        await self.client.publish(f"kyc.documents-received-{self.suffix}", self.suffix)

    async def until_review(self, **flags: object) -> None:
        """Everything before the gate."""
        await self.do("kyc.create-case-record")
        await self.do("kyc.request-documents")
        await self.do("kyc.screen-sanctions")
        await self.send_documents()
        await self.do("kyc.receive-documents", {"orch_docs_received": True})
        await self.do("kyc.assign-reviewer", flags)


@asynccontextmanager
async def walked(gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[Walk]:
    suffix = unique("walk")
    text = MODEL.read_text().replace('"kyc-open-case"', f'"kyc-open-case-{suffix}"')
    for verb in ("create-case-record", "request-documents", "receive-documents", "screen-sanctions"):
        text = text.replace(f'"kyc.{verb}"', f'"kyc.{verb}-{suffix}"')
    for verb in ("kyc.assign-reviewer", "kyc.escalate", "kyc.record-review-decision", "verbworker.compensate"):
        text = text.replace(f'"{verb}"', f'"{verb}-{suffix}"')
    text = text.replace('"kyc.documents-received"', f'"kyc.documents-received-{suffix}"')
    # All user tasks of a broker are one type of job; here the gate is a task of its own, so that tests do not meet.
    text = text.replace('<ameide:updateDefinition name="review" />', f'<zeebe:taskDefinition type="gate-{suffix}" />')
    text = text.replace("bpmn:userTask", "bpmn:serviceTask")
    process = f"kyc-open-case-{suffix}"
    async with connected(gateway.address) as client, asyncio.TaskGroup() as tasks:
        await client.deploy(process, text.encode())
        ending = tasks.create_task(client.result(process, {**FLAGS, "corr_documents": suffix}))
        yield Walk(client, suffix, ending)
        await ending


@pytest.mark.zeebe
@pytest.mark.req("ORC-04")
async def test_an_engine_accepts_the_model_byte_for_byte(gateway: Gateway) -> None:
    async with connected(gateway.address) as client:
        key = await client.deploy("kyc-open-case", MODEL.read_bytes())

    assert key > 0


@pytest.mark.req("WAIT-04")
async def test_an_approved_case_ends_without_being_undone(gateway: Gateway, unique: Callable[[str], str]) -> None:
    async with walked(gateway, unique) as walk:
        await walk.until_review()
        await walk.decide()
        await walk.do("kyc.record-review-decision", {"orch_review_outcome": "approved"})

    assert walk.ending.result()["orch_review_outcome"] == "approved"


@pytest.mark.req("WAIT-04", "CMP-05")
async def test_a_rejected_case_is_undone_before_it_ends(gateway: Gateway, unique: Callable[[str], str]) -> None:
    async with walked(gateway, unique) as walk:
        await walk.until_review()
        await walk.decide()
        await walk.do("kyc.record-review-decision", {"orch_review_outcome": "rejected"})
        await walk.do("verbworker.compensate")

    assert walk.ending.result()["orch_review_outcome"] == "rejected"


async def test_a_sanctions_hit_stops_the_wait_for_documents(gateway: Gateway, unique: Callable[[str], str]) -> None:
    async with walked(gateway, unique) as walk:
        await walk.do("kyc.create-case-record")
        await walk.do("kyc.request-documents")
        (job,) = await walk.client.activate(f"kyc.screen-sanctions-{walk.suffix}")
        await walk.client.throw(job.key, "SANCTIONS_HIT")
        await walk.do("verbworker.compensate")

    assert walk.ending.result()["orch_docs_received"] is False


@pytest.mark.req("PRX-38")
async def test_documents_may_come_before_they_are_awaited(gateway: Gateway, unique: Callable[[str], str]) -> None:
    async with walked(gateway, unique) as walk:
        await walk.send_documents()
        await walk.do("kyc.create-case-record")
        await walk.do("kyc.request-documents")
        await walk.do("kyc.receive-documents", {"orch_docs_received": True})
        await walk.do("kyc.screen-sanctions")
        await walk.do("kyc.assign-reviewer")
        await walk.decide()
        await walk.do("kyc.record-review-decision", {"orch_review_outcome": "approved"})

    assert walk.ending.result()["orch_docs_received"] is True


@pytest.mark.req("WAIT-03", "WAIT-05", "TST-07")
async def test_a_late_review_is_escalated_and_can_still_be_decided(
    gateway: Gateway, unique: Callable[[str], str]
) -> None:
    async with walked(gateway, unique) as walk:
        await walk.until_review(orch_review_deadline="PT1S")
        await walk.do("kyc.escalate", {"orch_escalated": True})
        await walk.decide()
        await walk.do("kyc.record-review-decision", {"orch_review_outcome": "approved"})

    assert walk.ending.result()["orch_escalated"] is True
