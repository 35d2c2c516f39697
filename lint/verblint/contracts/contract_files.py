"""The contract files: `verbs/**/*.yaml` and policy files, read without importing any Python.

A file contains one verb, or several under `verbs`. A complete workflow verb:

    verb: kyc.open-case                  # domain.verb
    version: 1
    strategy: workflow                   # default: direct
    sentences: {step: ..., summary: ..., clarify: ...}
    args:                                # what the caller passes
      entity: {type: string, required: true}
    process: kyc-open-case               # the id of the BPMN process
    wait: fire-and-track                 # or blocking
    correlation:
      business_key: "${state.entity_ref}"
      keys: {corr_documents: "${state.case_id}"}   # written once, read by subscriptions only
    payload:
      schema: kyc.open-case/v1
      budget: 65536                      # bytes
      initial: {entity_ref: args.entity}
      outcome: {decision: data.review_decision}
    sub_verbs: [kyc.request-documents]   # direct verbs only
    flags:
      orch_review_outcome: {type: enum, values: [pending, approved], initial: pending}
    messages: {documents-received: corr_documents}   # message name: its correlation key
    gates:
      review: {task: Review, decisions: [approve, reject]}   # task is the id of the user task
    policy: standard                     # of every sub-verb ...
    policies: {kyc.request-documents: patient}       # ... except these
    compensation: {kyc.request-documents: kyc.withdraw-request}   # step: what undoes it
    errors: {kyc.request-documents: [CASE_CLOSED]}   # step: the error codes it may end with

A direct verb has `verb`, `version`, `sentences`, `args`, `mode` and `writes`: the payload fields it may change. Policy
files are described in `verblint.contracts.policies`. For fields that the linter does not use, only the name is checked;
the runtime checks their content.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from verblint.contracts.contract import (
    Contracts,
    DirectVerb,
    FlagField,
    FlagType,
    FlagValue,
    GateField,
    Origin,
    PolicyFields,
    WorkflowVerbFields,
)
from verblint.contracts.policies import policies_of
from verblint.contracts.section import ContractFault, FieldShape, Section
from verblint.contracts.strict_yaml import YamlError, load

POLICY_FILE = "policies.yaml"

_VERB = FieldShape(
    r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*)+", "a verb's name, like kyc.open-case"
)
_FLAG = FieldShape(r"orch_[a-z0-9]+(?:_[a-z0-9]+)*", "a flag's name, like orch_docs_received")
_KEY = FieldShape(r"corr_[a-z0-9]+(?:_[a-z0-9]+)*", "a correlation key's name, like corr_documents")
_ELEMENT = FieldShape(r"[A-Za-z_][A-Za-z0-9_.-]*", "an element id of BPMN")
_FIELD = FieldShape(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*", "a payload field, like documents_requested")
# The characters a condition can have between quotes.
_WORD = FieldShape(r"[ !#-\[\]-~]+", "plain ASCII without quotes and backslashes")
_CODE = FieldShape(r"[!-~](?:[ -~]{0,198}[!-~])?", "an error code: 1 to 200 printable ASCII characters")
_STRATEGY = FieldShape("direct|workflow", "direct or workflow")
_FLAG_TYPE = FieldShape("|".join(FlagType), "boolean, integer, string or enum")

_SHARED_FIELDS = ("verb", "version", "strategy", "sentences", "args", "summary", "owner")
_WORKFLOW_FIELDS = (
    *("process", "wait", "correlation", "payload", "sub_verbs", "flags", "messages", "gates"),
    *("policy", "policies", "compensation", "errors"),
)
_DIRECT_FIELDS = ("mode", "writes", "on_unknown", "idempotency_window", "policy", "payload", "flags")


class ContractError(Exception):
    """Invalid contracts; `faults` lists every error."""

    def __init__(self, faults: Iterable[ContractFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def read_contracts(
    verbs: Path,
    policies: Iterable[Path] = (),
    known: Mapping[str, PolicyFields] | None = None,
    *,
    is_exact: bool = False,
) -> Contracts:
    """Read all contracts below a folder, and the policies in it and in further files, or raise ContractError.

    A `known` policy is used if no file defines one with that name. With `is_exact`, a policy must not leave anything to
    a default.
    """
    catalogue = _Catalogue(is_exact)
    for file in sorted(p for p in verbs.rglob("*") if p.suffix in (".yaml", ".yml") and p.is_file()):
        if file.name == POLICY_FILE:
            catalogue.add_policies(file)
        else:
            catalogue.add_verbs(file)
    for file in policies:
        catalogue.add_policies(file)
    catalogue.add_known(known or {})
    return catalogue.finish()


def read_policies(file: Path, *, is_exact: bool = False) -> Mapping[str, PolicyFields]:
    """Read the policies of one file by name, or raise ContractError."""
    catalogue = _Catalogue(is_exact)
    catalogue.add_policies(file)
    return catalogue.finish().policies


class _Catalogue:
    """Contracts while they are being read."""

    def __init__(self, is_exact: bool = False) -> None:
        self._is_exact = is_exact
        self._workflows: dict[str, tuple[WorkflowVerbFields, Section]] = {}
        self._directs: dict[str, DirectVerb] = {}
        self._policies: dict[str, PolicyFields] = {}
        self._faults: list[ContractFault] = []

    def add_verbs(self, file: Path) -> None:
        """Read the verb or verbs of a file."""
        section = self._open(file)
        if section is None:
            return
        if "verbs" not in section.members:
            self._add_verb(section)
            return
        section.only(["verbs"])
        for verb in section.sections("verbs"):
            self._add_verb(verb)

    def add_policies(self, file: Path) -> None:
        """Read a policy file."""
        section = self._open(file)
        if section is None:
            return
        for policy, entry in policies_of(section, is_exact=self._is_exact):
            if policy.name in self._policies:
                entry.fault(f"the policy {policy.name} is declared twice", "name")
            self._policies[policy.name] = policy

    def add_known(self, policies: Mapping[str, PolicyFields]) -> None:
        """Add policies that the caller has already read."""
        self._policies = {**policies, **self._policies}

    def finish(self) -> Contracts:
        """Check references between contracts, and return all contracts or raise ContractError."""
        processes: dict[str, str] = {}
        for verb, section in self._workflows.values():
            other = processes.setdefault(verb.process, verb.name)
            if other != verb.name:
                section.fault(f"the process {verb.process} already belongs to {other}", "process")
            self._check_references(verb, section)
        if self._faults:
            raise ContractError(self._faults)
        workflows = {name: verb for name, (verb, _) in self._workflows.items()}
        return Contracts(workflows, self._directs, self._policies)

    def _open(self, file: Path) -> Section | None:
        try:
            document = load(file.read_bytes(), str(file))
        except YamlError as error:
            self._faults.append(ContractFault.of(error))
            return None
        except OSError as error:
            self._faults.append(ContractFault(str(file), 1, 1, "", f"cannot be read: {error.strerror}"))
            return None
        section = Section(document, (), self._faults)
        if not section.members:
            section.fault("the file holds no mapping")
            return None
        return section

    def _add_verb(self, section: Section) -> None:
        name = section.text("verb", like=_VERB)
        if name in self._workflows or name in self._directs:
            section.fault(f"the verb {name} is declared twice", "verb")
        if section.text("strategy", default="direct", like=_STRATEGY) == "workflow":
            self._workflows[name] = (_workflow(section, name), section)
        else:
            self._directs[name] = _direct(section, name)

    def _check_references(self, verb: WorkflowVerbFields, section: Section) -> None:
        for index, name in enumerate(verb.sub_verbs):
            if name in self._workflows:
                message = f"{name} is a workflow verb; a process calls direct verbs only and hands over by message"
                section.fault(message, "sub_verbs", index)
        for step, undo in verb.compensation.items():
            if undo in self._workflows:
                section.fault(f"{undo} is a workflow verb; only a direct verb can undo a step", "compensation", step)
        if verb.policy and verb.policy not in self._policies:
            section.fault(f"no policy is called {verb.policy}", "policy")
        for step, policy in verb.policies.items():
            if policy not in self._policies:
                section.fault(f"no policy is called {policy}", "policies", step)


def _workflow(section: Section, name: str) -> WorkflowVerbFields:
    section.only((*_SHARED_FIELDS, *_WORKFLOW_FIELDS))
    sub_verbs = section.texts("sub_verbs", like=_VERB)
    keys = _keys(section.section("correlation"))
    return WorkflowVerbFields(
        name=name,
        version=section.integer("version", least=1),
        process=section.text("process", like=_ELEMENT),
        origin=_origin(section),
        sub_verbs=sub_verbs,
        flags={flag.name: flag for flag in _flags(section.section("flags"))},
        policy=section.text("policy", default=""),
        policies=_of_steps(section, "policies", sub_verbs, None),
        compensation=_of_steps(section, "compensation", sub_verbs, _VERB),
        errors=_errors(section, sub_verbs),
        correlation=keys,
        messages=_messages(section, keys),
        gates={gate.name: gate for gate in _gates(section.section("gates"))},
    )


def _direct(section: Section, name: str) -> DirectVerb:
    section.only((*_SHARED_FIELDS, *_DIRECT_FIELDS))
    writes = section.texts("writes", like=_FIELD) if "writes" in section.members else None
    return DirectVerb(name, section.integer("version", least=1, default=1), writes, _origin(section))


def _keys(correlation: Section) -> tuple[str, ...]:
    correlation.only(["business_key", "keys"])
    keys = correlation.section("keys")
    for name in keys.members:
        if not _KEY.fits(name):
            keys.fault(f"{name!r} is not {_KEY.description}", name)
    return tuple(keys.members)


def _messages(section: Section, keys: tuple[str, ...]) -> dict[str, str]:
    messages = section.pairs("messages")
    for name, key in messages.items():
        if key not in keys:
            section.fault(f"{key} is not declared in correlation.keys", "messages", name)
    return messages


def _of_steps(section: Section, name: str, steps: tuple[str, ...], like: FieldShape | None) -> dict[str, str]:
    pairs = section.pairs(name, like=like)
    for step in pairs:
        if step not in steps:
            section.fault(f"{step} is not in sub_verbs", name, step)
    return pairs


def _errors(section: Section, steps: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    errors = section.section("errors")
    for step in errors.members:
        if step not in steps:
            errors.fault(f"{step} is not in sub_verbs", step)
        if errors.value(step) is None:
            errors.fault("must be a list", step)
    return {step: errors.texts(step, like=_CODE) for step in errors.members}


def _gates(section: Section) -> Iterator[GateField]:
    for name in section.members:
        gate = section.section(name)
        gate.only(["task", "decisions", "audience"])
        task = gate.text("task", default=name, like=_ELEMENT)
        yield GateField(name, task, gate.texts("decisions", like=_WORD), _origin(gate))


def _flags(section: Section) -> Iterator[FlagField]:
    for name in section.members:
        if not _FLAG.fits(name):
            section.fault(f"{name!r} is not {_FLAG.description}", name)
        yield _flag(name, section.section(name))


def _flag(name: str, section: Section) -> FlagField:
    section.only(["type", "values", "initial", "summary"])
    written = section.text("type", like=_FLAG_TYPE)
    kind = FlagType(written) if _FLAG_TYPE.fits(written) else FlagType.STRING
    values = section.texts("values", like=_WORD)
    if kind is FlagType.ENUM and not values:
        section.fault("an enum needs values", "values")
    if kind is not FlagType.ENUM and values:
        section.fault(f"a flag of type {kind} has no values", "values")
    return FlagField(name, kind, values, _initial(section, kind, values), _origin(section))


def _initial(section: Section, kind: FlagType, values: tuple[str, ...]) -> FlagValue:
    initial = section.value("initial")
    match kind, initial:
        case FlagType.BOOLEAN, bool(value):
            return value
        case FlagType.INTEGER, int(value) if not isinstance(value, bool):
            return value
        case FlagType.STRING, str(value):
            return value
        case FlagType.ENUM, str(value) if value in values:
            return value
    wanted = "one of its values" if kind is FlagType.ENUM else f"of type {kind}"
    section.fault(f"every flag has a value from the start, and it must be {wanted}", "initial")
    return ""


def _origin(section: Section) -> Origin:
    return Origin(section.document.file, *section.position)
