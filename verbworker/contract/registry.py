"""The registry: which verbs exist, which processes may call them, and how they are treated."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel

from verblint.contracts.contract import Sentences
from verblint.contracts.syntax import ERROR_CODE, VERB_NAME
from verblint.names import OWN_JOBS
from verbworker.contract.policy import DEFAULT_POLICY, Policy, load_policies
from verbworker.contract.verb import Act, Call, Mode, OnUnknown, Verb
from verbworker.contract.workflow import WorkflowVerb, load_verbs, say_step, workflow_verbs
from verbworker.errors import ContractInvalid
from verbworker.payload.upgrade import Change, Upgrade, Upgrades

Function = TypeVar("Function", bound=Callable[..., Any])

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Registry:
    """The verbs of an application. Registries are values: merge them with `Registry.of`."""

    def __init__(self) -> None:
        self._verbs: dict[str, Verb] = {}
        self._workflows: dict[str, WorkflowVerb] = {}
        self._policies: dict[str, Policy] = {}
        self._upgrades = Upgrades()
        self._sentences: dict[str, Sentences] = {}

    @classmethod
    def of(cls, *parts: "Registry") -> "Registry":
        """Merge registries into a new one; each name may occur only once."""
        merged = cls()
        for part in parts:
            for verb in part:
                merged.add(verb)
            merged.declare(*part._workflows.values(), policies=part._policies.values(), upgrades=part._upgrades)
            merged._sentences |= part._sentences
        return merged

    def verb(
        self,
        name: str,
        *,
        mode: Literal["transactional", "external"],
        writes: Iterable[str] | None = None,
        errors: Iterable[str] | None = None,
        on_unknown: Literal["rerun", "probe", "hold"] = "rerun",
        idempotency_window: timedelta = timedelta(hours=24),
        probe: Callable[..., Any] | None = None,
        concurrency: int = 32,
        max_runs: int = 5,
        policy: str | None = None,
    ) -> Callable[[Function], Function]:
        """Register a function as a direct verb. The function itself is unchanged.

        `errors` are the codes it may end with through `PermanentBusiness`; if omitted, any code is allowed.
        """

        def register(function: Function) -> Function:
            act, model = _act(name, function)
            self.add(
                Verb(
                    name=name,
                    act=act,
                    model=model,
                    mode=Mode(mode),
                    on_unknown=OnUnknown(on_unknown),
                    idempotency_window=idempotency_window,
                    writes=_names(name, "writes", writes),
                    errors=_names(name, "errors", errors),
                    probe=None if probe is None else _probe(name, probe, model),
                    concurrency=concurrency,
                    max_runs=max_runs,
                    policy=policy,
                    sentence=(inspect.getdoc(function) or name).splitlines()[0],
                )
            )
            return function

        return register

    def upgrade(self, schema: str, *, to: str) -> Callable[[Change], Change]:
        """Register a pure function that upgrades data of an older schema: `upgrade("kyc.open-case/v1", to="v2")`.

        Cases started under the older schema are upgraded at their next step and continue under the newer one.
        """

        def register(change: Change) -> Change:
            self._upgrades.add(Upgrade.of(schema, to, change))
            return change

        return register

    def load(self, folder: Path | str, *, policies: Path | str | None = None) -> "Registry":
        """Add every workflow verb below `folder` and the policies of one file; return this registry.

        A policies file counts only when it is named here, even if it is in the folder.
        """
        if policies is not None:
            self.load_policies(policies)
        contracts = load_verbs(Path(folder))
        # The code of a direct verb is authoritative; only the sentences of its contract are used.
        self._sentences |= {verb.name: verb.sentences for verb in contracts.directs.values() if verb.sentences}
        return self.declare(*workflow_verbs(contracts))

    def load_policies(self, file: Path | str) -> "Registry":
        """Add the policies of one file, as in a process catalogue; return this registry."""
        return self.declare(policies=load_policies(Path(file)).values())

    def add(self, verb: Verb) -> None:
        """Add a direct verb that is already registered, for example in another registry."""
        _check(verb)
        if verb.name in self._verbs or verb.name in self._workflows:
            raise ContractInvalid(f"the verb {verb.name} is registered twice")
        self._verbs[verb.name] = verb

    def declare(
        self, *workflows: WorkflowVerb, policies: Iterable[Policy] = (), upgrades: Iterable[Upgrade] = ()
    ) -> "Registry":
        """Add workflow verbs and policies written in Python instead of YAML; return this registry."""
        for upgrade in upgrades:
            self._upgrades.add(upgrade)
        for policy in policies:
            if self._policies.setdefault(policy.name, policy) != policy:
                raise ContractInvalid(f"the policy {policy.name} is defined twice")
        for workflow in workflows:
            if workflow.name in self._verbs or workflow.name in self._workflows:
                raise ContractInvalid(f"the verb {workflow.name} is registered twice")
            if any(workflow.process == other.process for other in self._workflows.values()):
                raise ContractInvalid(f"the process {workflow.process} belongs to two workflow verbs")
            self._workflows[workflow.name] = workflow
        return self

    def check(self) -> "Registry":
        """Raise `ContractInvalid` unless allow-lists, policies and upgrades fit together; return this registry."""
        for workflow in self._workflows.values():
            for name in (*workflow.sub_verbs, *workflow.compensation.values()):
                if name in self._workflows:
                    raise ContractInvalid(
                        f"{workflow.name} lists the workflow verb {name}; a workflow verb calls direct verbs only"
                    )
            for policy in (workflow.policy, *workflow.policies.values()):
                self._require_policy(workflow.name, policy)
            self._require_errors(workflow)
        for verb in self:
            self._require_policy(verb.name, verb.policy)
        self._upgrades.check(workflow.schema for workflow in self._workflows.values())
        return self

    def _require_errors(self, workflow: WorkflowVerb) -> None:
        """Require that contract and verbs declare the same codes: models are checked against the contract's."""
        for verb in filter(None, map(self.find, workflow.sub_verbs)):
            written = workflow.errors.get(verb.name)
            if (None if written is None else set(written)) == (None if verb.errors is None else set(verb.errors)):
                continue
            raise ContractInvalid(
                f"{workflow.name} says that {verb.name} {_ends_with(written)}, and the verb says that it"
                f" {_ends_with(verb.errors)}; write the same codes in the contract's errors and in errors= of the verb"
            )

    def _require_policy(self, verb: str, policy: str | None) -> None:
        if policy is not None and policy not in self._policies:
            raise ContractInvalid(f"the verb {verb} names the policy {policy}, which no policies file has")

    def __iter__(self) -> Iterator[Verb]:
        return iter(self._verbs.values())

    def __contains__(self, name: object) -> bool:
        return name in self._verbs or name in self._workflows

    def find(self, name: str) -> Verb | None:
        """Return the direct verb of that name."""
        return self._verbs.get(name)

    @property
    def workflows(self) -> Mapping[str, WorkflowVerb]:
        """Return the workflow verbs by name."""
        return MappingProxyType(self._workflows)

    def sentences_of(self, name: str) -> Sentences | None:
        """Return the sentences in a verb's contract, if any."""
        workflow = self._workflows.get(name)
        return self._sentences.get(name) if workflow is None else workflow.sentences

    def say(self, name: str, args: Mapping[str, object]) -> str:
        """Describe a verb in a sentence: from its contract with the arguments filled in, else from its docstring."""
        sentences, verb = self.sentences_of(name), self._verbs.get(name)
        if sentences is not None:
            return say_step(sentences, args)
        return name if verb is None else verb.sentence

    @property
    def upgrades(self) -> Upgrades:
        """Return the upgrades of payloads with older schemas."""
        return self._upgrades

    @property
    def policies(self) -> Mapping[str, Policy]:
        """Return the policies by name."""
        return MappingProxyType(self._policies)

    def workflow_of(self, process_id: str) -> WorkflowVerb | None:
        """Return the workflow verb that owns a process."""
        return next((workflow for workflow in self._workflows.values() if workflow.process == process_id), None)

    def callers(self, verb: str) -> list[WorkflowVerb]:
        """Return the workflow verbs that may call `verb`, also as compensation."""
        return [
            workflow
            for workflow in self._workflows.values()
            if verb in workflow.sub_verbs or verb in workflow.compensation.values()
        ]

    def policy_of(self, verb: Verb, workflow: WorkflowVerb | None = None) -> Policy:
        """Return the policy a verb runs under: the workflow's choice, else the verb's own, else the default."""
        name = (workflow.policy_of(verb.name) if workflow is not None else None) or verb.policy
        return self._policies.get(name, DEFAULT_POLICY) if name else DEFAULT_POLICY


def _act(name: str, function: Callable[..., Any]) -> tuple[Act, type[BaseModel]]:
    """Return how to call an author's function, and the model it takes."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError) as error:
        raise ContractInvalid(f"the type hints of the verb {name} cannot be read: {error}") from error
    case: tuple[str, type[BaseModel]] | None = None
    call: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind not in _NAMED:
            raise ContractInvalid(f"the verb {name} takes {parameter.name!r} without its name, but is called by names")
        if hint is Call and call is None:
            call = parameter.name
        elif isinstance(hint, type) and issubclass(hint, BaseModel) and case is None:
            case = (parameter.name, hint)
        else:
            raise ContractInvalid(
                f"the verb {name} takes {parameter.name!r}; a verb takes one pydantic model and a Call"
            )
    if case is None:
        raise ContractInvalid(f"the verb {name} takes no pydantic model, so it cannot see the case")
    return Act(function, case[0], call, inspect.iscoroutinefunction(function)), case[1]


def _probe(name: str, function: Callable[..., Any], model: type[BaseModel]) -> Act:
    act, probed = _act(name, function)
    if probed is not model:
        raise ContractInvalid(f"the probe of {name} takes {probed.__name__}, but the verb takes {model.__name__}")
    return act


def _ends_with(codes: Iterable[str] | None) -> str:
    if codes is None:
        return "may end with any error code"
    return f"may end with {', '.join(sorted(codes))}" if codes else "ends with no error code"


def _names(name: str, option: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        raise ContractInvalid(f"the verb {name}: write {option}=({given!r},), a lone text is a list of letters")
    return None if given is None else tuple(given)


def _check(verb: Verb) -> None:
    if not VERB_NAME.fits(verb.name):
        raise ContractInvalid(f"{verb.name!r} is no verb name; write it as domain.verb-name in lower case")
    if verb.name.startswith(OWN_JOBS):
        raise ContractInvalid(f"{verb.name} is reserved: the runtime's own job types begin with {OWN_JOBS}")
    if verb.mode is Mode.TRANSACTIONAL and not verb.act.is_async:
        raise ContractInvalid(f"{verb.name} is transactional, so it must be an async function")
    if verb.mode is Mode.TRANSACTIONAL and verb.on_unknown is not OnUnknown.RERUN:
        raise ContractInvalid(f"{verb.name} is transactional: what it did is never unknown, so leave on_unknown out")
    if (verb.probe is not None) != (verb.on_unknown is OnUnknown.PROBE):
        raise ContractInvalid(f"{verb.name}: on_unknown='probe' and a probe function belong together")
    for index, code in enumerate(verb.errors or ()):
        if not isinstance(code, str) or not ERROR_CODE.fits(code):
            raise ContractInvalid(f"{verb.name}: {code!a} is not {ERROR_CODE.description}")
        if code in (verb.errors or ())[:index]:
            raise ContractInvalid(f"{verb.name}: the error code {code} is declared twice")
    if verb.concurrency < 1 or verb.max_runs < 1:
        raise ContractInvalid(f"{verb.name}: concurrency and max_runs are at least 1")
