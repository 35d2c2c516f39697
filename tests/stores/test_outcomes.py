"""How a case ended, by the name that its contract has for it; a case that was undone on purpose is no failure."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.errors import InvocationInvalid
from verbworker.runbook.event import Status
from verbworker.stores.cases.overview import Filter, Overview
from verbworker.testing.play import Play

CONTRACT = """
verbs:
  - verb: claim.handle
    version: 1
    strategy: workflow
    args: {amount: {type: integer, required: true}}
    process: claim-handle
    payload: {initial: {amount: args.amount}, outcome: {reserved: data.reserved}}
    sub_verbs: [claim.reserve, claim.decide]
    flags:
      orch_end: {type: enum, values: [open, paid, rejected], initial: open}
      orch_undo: {type: boolean, initial: false}
    compensation: {claim.reserve: claim.free}
    OUTCOME
  - {verb: claim.reserve, mode: transactional, writes: [reserved]}
  - {verb: claim.decide, mode: transactional, writes: []}
  - {verb: claim.free, mode: transactional, writes: [reserved]}
"""
TASK = '<serviceTask id="{0}"><extensionElements><zeebe:taskDefinition type="{1}"/></extensionElements></serviceTask>'
FLOWS = [("start", "reserve"), ("reserve", "decide"), ("decide", "which"), ("undo", "undone")]
MODEL = f"""<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" id="d" targetNamespace="urn:tests">
<process id="claim-handle" isExecutable="true">
<startEvent id="start"/><endEvent id="done"/><endEvent id="undone"/>
<exclusiveGateway id="which" default="which-done"/>
{TASK.format("reserve", "claim.reserve")}{TASK.format("decide", "claim.decide")}
{TASK.format("undo", "verbworker.compensate")}
{"".join(f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in FLOWS)}
<sequenceFlow id="which-done" sourceRef="which" targetRef="done"/>
<sequenceFlow id="which-undo" sourceRef="which" targetRef="undo">
<conditionExpression xsi:type="tFormalExpression">=orch_undo = true</conditionExpression></sequenceFlow>
</process></definitions>
"""


class Claim(BaseModel):
    """What the steps write."""

    amount: int
    reserved: bool = False


def claim_registry(folder: Path) -> Registry:
    verbs = Registry()

    @verbs.verb("claim.reserve", mode="transactional", writes=("reserved",))
    async def reserve(claim: Claim, call: Call) -> Claim:
        return claim.model_copy(update={"reserved": True})

    @verbs.verb("claim.decide", mode="transactional", writes=())
    async def decide(claim: Claim, call: Call) -> Result[Claim]:
        if claim.amount < 0:
            return Result(claim, flags={"orch_undo": True})
        is_rejected = claim.amount > 100
        return Result(claim, flags={"orch_end": "rejected" if is_rejected else "paid", "orch_undo": is_rejected})

    @verbs.verb("claim.free", mode="transactional", writes=("reserved",))
    async def free(claim: Claim, call: Call) -> Claim:
        return claim.model_copy(update={"reserved": False})

    return verbs.load(folder).check()


@pytest.mark.req("EVT-09", "EVT-16")
@pytest.mark.parametrize(
    ("key", "amount", "status", "said"),
    [
        ("outcome: orch_end", 50, Status.COMPLETED, "Completed: paid"),
        ("outcome: orch_end", 500, Status.COMPLETED, "Completed: rejected"),
        ("outcome: orch_end", -1, Status.FAILED, "Failed: Compensated: what was done has been undone"),
        ("", 50, Status.COMPLETED, "Completed"),
        ("", 500, Status.FAILED, "Failed: Compensated: what was done has been undone"),
    ],
)
async def test_a_case_with_an_outcome_of_its_own_is_completed_even_if_it_was_undone(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, amount: int, status: Status, said: str
) -> None:
    for name, text in {
        "pyproject.toml": '[tool.verblint]\nverbs = "verbs"\n',
        "verbs/claim.yaml": CONTRACT.replace("OUTCOME", key),
        "processes/claim.bpmn": MODEL,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    async with Play.open(dsn, claim_registry(Path("verbs")), ["processes"]) as play:
        entry_id = await play.ask("claim.handle", {"amount": amount})
        entry = await play.ended(entry_id)
        story = await play.story(entry_id)
        (listed,) = await Overview(play.database).page(entry.tenant_id, Filter())
        with pytest.raises(
            InvocationInvalid, match=r"claim\.reserve is a step of claim\.handle and not started by itself"
        ):
            await play.ask("claim.reserve", {"amount": amount})

    assert (entry.status, story[-1]) == (status, said)
    assert listed.outcome_name == (said.partition(": ")[2] or None if status is Status.COMPLETED else None)
    assert entry.outcome == {"reserved": amount == 50}
