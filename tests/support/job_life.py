"""What tests of a job's life share: a started ledger process, a worker that dies, the payload a job carries."""

import json
from typing import Any

import pytest

from tests.support.case_setup import CaseSetup
from tests.support.ledger import Account
from tests.support.models import fork
from tests.support.rig import Rig
from tests.support.start import Begun, begin
from verbworker.engine.protocol import Resource
from verbworker.job import failpoint
from verbworker.job.failpoint import Point
from verbworker.job.job import PAYLOAD, Job
from verbworker.testing.kit import Crash


async def started(rig: Rig, domain: str, *verbs: str) -> Begun:
    workflow = rig.registry.workflows[f"{domain}.settle"]
    await rig.deploy(workflow.process, [f"{domain}.{verb}" for verb in verbs])
    return await begin(rig.database, rig.engine, workflow, Account(amount=7).model_dump(mode="json"))


async def crash(rig: Rig | CaseSetup, job: Job, point: Point) -> None:
    """Work a job off in a worker that dies at `point`."""

    def strike(reached: Point) -> None:
        if reached is point:
            raise Crash

    failpoint.arm(strike)
    try:
        with pytest.raises(Crash):
            await rig.executor.execute(job)
    finally:
        failpoint.arm(None)


def carried(job: Job) -> dict[str, Any]:
    return dict(json.loads(str(job.variables[PAYLOAD]))["data"])


async def forked(rig: Rig, domain: str, left: str, right: str) -> Begun:
    workflow = rig.registry.workflows[f"{domain}.settle"]
    verbs = [f"{domain}.{verb}" for verb in (left, right, "send")]
    await rig.engine.deploy([Resource("fork.bpmn", fork(workflow.process, *verbs))])
    return await begin(rig.database, rig.engine, workflow, Account(amount=7).model_dump(mode="json"))
