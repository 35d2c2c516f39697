"""A step guard on a real database: models that it knows, and hands that do steps under several job keys."""

from hashlib import sha256
from typing import Any

from tests.support.frames import ENGINE, FIRST, Place, claimed, make_delivery, make_job
from verbworker.job.frame import Claim
from verbworker.job.job import Job
from verbworker.job.outcome import JobResult
from verbworker.stores.jobs.frames import Frames
from verbworker.work.jobs.step_guard import StepGuard

HASH = sha256(FIRST).digest()
PLAIN = b"""<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d" targetNamespace="t">
<bpmn:process id="kyc" isExecutable="true"><bpmn:startEvent id="start"/>
<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/><bpmn:serviceTask id="check"/>
</bpmn:process></bpmn:definitions>"""
LOOP = PLAIN.replace(
    b'<bpmn:serviceTask id="check"/>',
    b'<bpmn:serviceTask id="check"/><bpmn:sequenceFlow id="b" sourceRef="check" targetRef="check"/>',
)
BRANCHES = PLAIN.replace(
    b'<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/>',
    b'<bpmn:parallelGateway id="fork"/><bpmn:sequenceFlow id="a" sourceRef="start" targetRef="fork"/>'
    b'<bpmn:sequenceFlow id="b" sourceRef="fork" targetRef="check"/>'
    b'<bpmn:sequenceFlow id="c" sourceRef="fork" targetRef="beside"/><bpmn:serviceTask id="beside"/>',
)
FORKED = PLAIN.replace(
    b'<bpmn:sequenceFlow id="a" sourceRef="start" targetRef="check"/>',
    b'<bpmn:parallelGateway id="fork"/><bpmn:sequenceFlow id="a" sourceRef="start" targetRef="fork"/>'
    b'<bpmn:sequenceFlow id="b" sourceRef="fork" targetRef="check"/>'
    b'<bpmn:sequenceFlow id="c" sourceRef="fork" targetRef="check"/>',
)


class Guarded:
    """A place, its frames, and a guard that knows the model."""

    def __init__(self, place: Place, frames: Frames) -> None:
        self.place = place
        self.frames = frames
        self.guard = StepGuard.of(place.database, ENGINE)

    async def deploy(self, model: bytes) -> None:
        """Record what was deployed."""
        await self.place.database.execute(
            "INSERT INTO verbworker.process_deployment (engine_id, definition_key, process_id, version, verb, resource,"
            " authored_sha256, woven_sha256, woven, deployed_by) VALUES ($1, 7000, 'kyc', 1, 'kyc', 'kyc.bpmn',"
            " sha256($2), sha256($2), $2, 'tests')",
            ENGINE,
            model,
        )

    async def claim(self, key: int, **changes: Any) -> Claim:
        """Claim another job of the same step."""
        return await claimed(self.frames, self.place.delivery(key, **changes))

    async def admit(self, key: int, claim: Claim, *, at: int = 1, input_hash: bytes = HASH) -> Claim | JobResult:
        """Ask the guard."""
        return await self.guard.admit(self.job(key, at=at), claim, self.place.instance.instance_uid, input_hash)

    def job(self, key: int, *, at: int = 1) -> Job:
        """A delivery of another job of the same step."""
        return make_job(key, at=at)

    async def done(self, key: int) -> None:
        """Do the step under this key, heard by the engine."""
        await self.frames.pop_completed(self.place.verdict(await self.claim(key)))
        self.frames.acknowledge(key, "ok")
        await self.frames.flush()

    async def done_beside(self, key: int, *, base: bytes = FIRST) -> bytes:
        """Do a step of another element under this key; the payload that it made."""
        job = make_job(key, element_id="beside")
        delivery = make_delivery(job, self.place.instance, input_hash=sha256(base).digest())
        made = b'{"beside":%d}' % key
        await self.frames.pop_completed(
            self.place.verdict(await claimed(self.frames, delivery), base=base, output=made)
        )
        return made

    async def done_with(self, key: int, content: bytes) -> bytes:
        """Do the step under this key with a payload that is the head; the payload that it made."""
        claim, made = await self.claim(key, input_hash=sha256(content).digest()), b'{"done":%d}' % key
        await self.frames.pop_completed(self.place.verdict(claim, base=content, output=made))
        return made
