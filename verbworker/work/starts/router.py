"""The router: the only way to run a verb. It hides whether a verb is direct or a workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from verbworker.contract.invocation import Invocation, parse
from verbworker.contract.person import Person, as_person
from verbworker.contract.quota import NO_QUOTAS, Quotas
from verbworker.contract.registry import Registry
from verbworker.contract.text import holds_controls, is_storable, tell_name
from verbworker.contract.verb import Verb
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import InvocationInvalid, PermanentContract, RequestConflict
from verbworker.job.current_verb import performed_verb
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.model.start_variables import begin
from verbworker.payload.canonical import canonical
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Entry, EntryMode
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.cases.runbook import Request, Runbook
from verbworker.stores.database import Database
from verbworker.work.starts.await_end import await_end
from verbworker.work.starts.direct import Direct
from verbworker.work.starts.dispatcher import Dispatcher

LONGEST_REQUEST_KEY = 512
"""Characters of a request key; an index holds them, and Postgres takes 2,704 bytes there."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, for which tenant, and under which key: repeated requests with one key are one request."""

    tenant_id: str
    by: str | Person
    request_key: str | None = None
    provenance: Mapping[str, Any] | None = None
    traceparent: str | None = None

    def __post_init__(self) -> None:
        # As a key, a blank text would merge all requests that bring it; as no key, the request would run twice.
        if self.request_key is not None and not self.request_key.strip():
            raise InvocationInvalid("the request key is blank: pass a key of your own, or none")
        if self.request_key is not None and len(self.request_key) > LONGEST_REQUEST_KEY:
            raise InvocationInvalid(
                f"the request key has {len(self.request_key):,} characters, and {LONGEST_REQUEST_KEY} is the most"
            )


class Router:
    """Turns an invocation into a runbook entry that is carried out."""

    def __init__(
        self,
        registry: Registry,
        database: Database,
        dispatches: Dispatches,
        direct: Direct,
        *,
        engine_id: str,
        ring: KeyRing | None = None,
        dispatcher: Dispatcher | None = None,
        tracer: Tracer = UNTRACED,
        quotas: Quotas = NO_QUOTAS,
    ) -> None:
        self._registry = registry
        self._database = database
        self._dispatches = dispatches
        self._direct = direct
        self._engine_id = engine_id
        self._ring = ring
        self._dispatcher = dispatcher
        self._tracer = tracer
        self._quotas = quotas
        self._runbook = Runbook(database)
        self._instances = Instances(database)

    async def invoke(
        self,
        what: str,
        args: Mapping[str, Any] | None = None,
        *,
        caller: Caller,
        timeout: timedelta = timedelta(seconds=30),
    ) -> Entry:
        """Run a verb: `(kyc.open-case :entity "Allianz GmbH")`, or its name and arguments.

        On return a direct verb has ended and a workflow verb is in progress; a blocking one is awaited for up to
        `timeout`. Raises `InvocationInvalid`, `RequestConflict` or `QuotaExceeded` before anything happens.
        """
        if not isinstance(what, str) or not isinstance(args, Mapping | None):
            given = f"{type(what).__name__} and {type(args).__name__}"
            raise InvocationInvalid(f"a verb is asked for by its name and a mapping of its arguments, not by {given}")
        asked = parse(what) if args is None else Invocation(what, args)
        verb = self._registry.find(asked.verb)
        if verb is not None and self._registry.is_internal(verb.name):
            words = _internal(verb.name, self._registry)
            raise InvocationInvalid(words, {"verb": words})
        workflow = None if verb is not None else self._workflow(asked)
        with self._tracer.request(asked.verb, caller.traceparent) as span:
            caller = replace(caller, traceparent=span.traceparent)
            if workflow is not None:
                entry_id = await self._start(workflow, asked, caller)
            else:
                assert verb is not None, "a verb without a process is a direct one"
                entry_id = await self._perform(verb, asked, caller)
            span.record_entry(entry_id)
        if workflow is not None and workflow.wait == "blocking":
            return await await_end(partial(self._entry, entry_id), timeout=timeout)
        return await self._entry(entry_id)

    async def _perform(self, verb: Verb, asked: Invocation, caller: Caller) -> UUID:
        case = self._direct.case_of(verb, asked.args)
        sentence = self._registry.say(verb.name, asked.args)
        entry_id = await self._open(_request(asked, caller, version="1", mode=EntryMode.SYNC, sentence=sentence))
        await self._direct.perform(verb, entry_id, case, caller.tenant_id)
        return entry_id

    def _workflow(self, asked: Invocation) -> WorkflowVerb:
        workflow = self._registry.workflows.get(asked.verb)
        if workflow is None:
            words = _unknown(asked.verb, self._registry)
            raise InvocationInvalid(words, {"verb": words})
        inside = performed_verb()
        if inside is not None:
            raise PermanentContract(
                f"{inside} may not start {workflow.name}: a step hands over to another process by a message",
                code="WorkflowVerbNested",
            )
        problems = workflow.problems(asked.args)
        if problems:
            fields = {f"args.{tell_name(name)}": words for name, words in problems.items()}
            left = sum(name not in workflow.args and name not in problems for name in asked.args)
            more = f"; and {left:,} more" if left else ""
            raise InvocationInvalid(f"{workflow.name}: {'; '.join(problems.values())}{more}", fields)
        return workflow

    def _refuse_blank_keys(self, workflow: WorkflowVerb, data: Mapping[str, Any], args: Mapping[str, object]) -> None:
        """Refuse a correlation key that is blank and stays so: no message could ever reach the case."""
        steps = [verb.writes for name in workflow.sub_verbs if (verb := self._registry.find(name)) is not None]
        written = {path.partition(".")[0] for writes in steps for path in writes or ()}
        for name, fields in workflow.blank_keys(data, args).items():
            # A step that does not say what it writes may write any field.
            if not fields or not (None in steps or fields & written):
                words = f"the correlation key {name} is blank, so that no message could reach the case"
                raise InvocationInvalid(f"{workflow.name}: {words}")

    async def _start(self, workflow: WorkflowVerb, asked: Invocation, caller: Caller) -> UUID:
        request = _workflow_request(workflow, asked, caller)
        data = workflow.initial_data(asked.args)
        self._refuse_blank_keys(workflow, data, asked.args)
        try:
            beginning = begin(
                workflow,
                data,
                instance_uid=uuid4(),
                entry_id=request.entry_id,
                tenant_id=caller.tenant_id,
                at=datetime.now(UTC),
                args=asked.args,
                ring=self._ring,
            )
        except PermanentContract as error:
            raise InvocationInvalid(f"{workflow.name}: {error}") from error
        instance = Instance.of(workflow, beginning, engine_id=self._engine_id)
        async with self._database.transaction() as connection:
            is_new = await self._runbook.open_in(connection, request, self._quotas.of(request.tenant_id))
            if is_new:
                await self._instances.open_in(connection, instance)
                await self._dispatches.add_in(connection, beginning, workflow.process)
        if not is_new:
            return await self._earlier(request)
        if self._dispatcher is not None:
            self._dispatcher.service.poke()
        return request.entry_id

    async def _open(self, request: Request) -> UUID:
        async with self._database.transaction() as connection:
            is_new = await self._runbook.open_in(connection, request, self._quotas.of(request.tenant_id))
        return request.entry_id if is_new else await self._earlier(request)

    async def _earlier(self, request: Request) -> UUID:
        found = await self._runbook.earlier(request.tenant_id, request.request_key or "")
        assert found is not None, "a request key that conflicts has an entry"
        entry_id, request_hash = found
        if request_hash != request.request_hash:
            raise RequestConflict(
                f"the request key {request.request_key!a} was used before for something else (entry {entry_id})"
            )
        return entry_id

    async def _entry(self, entry_id: UUID) -> Entry:
        entry = await self._runbook.entry(entry_id)
        assert entry is not None, "entries are never deleted"
        return entry


def _workflow_request(workflow: WorkflowVerb, asked: Invocation, caller: Caller) -> Request:
    mode = EntryMode.HUMAN_GATE if workflow.gates else EntryMode.DURABLE
    sentence, version = workflow.say(asked.args), str(workflow.version)
    return _request(asked, caller, version=version, mode=mode, sentence=sentence, process_id=workflow.process)


def _request(
    asked: Invocation, caller: Caller, *, version: str, mode: EntryMode, sentence: str, process_id: str | None = None
) -> Request:
    who = as_person(caller.by)
    try:
        args = canonical(dict(asked.args))
    except PermanentContract as error:
        raise InvocationInvalid(f"{asked.verb}: the arguments cannot be kept: {error}") from error
    if not all(map(is_storable, (asked.args, sentence, who.name, caller.request_key))):
        raise InvocationInvalid(f"{asked.verb}: the arguments hold characters that cannot be kept")
    if any(map(holds_controls, (who.name, caller.tenant_id, caller.request_key or "", *asked.args))):
        raise InvocationInvalid(f"{asked.verb}: a name, the tenant or the request key holds control characters")
    return Request(
        entry_id=uuid4(),
        tenant_id=caller.tenant_id,
        request_key=caller.request_key,
        request_hash=sha256(asked.verb.encode() + b"\n" + args).digest(),
        verb=asked.verb,
        verb_version=version,
        mode=mode,
        sentence=sentence,
        invocation=str(asked),
        args=args,
        asked_by=who.name,
        asked_by_id=who.person_id,
        process_id=process_id,
        provenance=caller.provenance,
        traceparent=caller.traceparent,
    )


def _internal(name: str, registry: Registry) -> str:
    caller = registry.callers(name)[0].name
    return (
        f"{name} is a step of {caller} and not started by itself; start {caller}, or give the contract of {name}"
        " sentences or args to allow it"
    )


def _unknown(name: str, registry: Registry) -> str:
    names = [verb.name for verb in registry] + list(registry.workflows)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no verb {name}{hint}"
