"""Jobs that may change the same payload field at the same time."""

from collections.abc import Iterator, Mapping

from verblint.bpmn.model import FlowNode
from verblint.contracts.contract import Contracts, WorkflowVerbFields
from verblint.flow.concurrency import Fork
from verblint.flow.job_nodes import is_job
from verblint.names import COMPENSATE

ANYTHING = "anything"


Conflict = tuple[FlowNode, FlowNode, str]


def conflicts(fork: Fork, contracts: Contracts, workflow: WorkflowVerbFields | None) -> Iterator[Conflict]:
    """Yield each writer at most once, with a writer of another arm and a field that both write."""
    arms = [[node for node in arm if is_job(node)] for arm in fork.arms]
    yield from _step_conflicts(arms, contracts)
    yield from _undo_conflicts(arms, contracts, {} if workflow is None else workflow.compensation)


def _step_conflicts(arms: list[list[FlowNode]], contracts: Contracts) -> Iterator[Conflict]:
    writers = _Writers()
    for number, arm in enumerate(arms):
        for node in arm:
            if node.binding.job_type == COMPENSATE:
                continue
            writes = _writes(node.binding.job_type, contracts)
            met = writers.meet(number, writes)
            if met is not None:
                yield met[0], node, met[1]
            writers.add(number, node, writes)


def _undo_conflicts(arms: list[list[FlowNode]], contracts: Contracts, undos: Mapping[str, str]) -> Iterator[Conflict]:
    """Yield each compensate task with a step of another arm that writes what an undo writes.

    A step is undone after it has ended, so it never meets its own undo; two walks undo each step once.
    """
    for number, arm in enumerate(arms):
        for node in arm:
            others = (step for at, steps in enumerate(arms) if at != number for step in steps)
            if node.binding.job_type == COMPENSATE and (met := _meet_undos(others, contracts, undos)) is not None:
                yield met[0], node, met[1]


def _meet_undos(
    steps: Iterator[FlowNode], contracts: Contracts, undos: Mapping[str, str]
) -> tuple[FlowNode, str] | None:
    for step in steps:
        verb = step.binding.job_type
        if verb == COMPENSATE:
            continue
        written = _writes(verb, contracts)
        for undone, undo in undos.items():
            field = _overlap(written, _writes(undo, contracts)) if undone != verb else None
            if field is not None:
                return step, field
    return None


def _overlap(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> str | None:
    """Return a field that two verbs both write, or None."""
    if one == () or other == ():
        return None
    if one is None or other is None:
        return ANYTHING
    return next((field for field in one for name in other if _is_within(field, name) or _is_within(name, field)), None)


def _is_within(field: str, other: str) -> bool:
    return field == other or other in _above(field)


class _Writers:
    """The writers seen so far: the first one per field and arm."""

    def __init__(self) -> None:
        self._of_field: dict[str, dict[int, FlowNode]] = {}
        self._below: dict[str, dict[int, FlowNode]] = {}
        self._of_anything: dict[int, FlowNode] = {}
        self._all: dict[int, FlowNode] = {}

    def add(self, arm: int, node: FlowNode, writes: tuple[str, ...] | None) -> None:
        """Record a writer."""
        if writes is None:
            self._of_anything.setdefault(arm, node)
        for field in writes or ():
            self._of_field.setdefault(field, {}).setdefault(arm, node)
            for above in _above(field):
                self._below.setdefault(above, {}).setdefault(arm, node)
        if writes != ():
            self._all.setdefault(arm, node)

    def meet(self, arm: int, writes: tuple[str, ...] | None) -> tuple[FlowNode, str] | None:
        """Return a writer of another arm that writes one of the fields, and the field."""
        if writes is None:
            other = _other(self._all, arm)
            return (other, ANYTHING) if other is not None else None
        for field in writes:
            places = [self._of_field.get(name) for name in (field, *_above(field))]
            for seen in (*places, self._below.get(field), self._of_anything):
                other = _other(seen, arm) if seen else None
                if other is not None:
                    return other, field
        return None


def _writes(name: str, contracts: Contracts) -> tuple[str, ...] | None:
    """Return the fields a verb may change, or None for anything."""
    verb = contracts.directs.get(name)
    return verb.writes if verb is not None else None


def _other(seen: dict[int, FlowNode], arm: int) -> FlowNode | None:
    """Return the first writer of another arm; at most two need to be checked."""
    return next((node for number, node in seen.items() if number != arm), None)


def _above(field: str) -> list[str]:
    """Return the fields that contain a field: `a` and `a.b` for `a.b.c`."""
    steps = field.split(".")
    return [".".join(steps[:count]) for count in range(1, len(steps))]
