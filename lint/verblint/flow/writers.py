"""Jobs that may change the same payload field at the same time."""

from collections.abc import Iterator

from verblint.bpmn.model import FlowNode
from verblint.contracts.contract import Contracts
from verblint.flow.concurrency import Fork
from verblint.flow.job_nodes import is_job

ANYTHING = "anything"


def conflicts(fork: Fork, contracts: Contracts) -> Iterator[tuple[FlowNode, FlowNode, str]]:
    """Yield each writer at most once, with a writer of another arm and a field that both write."""
    writers = _Writers()
    for number, arm in enumerate(fork.arms):
        for node in arm:
            writes = _writes(node, contracts) if is_job(node) else ()
            met = writers.meet(number, writes)
            if met is not None:
                yield met[0], node, met[1]
            writers.add(number, node, writes)


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


def _writes(node: FlowNode, contracts: Contracts) -> tuple[str, ...] | None:
    """Return the fields a job may change, or None for anything."""
    verb = contracts.directs.get(node.binding.job_type)
    return verb.writes if verb is not None else None


def _other(seen: dict[int, FlowNode], arm: int) -> FlowNode | None:
    """Return the first writer of another arm; at most two need to be checked."""
    return next((node for number, node in seen.items() if number != arm), None)


def _above(field: str) -> list[str]:
    """Return the fields that contain a field: `a` and `a.b` for `a.b.c`."""
    steps = field.split(".")
    return [".".join(steps[:count]) for count in range(1, len(steps))]
