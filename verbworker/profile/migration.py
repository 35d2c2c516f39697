"""From a plain process to a hollow one: every task, mapping and condition of a model with what to change."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from verblint.bpmn.assembly import assemble
from verblint.bpmn.binding import Mapping as DataMapping
from verblint.bpmn.model import Definitions, FlowNode, Process
from verblint.bpmn.reader import ModelError, read
from verblint.contracts.contract import Contracts
from verblint.contracts.syntax import VERB_NAME
from verblint.feel.branch import Branch, branches
from verblint.flow.job_nodes import jobs
from verblint.linter import inspect
from verblint.names import FOREIGN_JOBS, OWN_JOBS
from verblint.report import Finding, Severity
from verblint.settings import HOLLOW, Settings
from verblint.startup.value import replace
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Resource
from verbworker.errors import CannotRun
from verbworker.profile.verify.python_source import OTHER_SIGNS

# Rules about mappings and about the contract: this report says the same for each mapping and each process.
_REPORTED_HERE = ("HB302", "HB303", "HB304", "HB305", "HB307", "HB308", "HB406")


@dataclass(frozen=True, slots=True)
class HollowChange:
    """One thing to change: where it is, what is there, and what to do."""

    kind: str  # process, task, mapping, condition or other
    line: int
    element: str
    has: str
    change: str
    rule: str = ""  # of the linter, where one finds it too


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What to change in one model until it is hollow."""

    file: str
    processes: tuple[str, ...]
    changes: tuple[HollowChange, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many changes there are of each kind."""
        return Counter(change.kind for change in self.changes)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "file": self.file,
            "processes": self.processes,
            "counts": dict(self.counts),
            "changes": [asdict(change) for change in self.changes],
        }


def report_on(model: Resource, registry: Registry | None = None, settings: Settings | None = None) -> MigrationReport:
    """Return what to change in a model; raises `CannotRun` if it cannot be read.

    With a registry, its plain tasks tell which variables become fields, and what is a verb already needs no change.
    """
    try:
        root = read(model.content, model.name)
    except ModelError as error:
        raise CannotRun(f"{model.name} cannot be read: {error.message}") from error
    try:
        definitions = assemble(root)
        found = [*_own_changes(definitions, registry or Registry()), *_found_by_linter(model, definitions, settings)]
        names = tuple(process.id for process in definitions.executable)
    finally:
        root.document.take_apart()
    return MigrationReport(model.name, names, tuple(sorted(found, key=lambda change: (change.line, change.kind))))


def _own_changes(definitions: Definitions, registry: Registry) -> Iterator[HollowChange]:
    for process in definitions.executable:
        if registry.workflow_of(process.id) is None:
            yield _contract(process)
        for _, node in jobs(process):
            yield from _task(process, node, registry)
        for _, node in process.walk():
            yield from (_mapping(node, mapping) for mapping in node.binding.mappings)
    for branch in branches(definitions):
        if branch.error is not None:
            yield _condition(branch, branch.error.code)


def _contract(process: Process) -> HollowChange:
    words = (
        f"write a contract of a workflow verb with process: {process.id}, its arguments, flags and sub_verbs;"
        " then start it by that verb"
    )
    return HollowChange("process", process.element.line, process.id, "no workflow verb", words)


def _task(process: Process, node: FlowNode, registry: Registry) -> Iterator[HollowChange]:
    name = node.binding.job_type
    if not name or name.startswith((OWN_JOBS, FOREIGN_JOBS)) or registry.find(name) is not None:
        return
    verb = name if VERB_NAME.fits(name) else f"{_slug(process.id)}.{_slug(name)}"
    words = f"make it a verb: @registry.verb({verb!r}, mode='external', writes=(...)), a function of the case"
    task = registry.find_task(name)
    if task is not None and task.variable_names:
        words += f"; it reads {', '.join(task.variable_names)} as fields, not as variables"
    if verb != name:
        words += f"; write type={verb!r} in the model"
    yield HollowChange(
        "task", node.element.line, node.id, f"the plain task {name}" if task else f"the job {name}", words
    )


def _mapping(node: FlowNode, mapping: DataMapping) -> HollowChange:
    source = mapping.source.text if mapping.source is not None else "nothing"
    has = f"the {mapping.direction} mapping of {source} to {mapping.target}"
    if mapping.direction == "input":
        words = f"remove it: the verb reads it from the case and computes {mapping.target} itself"
    else:
        words = f"remove it: the verb stores it as the field {mapping.target.partition('.')[0]} of the case"
    return HollowChange("mapping", mapping.element.line, node.id, has, words, "HB302")


def _condition(branch: Branch, code: str) -> HollowChange:
    flag = f"orch_{_slug(branch.flow.id, '_')}"
    words = (
        f"let the verb before it decide and set the flag {flag}, declare {flag}: {{type: boolean, initial: false}}"
        f" in the contract, and write: ={flag} = true"
    )
    return HollowChange(
        "condition",
        branch.condition.place.position.line,
        branch.flow.id,
        f"the condition {branch.condition.text}",
        words,
        code,
    )


def _found_by_linter(model: Resource, definitions: Definitions, settings: Settings | None) -> Iterator[HollowChange]:
    """Yield the other reasons why a model is not hollow: scripts, timers, correlation keys, foreign elements."""
    refused = {branch.error.code for branch in branches(definitions) if branch.error is not None}
    hollow = replace(settings or Settings(), profile=HOLLOW)
    for finding in inspect(model.content, model.name, hollow, Contracts()).findings:
        if finding.severity is Severity.ERROR and finding.code not in (*_REPORTED_HERE, *refused):
            yield _finding(finding)


def _finding(finding: Finding) -> HollowChange:
    kind = "condition" if finding.code.startswith("HB2") else "other"
    if kind == "other" and (finding.element_type.endswith("Task") or finding.element_type == "callActivity"):
        kind = "task"
    hint = finding.hint or "change it"
    return HollowChange(
        kind, finding.line, finding.element_id, finding.message, hint[:1].lower() + hint[1:], finding.code
    )


def _slug(text: str, sign: str = "-") -> str:
    slug = OTHER_SIGNS.sub(sign, text.lower()).strip(sign)
    return slug if slug[:1].isalpha() else f"x{sign}{slug}".rstrip(sign)
