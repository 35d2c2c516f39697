"""Uses: where models ask for verbs, people and messages, read from the models themselves."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from verblint.bpmn.assembly import assemble
from verblint.bpmn.reader import ModelError, read
from verblint.flow.job_nodes import jobs
from verblint.names import FOREIGN_JOBS, OWN_JOBS
from verbworker.engine.protocol import Resource
from verbworker.errors import Refused


@dataclass(frozen=True, slots=True)
class Use:
    """One element of a model at which the engine asks for a verb."""

    verb: str
    process_id: str
    element_id: str
    resource: str
    line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What is in one file: the processes an engine would run, and where they ask for verbs."""

    resource: str
    processes: tuple[str, ...]
    uses: tuple[Use, ...]


def outline(model: Resource) -> Outline:
    """The outline of a model; `Refused` when it cannot be read."""
    try:
        root = read(model.content)
    except ModelError as error:
        raise Refused(f"{model.name} cannot be read: {error.message}") from error
    try:
        definitions = assemble(root)
        uses = tuple(
            Use(node.binding.job_type, process.id, node.id, model.name, node.element.line)
            for process in definitions.executable
            for _, node in jobs(process)
            if node.binding.job_type
        )
        return Outline(model.name, tuple(process.id for process in definitions.executable), uses)
    finally:
        root.document.take_apart()


def verbs_in(uses: Iterable[Use]) -> Iterator[Use]:
    """Those uses that are of an application's verbs: neither the runtime's own nor a connector's."""
    return (use for use in uses if not use.verb.startswith((OWN_JOBS, FOREIGN_JOBS)))
