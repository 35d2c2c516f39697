"""Verify models against their contracts, policies, compiled files and registered verbs.

Everything is compiled in memory. The files that should exist are returned as paths and bytes; writing them is the
caller's decision.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as narrowed

from verblint.report import Finding, Report
from verblint.startup.value import replace
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Resource
from verbworker.errors import CannotRun, Refused
from verbworker.model.outline import Use, outline
from verbworker.profile.compile import Compiled, compile_model
from verbworker.profile.lock import FILE, lock_of
from verbworker.profile.verify.agreement import disagreements
from verbworker.profile.verify.coverage import Resolved, coverage
from verbworker.profile.verify.generate import generate_module, module_name
from verbworker.profile.verify.git_base import Base
from verbworker.profile.verify.location import Location
from verbworker.profile.verify.lock_diff import Origins, compare_lock
from verbworker.profile.verify.model_tree import ModelTree, open_model
from verbworker.profile.verify.rules import (
    DEFINITION_ID_UNCHANGED,
    GENERATED_OUTDATED,
    INITIAL_INCOMPLETE,
    NOT_COMPILED,
    OUTCOME_UNKNOWN,
    POLICY_DIFFERS,
    PROCESS_TWICE,
    VERB_CONTRACT_DIFFERS,
    VERB_UNCALLED,
    VERB_UNREGISTERED,
    WRITES_UNKNOWN,
)
from verbworker.profile.verify.sources import Sources

_FIX_FIRST = "Fix the model first, then run verbworker verify --write"
_SHORT = len("sha256:") + 12  # digits of a digest in a message: enough to compare by eye, as git shows them


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result: the report, and the expected bytes of outdated files, by path.

    `stale` holds the findings that writing these files resolves, `uses` the jobs of all models, `resolved` the policies
    they run under, `compiled` the expected bytes of every generated file.
    """

    report: Report
    sources: Sources
    outdated: Mapping[str, bytes] = field(default_factory=dict)
    stale: tuple[Finding, ...] = ()
    uses: tuple[Use, ...] = ()
    resolved: tuple[Resolved, ...] = ()
    plain: tuple[str, ...] = ()  # models that are not hollow
    compiled: Mapping[str, bytes] = field(default_factory=dict)

    def after_write(self) -> "VerifyReport":
        """Return the result after the files are written."""
        gone = set(map(id, self.stale))
        kept = tuple(found for found in self.report.findings if id(found) not in gone)
        files = dict.fromkeys((*self.report.files, *self.outdated))
        report = replace(self.report, files=tuple(files), findings=kept)
        return VerifyReport(report, self.sources, uses=self.uses, resolved=self.resolved, plain=self.plain)

    def with_coverage(self, registry: Registry, *, is_part: bool = False) -> "VerifyReport":
        """Return the result with the differences of the registered verbs added.

        If the models are only part of the project, the registry may be too: contracts without a model here are compared
        only if the registry has them.
        """
        sources = self._part(registry) if is_part else self.sources
        found = tuple(coverage(registry, sources, self.uses, self.resolved))
        report = _add_findings(self.report, found)
        return narrowed(self, report=report)

    def _part(self, registry: Registry) -> Sources:
        ours = {use.process_id for use in self.uses}
        kept = (flow for flow in self.sources.workflows if flow.process in ours or flow.name in registry.workflows)
        return narrowed(self.sources, workflows=tuple(kept))


def verify(models: Sequence[Resource], sources: Sources, *, base: Base | None = None) -> VerifyReport:
    """Compare models with all files, without writing anything. Registered verbs are not checked yet."""
    verification = _Verification(sources, base)
    for model in models:
        verification.look_at(model)
    return verification.finish()


_STOPPING = {VERB_UNREGISTERED.code, WRITES_UNKNOWN.code, INITIAL_INCOMPLETE.code}
_REPORTED = {OUTCOME_UNKNOWN.code, POLICY_DIFFERS.code, VERB_CONTRACT_DIFFERS.code, VERB_UNCALLED.code, *_STOPPING}


def check_application(models: Sequence[Resource], sources: Sources, registry: Registry) -> tuple[Report, bool]:
    """Return where verbs, contracts and models disagree, and whether a case would stop because of it.

    Locks and generated files are left out: they matter in a review, not while code is written.
    """
    found = verify(models, sources).with_coverage(registry, is_part=True).report
    reported = tuple(finding for finding in found.findings if finding.code in _REPORTED)
    return replace(found, findings=reported), any(finding.code in _STOPPING for finding in reported)


class _Verification:
    """One run: the findings so far, and the expected contents of the files."""

    def __init__(self, sources: Sources, base: Base | None) -> None:
        self._sources = sources
        self._base = base
        self._linted: list[Report] = []
        self._findings: list[Finding] = []
        self._stale: list[Finding] = []
        self._compiled: dict[str, bytes] = {}
        self._looked_at: dict[str, bytes] = {}
        self._owners: dict[str, str] = {}
        self._uses: list[Use] = []
        self._resolved: list[Resolved] = []
        self._plain: list[str] = []

    def look_at(self, model: Resource) -> None:
        """Lint a model, compare it with its contract, and compare its compiled files."""
        linted = self._sources.lint(model)
        self._linted.append(linted)
        with open_model(model) as seen:
            if seen is None:
                return
            self._uses += outline(model).uses
            if self._sources.is_plain(model):
                self._plain.append(model.name)
                return
            self._compare(model, seen, is_sound=not linted.errors)

    def finish(self) -> VerifyReport:
        """Return the findings of all models."""
        linted = Report.of(self._linted)
        looked_at = replace(linted, files=(*linted.files, *self._looked_at))
        report = _add_findings(looked_at, (*self._findings, *self._stale))
        outdated = {path: due for path, due in self._compiled.items() if self._looked_at.get(path) != due}
        return VerifyReport(
            *(report, self._sources, outdated, tuple(self._stale), tuple(self._uses), tuple(self._resolved)),
            plain=tuple(self._plain),
            compiled=self._compiled,
        )

    def _compare(self, model: Resource, seen: ModelTree, *, is_sound: bool) -> None:
        process = seen.process
        workflow = None if process is None else self._sources.workflow_of(process.id)
        policies = self._sources.policies_of(model.name)
        if process is not None and workflow is not None:
            self._findings += disagreements(seen, process, workflow, policies)
        lock_path = os.path.join(os.path.dirname(model.name), FILE)
        is_locked = seen.has_profile or _read(lock_path) is not None
        try:
            compiled = compile_model(model.content, self._sources.workflows, policies.policies)
        except Refused as refusal:
            # If the linter reports the problem too, its message is better.
            if is_sound and is_locked:
                self._findings.append(seen.process_spot().finding(NOT_COMPILED, str(refusal), hint=""))
            return
        self._resolved.append(Resolved(compiled.process_id, tuple(compiled.policies), policies))
        assert workflow is not None, "without a verb that owns it a process is not compiled"
        if not is_locked or not self._is_alone(model, seen, lock_path, compiled, workflow):
            return
        origins = Origins(seen, policies, self._sources.contracts_of(model.name))
        now = lock_of(compiled)
        stale = list(compare_lock(self._look(lock_path), lock_path, now, origins))
        module = self._module(compiled, workflow)
        content = generate_module(compiled, workflow).encode()
        stale += _compared_module(self._look(module), module, content, seen, compiled)
        if is_sound:
            self._stale += stale
            self._compiled |= {lock_path: now.to_bytes(), module: content}
        else:
            # What the linter refuses is not written as if it were valid.
            self._findings += [replace(found, hint=_FIX_FIRST) for found in stale]
        if self._base is not None:
            self._findings += _compare_to_base(self._base, lock_path, compiled, seen)

    def _is_alone(
        self, model: Resource, seen: ModelTree, lock_path: str, compiled: Compiled, workflow: WorkflowVerb
    ) -> bool:
        """Return whether no earlier model has the same lock or module; otherwise report it."""
        for path in (os.path.realpath(lock_path), os.path.realpath(self._module(compiled, workflow))):
            other = self._owners.setdefault(path, model.name)
            if other != model.name:
                words = f"{os.path.basename(path)} is already that of {other}"
                hint = "Give every process a folder of its own"
                spot = seen.process_spot()
                self._findings.append(spot.finding(PROCESS_TWICE, words, hint=hint, process=compiled.process_id))
                return False
        return True

    def _module(self, compiled: Compiled, workflow: WorkflowVerb) -> str:
        """Return the path of the generated module: beside the contract."""
        contract = self._sources.contracts.workflows[workflow.name].origin.file
        return os.path.normpath(os.path.join(os.path.dirname(contract), module_name(compiled.process_id)))

    def _look(self, path: str) -> bytes | None:
        """Return the bytes of a file, and record that it was read."""
        content = _read(path)
        if content is not None:
            self._looked_at[path] = content
        return content


def _compared_module(
    was: bytes | None, path: str, now: bytes, seen: ModelTree, compiled: Compiled
) -> Iterator[Finding]:
    if was is None:
        words = f"the process {compiled.process_id} has no {path}"
        yield seen.process_spot().finding(GENERATED_OUTDATED, words, process=compiled.process_id)
    elif was != now:
        line = _first_difference(was, now)
        words = f"{os.path.basename(path)} is not what {compiled.process_id} gives, from line {line}"
        yield Location.at(path, line).finding(GENERATED_OUTDATED, words, process=compiled.process_id)


def _first_difference(was: bytes, now: bytes) -> int:
    """Return the first line that differs; past the end of the file, its last line."""
    lines = was.splitlines(keepends=True)
    pairs = enumerate(zip(lines, now.splitlines(keepends=True), strict=False), 1)
    return next((number for number, (old, new) in pairs if old != new), max(1, len(lines)))


def _compare_to_base(base: Base, path: str, compiled: Compiled, seen: ModelTree) -> Iterator[Finding]:
    was = base.lock(path)
    # A lock by another version is compared too: what it compiled to is what was promised.
    if was is None or was.definition_id != compiled.definition_id or was.ir_digest == compiled.ir_digest:
        return
    words = (
        f"{compiled.process_id} is another process than at {base.revision} ({compiled.ir_digest[:_SHORT]} now,"
        f" {was.ir_digest[:_SHORT]} then), and its definitionId is still {compiled.definition_id}"
    )
    if was.tool != lock_of(compiled).tool:
        words += f"; its lock was then written by {was.tool}"
    hint = "Change definitionId in the model, then run verbworker verify --write"
    yield seen.definition_spot().finding(DEFINITION_ID_UNCHANGED, words, hint=hint, process=compiled.process_id)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotRun(f"{path}: {error.strerror}") from error


def _add_findings(report: Report, more: Iterable[Finding]) -> Report:
    """Return a report with more findings, sorted by file and line, with the bytes of every quoted file."""
    findings = sorted((*report.findings, *more), key=lambda found: (found.file, found.line, found.column))
    sources = dict(report.sources)
    for finding in findings:
        if finding.file not in sources:
            with suppress(CannotRun):
                sources[finding.file] = _read(finding.file) or b""
    quoted = {file: content for file, content in sources.items() if content}
    return replace(report, findings=tuple(findings), sources=quoted)
