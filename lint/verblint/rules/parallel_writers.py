"""What runs at the same time writes different fields of the payload."""

from collections.abc import Iterator

from verblint.concurrency import Fork, forks
from verblint.contract import Contracts
from verblint.finding import Finding, Severity
from verblint.jobs import is_job
from verblint.model import FlowNode
from verblint.rule import CONTRACTS, Context, rule


@rule("HB306", "parallel-writers", Severity.ERROR, on=(CONTRACTS,))
def check(context: Context) -> Iterator[Finding]:
    """What runs at the same time writes different fields of the payload.

    Two sub-verbs on parallel branches start from the same payload. Where both change one field, one change would be
    lost, so the runtime refuses the second. Each verb declares what it writes; here those fields must not overlap.

    Wrong:  two branches of a parallelGateway, with kyc.screen-entity on both
    Right:  one after the other, or verbs whose `writes` differ
    """
    if not context.contracts.workflows and not context.contracts.directs:
        return
    reported: set[tuple[str, str]] = set()
    for process in context.model.processes:
        for fork in forks(process):
            for first, second, fields in _conflicts(fork, context.contracts):
                pair = (min(first.id, second.id), max(first.id, second.id))
                if pair not in reported:
                    reported.add(pair)
                    message = (
                        f"{_named(first)} and {_named(second)} can run at the same time, and both may write {fields}"
                    )
                    hint = "Run one after the other, or declare `writes` that differ"
                    yield context.at(second.element, message, hint=hint, detail=" ".join(pair))


def _conflicts(fork: Fork, contracts: Contracts) -> Iterator[tuple[FlowNode, FlowNode, str]]:
    """Each writer once, with the first writer of another arm that it meets."""
    seen: list[tuple[int, FlowNode, tuple[str, ...] | None]] = []
    for number, arm in enumerate(fork.arms):
        for node in arm:
            writes = _writes(node, contracts) if is_job(node) else ()
            if writes == ():
                continue
            for other, first, written in seen:
                fields = _common(written, writes)
                if other != number and fields:
                    yield first, node, fields
                    break
            seen.append((number, node, writes))


def _writes(node: FlowNode, contracts: Contracts) -> tuple[str, ...] | None:
    """The fields a job may change, or None for anything."""
    verb = contracts.directs.get(node.binding.job_type)
    return verb.writes if verb is not None else None


def _common(first: tuple[str, ...] | None, second: tuple[str, ...] | None) -> str:
    if first is None or second is None:
        return "anything"
    return ", ".join(a for a in first for b in second if f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}."))


def _named(node: FlowNode) -> str:
    return f"{node.id} ({node.binding.job_type or 'no verb'})"
