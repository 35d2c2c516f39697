"""An in-memory engine for linear processes: the inline engine with a generated model."""

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import quoteattr

from verbworker.engine.inline import InlineEngine, JobState, MemoryJob
from verbworker.engine.protocol import Deployed, EngineFacts, Resource, Signal
from verbworker.errors import CommandInvalid

__all__ = ["JobState", "MemoryEngine", "MemoryJob"]

_MODEL = """<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="http://verbworker/testing">
<process id={process} isExecutable="true">
{body}
</process></definitions>
"""
_TASK = (
    '<serviceTask id="{id}"><extensionElements><zeebe:taskDefinition type={verb}/></extensionElements></serviceTask>'
    # A line shows what verbs do, not error handling: every code is caught, and the next verb runs.
    '<boundaryEvent id="error_{id}" attachedToRef="{id}"><errorEventDefinition/></boundaryEvent>'
)


class MemoryEngine(InlineEngine):
    """Runs processes that are a sequence of verbs. For your own models use `InlineEngine`."""

    def __init__(self, engine_id: str = "memory", *, seed: int = 0) -> None:
        super().__init__(engine_id, seed=seed)
        self.published: dict[str, Signal] = {}

    def line(self, process_id: str, verbs: Sequence[str]) -> None:
        """Define a process that runs these verbs in order."""
        self._instances.definitions.put([Resource(f"{process_id}.bpmn", _draw(process_id, verbs))])

    async def facts(self) -> EngineFacts:
        """Describe this engine."""
        return EngineFacts(version="memory", brokers=1, partitions=1)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Raise `CommandInvalid`: models are not read here, define a line instead."""
        raise CommandInvalid("the testing engine runs sequences of verbs; call line(process_id, verbs)")

    async def publish(self, signal: Signal) -> None:
        """Store the message in `published`, once per id: lines do not wait for messages."""
        self._strike("publish", lambda: self._keep(signal))

    def _keep(self, signal: Signal) -> None:
        self.published.setdefault(signal.message_id, signal)


def _draw(process_id: str, verbs: Sequence[str]) -> bytes:
    tasks = [f"task_{number}" for number in range(1, len(verbs) + 1)]
    body = ['<startEvent id="begin"/>', '<endEvent id="end"/>']
    body += [_TASK.format(id=task, verb=quoteattr(verb)) for task, verb in zip(tasks, verbs, strict=True)]
    caught = [(f"error_{task}", following) for task, following in pairwise([*tasks, "end"])]
    body += [
        f'<sequenceFlow id="after_{source}" sourceRef="{source}" targetRef="{target}"/>'
        for source, target in [*pairwise(["begin", *tasks, "end"]), *caught]
    ]
    return _MODEL.format(process=quoteattr(process_id), body="\n".join(body)).encode()
