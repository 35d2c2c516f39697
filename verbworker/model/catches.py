"""Catches: which error codes a deployed model catches at each step, read from the model at deployment.

An uncaught code would leave the engine with an incident that no worker sees, so it is never thrown.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from verblint.bpmn.assembly import assemble
from verblint.bpmn.event_cause import Error
from verblint.bpmn.model import Definitions, Process
from verblint.flow.catchers import Thrower, throwers
from verbworker.errors import Refused
from verbworker.model.element_tree import open_tree


@dataclass(frozen=True, slots=True)
class StepCatches:
    """What is caught at one step: these codes, or every code; and where a catcher of another code could be added.

    `hosts` are the step and its surrounding subprocesses on which a boundary event would catch, innermost first; an
    event has no hosts, because engines accept no code from an event.
    """

    codes: tuple[str, ...] = ()
    every: bool = False
    hosts: tuple[str, ...] = ()

    def catches(self, code: str) -> bool:
        """Return whether a code of this step is caught."""
        return self.every or code in self.codes


Catches = Mapping[str, StepCatches]


def read_catches(model: Definitions, process: Process) -> dict[str, StepCatches]:
    """Return what is caught at each step of a process that calls a verb."""
    steps = (found for found in throwers(model, process) if not isinstance(found.node.event, Error))
    return {found.node.id: _step(found) for found in steps}


def catches_of(content: bytes, process_id: str) -> dict[str, StepCatches]:
    """Return the same for one process of a model in bytes; empty when the model is invalid or lacks the process."""
    try:
        with open_tree(content) as root:
            model = assemble(root)
            found = next((process for process in model.processes if process.id == process_id), None)
            return {} if found is None else read_catches(model, found)
    except Refused:
        return {}


def as_json(catches: Catches) -> dict[str, Any]:
    """Return the catches in the form stored in the database."""
    return {element_id: asdict(step) for element_id, step in catches.items()}


def from_json(kept: Mapping[str, Mapping[str, Any]]) -> dict[str, StepCatches]:
    """Return the catches that `as_json` wrote."""
    return {key: StepCatches(tuple(step["codes"]), step["every"], tuple(step["hosts"])) for key, step in kept.items()}


def uncaught(element_id: str, code: str, step: StepCatches) -> str:
    """Return why a code cannot be thrown from a step, and where a catcher could be added."""
    if not step.hosts:
        return f"{element_id} is an event, and engines take no error code from an event; make it a task"
    outer = [f"the subprocess {host}" for host in step.hosts[1:]]
    around = f" nor on {' or '.join(outer)} around it" if outer else ""
    places = " or ".join((element_id, *outer))
    return (
        f"no boundary event on {element_id}{around} catches {code}; add an error boundary event for it to {places},"
        " and deploy the model"
    )


def _step(found: Thrower) -> StepCatches:
    codes = {catcher.code for catcher in found.catchers if catcher.code}
    every = any(not catcher.code for catcher in found.catchers)
    return StepCatches(tuple(sorted(codes)), every, found.hosts)
