"""Writers: jobs that may change the same field of the payload at the same time."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode
from verblint.contracts.contract import Contracts
from verblint.flow.concurrency import Fork
from verblint.flow.job_nodes import is_job

ANYTHING = "anything"


def conflicts(fork: Fork, contracts: Contracts) -> Iterator[tuple[FlowNode, FlowNode, str]]:
    """Each writer at most once, with a writer of another arm and the field they have in common."""
    writers = _Writers()
    for number, arm in enumerate(fork.arms):
        for node in arm:
            writes = _writes(node, contracts) if is_job(node) else ()
            met = writers.meet(number, writes)
            if met is not None:
                yield met[0], node, met[1]
            writers.add(number, node, writes)


class _Writers:
    """The writers seen so far: for each field, and for each arm, the first."""

    def __init__(self) -> None:
        self._of_field: dict[str, dict[int, FlowNode]] = {}
        self._below: dict[str, dict[int, FlowNode]] = {}
        self._of_anything: dict[int, FlowNode] = {}
        self._all: dict[int, FlowNode] = {}

    def add(self, arm: int, node: FlowNode, writes: tuple[str, ...] | None) -> None:
        """Remember a writer."""
        if writes is None:
            self._of_anything.setdefault(arm, node)
        for field in writes or ():
            self._of_field.setdefault(field, {}).setdefault(arm, node)
            for above in _above(field):
                self._below.setdefault(above, {}).setdefault(arm, node)
        if writes != ():
            self._all.setdefault(arm, node)

    def meet(self, arm: int, writes: tuple[str, ...] | None) -> tuple[FlowNode, str] | None:
        """A writer of another arm that has a field in common, and the field."""
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


def _writes(node: FlowNode, contracts: Contracts) -> tuple[str, ...] | None:
    """The fields a job may change, or None for anything."""
    verb = contracts.directs.get(node.binding.job_type)
    return verb.writes if verb is not None else None


def _other(seen: dict[int, FlowNode], arm: int) -> FlowNode | None:
    """The first writer that is not of this arm; at most two have to be looked at."""
    return next((node for number, node in seen.items() if number != arm), None)


def _above(field: str) -> list[str]:
    """The fields that a field lies in: `a` and `a.b` for `a.b.c`."""
    steps = field.split(".")
    return [".".join(steps[:count]) for count in range(1, len(steps))]
