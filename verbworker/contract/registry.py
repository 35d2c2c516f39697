"""The registry: which verbs exist, which processes may call them, and how they are treated."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from verblint.contracts.contract import Sentences
from verblint.contracts.syntax import ERROR_CODE, VERB_NAME
from verblint.names import OWN_JOBS
from verbworker.contract.hooks import (
    Hook,
    after_hook,
    before_hook,
    choose,
    describe_difference,
    list_known,
    locate_refusals,
    names,
    read_act,
)
from verbworker.contract.policy import DEFAULT_POLICY, Policy, load_policies
from verbworker.contract.task import PlainTask, check_task, plain_task
from verbworker.contract.verb import Act, Mode, OnUnknown, Verb
from verbworker.contract.workflow import WorkflowVerb, load_verbs, say_step, workflow_verbs
from verbworker.errors import ContractInvalid
from verbworker.job.error_place import locate_function
from verbworker.payload.upgrade import Change, Upgrade, Upgrades

if TYPE_CHECKING:
    from pyzeebe import ZeebeTaskRouter

Function = TypeVar("Function", bound=Callable[..., Any])


class Registry:
    """The verbs of an application. Registries are values: merge them with `Registry.of`."""

    def __init__(self, *, before: Iterable[Hook] = (), after: Iterable[Hook] = ()) -> None:
        """Begin an empty registry; its hooks run around each verb that is registered here by `verb`."""
        self._before = tuple(before)
        self._after = tuple(after)
        self._verbs: dict[str, Verb] = {}
        self._tasks: dict[str, PlainTask] = {}
        self._workflows: dict[str, WorkflowVerb] = {}
        self._policies: dict[str, Policy] = {}
        self._upgrades = Upgrades()
        self._sentences: dict[str, Sentences] = {}
        self._startable: set[str] = set()

    @classmethod
    def of(cls, *parts: "Registry") -> "Registry":
        """Merge registries into a new one; each name may occur only once."""
        merged = cls()
        for part in parts:
            for verb in part:
                merged.add(verb)
            for task in part.tasks.values():
                merged.add_task(task)
            merged.declare(*part._workflows.values(), policies=part._policies.values(), upgrades=part._upgrades)
            merged._sentences |= part._sentences
            merged._startable |= part._startable
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
        timeout: timedelta | None = None,
        before: Iterable[Hook] = (),
        after: Iterable[Hook] = (),
    ) -> Callable[[Function], Function]:
        """Register a function as a direct verb. The function itself is unchanged.

        `errors` are the codes it may end with through `PermanentBusiness`; if omitted, any code is allowed.
        `timeout` is how long the engine waits for a silent worker; how long a run may take is in the policy.
        Hooks run inside the verb's run: `before` takes the case, `after` the `Result`, both a `Call` if they want it.
        They return nothing, and one that raises fails the run as if the verb had raised.
        """

        def register(function: Function) -> Function:
            with locate_refusals(function):
                act, model = read_act(name, function)
                verb = Verb(
                    name=name,
                    act=act,
                    model=model,
                    mode=choose(Mode, name, "mode", mode),
                    on_unknown=choose(OnUnknown, name, "on_unknown", on_unknown),
                    idempotency_window=idempotency_window,
                    writes=names(name, "writes", writes),
                    errors=names(name, "errors", errors),
                    probe=None if probe is None else _probe(name, probe, model),
                    concurrency=concurrency,
                    max_runs=max_runs,
                    policy=policy,
                    sentence=(inspect.getdoc(function) or name).splitlines()[0],
                    timeout=timeout,
                    before=tuple(before_hook(name, hook, model) for hook in (*self._before, *before)),
                    after=tuple(after_hook(name, hook) for hook in (*after, *self._after)),
                )
            self.add(verb)
            return function

        return register

    def task(
        self,
        type: str,
        *,
        variables: Iterable[str] | None = None,
        returns: str | None = None,
        concurrency: int = 32,
        batch: int = 32,
        timeout: timedelta | None = None,
        policy: str | None = None,
        on_unknown: Literal["rerun", "hold"] = "rerun",
        idempotency_window: timedelta = timedelta(hours=24),
        max_runs: int = 5,
    ) -> Callable[[Function], Function]:
        """Register a function as a plain task, for a process that is not hollow: variables in, variables out.

        Its parameters are the variables it fetches; one annotated with `TaskCall` gets its idempotency key.
        It answers a dict of variables or None, or with `returns` the value of that variable. New work is better a verb.
        """

        def register(function: Function) -> Function:
            with locate_refusals(function):
                named = None if variables is None else names(type, "variables", variables)
                task = plain_task(
                    *(type, function),
                    variables=named,
                    returns=returns,
                    concurrency=concurrency,
                    batch=batch,
                    timeout=timeout,
                    policy=policy,
                    on_unknown=choose(OnUnknown, type, "on_unknown", on_unknown),
                    idempotency_window=idempotency_window,
                    max_runs=max_runs,
                )
            self.add_task(task)
            return function

        return register

    def include_pyzeebe(
        self,
        router: "ZeebeTaskRouter",
        *,
        on_unknown: Literal["rerun", "hold"] = "rerun",
        idempotency_window: timedelta = timedelta(hours=24),
        max_runs: int = 5,
    ) -> "Registry":
        """Add every task of a pyzeebe router as a plain task; return this registry. Tasks added later are not seen."""
        # Imported here: pyzeebe takes a third of a second to import, and only its users have it loaded already.
        from verbworker.contract.pyzeebe_tasks import tasks_of

        for task in tasks_of(
            router, on_unknown=OnUnknown(on_unknown), idempotency_window=idempotency_window, max_runs=max_runs
        ):
            self.add_task(task)
        return self

    def add_task(self, task: PlainTask) -> None:
        """Add a plain task that is already registered, for example in another registry."""
        with locate_refusals(task.run):
            check_task(task)
            if task.name in self._tasks or task.name in self:
                raise ContractInvalid(f"the job type {task.name} is registered twice")
        self._tasks[task.name] = task

    def upgrade(self, schema: str, *, to: str) -> Callable[[Change], Change]:
        """Register a pure function that upgrades data of an older schema: `upgrade("kyc.open-case/v1", to="v2")`.

        Cases started under the older schema are upgraded at their next step and continue under the newer one.
        """

        def register(change: Change) -> Change:
            with locate_refusals(change):
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
        self._startable |= {verb.name for verb in contracts.directs.values() if verb.sentences or verb.args}
        return self.declare(*workflow_verbs(contracts))

    def load_policies(self, file: Path | str) -> "Registry":
        """Add the policies of one file, as in a process catalogue; return this registry."""
        return self.declare(policies=load_policies(Path(file)).values())

    def add(self, verb: Verb) -> None:
        """Add a direct verb that is already registered, for example in another registry."""
        with locate_refusals(verb.act.function):
            _check(verb)
            if verb.name in self or verb.name in self._tasks:
                raise ContractInvalid(f"the verb {verb.name} is registered twice")
        self._verbs[verb.name] = verb

    def declare(
        self,
        *workflows: WorkflowVerb,
        policies: Iterable[Policy] = (),
        upgrades: Iterable[Upgrade] = (),
        startable: Iterable[str] = (),
    ) -> "Registry":
        """Add workflow verbs and policies written in Python instead of YAML; return this registry.

        `startable` are direct verbs that people may start although a process calls them.
        """
        self._startable.update(startable)
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
                if name in self._tasks:
                    raise ContractInvalid(
                        f"{workflow.name} lists the plain task {name}; a hollow process calls verbs, so make it one"
                    )
            for policy in (workflow.policy, *workflow.policies.values()):
                self._require_policy(workflow.name, policy)
            self._require_errors(workflow)
        for verb in self:
            with locate_refusals(verb.act.function):
                self._require_policy(verb.name, verb.policy)
        for task in self._tasks.values():
            with locate_refusals(task.run):
                self._require_policy(task.name, task.policy)
        self._upgrades.check(workflow.schema for workflow in self._workflows.values())
        return self

    def _require_errors(self, workflow: WorkflowVerb) -> None:
        """Require that contract and verbs declare the same codes: models are checked against the contract's."""
        for verb in filter(None, map(self.find, workflow.sub_verbs)):
            written = workflow.errors.get(verb.name)
            if (None if written is None else set(written)) == (None if verb.errors is None else set(verb.errors)):
                continue
            place = locate_function(verb.act.function)
            raise ContractInvalid(f"{place}: {describe_difference(workflow.name, verb, written)}")

    def _require_policy(self, verb: str, policy: str | None) -> None:
        if policy is not None and policy not in self._policies:
            raise ContractInvalid(
                f"the verb {verb} names the policy {policy}, which no loaded policies file has;"
                f" {list_known(self._policies)}"
            )

    def __iter__(self) -> Iterator[Verb]:
        return iter(self._verbs.values())

    def __contains__(self, name: object) -> bool:
        return name in self._verbs or name in self._workflows

    def find(self, name: str) -> Verb | None:
        """Return the direct verb of that name."""
        return self._verbs.get(name)

    @property
    def tasks(self) -> Mapping[str, PlainTask]:
        """Return the plain tasks by job type."""
        return MappingProxyType(self._tasks)

    def find_task(self, name: str) -> PlainTask | None:
        """Return the plain task of that job type."""
        return self._tasks.get(name)

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

    def flags_of(self, verb: str) -> tuple[str, ...]:
        """Return the flags that a verb's jobs fetch: those of every workflow verb that may call it."""
        return tuple(sorted({name for workflow in self.callers(verb) for name in workflow.flag_contract.flags}))

    def is_internal(self, name: str) -> bool:
        """Return whether a verb is only a step of processes: its contract has no sentences or arguments for people."""
        return name in self._verbs and name not in self._startable and bool(self.callers(name))

    def policy_of(self, verb: Verb | PlainTask, workflow: WorkflowVerb | None = None) -> Policy:
        """Return the policy a verb runs under: the workflow's choice, else the verb's own, else the default."""
        name = (workflow.policy_of(verb.name) if workflow is not None else None) or verb.policy
        return self._policies.get(name, DEFAULT_POLICY) if name else DEFAULT_POLICY


def _probe(name: str, function: Callable[..., Any], model: type[BaseModel]) -> Act:
    act, probed = read_act(name, function)
    if probed is not model:
        raise ContractInvalid(f"the probe of {name} takes {probed.__name__}, but the verb takes {model.__name__}")
    return act


def _check(verb: Verb) -> None:
    if not VERB_NAME.fits(verb.name):
        raise ContractInvalid(f"{verb.name!r} is not a verb name; write it as domain.verb-name in lower case")
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
    if verb.timeout is not None and verb.timeout < timedelta(milliseconds=1):
        raise ContractInvalid(f"{verb.name}: the timeout is at least a millisecond")
