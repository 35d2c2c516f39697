"""The client: what a program, a command or a page does with cases, for one tenant and in one name."""

import getpass
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import UUID, uuid4

from verbworker.app import settings as config
from verbworker.client.cursors import next_cursor, parse_cursor
from verbworker.client.entry_handle import EntryHandle
from verbworker.client.gate_actions import CLAIM_WAIT_S, GateActions
from verbworker.client.incident_actions import IncidentActions
from verbworker.client.incident_records import IncidentDetail, IncidentPage, IncidentResolution
from verbworker.client.lists import list_stuck, read_status, require_limit, require_tenant
from verbworker.client.record_reports import RecordReport, seal_record, verify_record
from verbworker.client.records import EntryPage, EntryRecord, GatePage, GateRecord, ListedEntry, MessageReceipt
from verbworker.client.resources import Resources, open_resources
from verbworker.contract.message import EnvelopeFields, Message, payload_field
from verbworker.contract.person import Person, as_person
from verbworker.errors import CannotRun, InvocationInvalid, NotFound
from verbworker.runbook.event import Status
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.overview import Filter, Overview
from verbworker.stores.id_prefixes import IdPrefixes
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.upkeep.resolutions import Resolution

if TYPE_CHECKING:
    from verbworker.contract.registry import Registry

EntryId = UUID | str
"""An id, its text, or as much of the beginning of its text as makes it unique."""


class Client:
    """Starts verbs and reads, decides, sends and cancels, from any asyncio program. It needs no worker beside it.

    ```python
    from verbworker import Client

    from verbs import registry

    async with Client.from_environment(registry) as client:
        entry = await client.start("kyc.open-case", {"entity": "Allianz GmbH"}, request_key="order-17")
        outcome = await entry.result(timeout=60)
    ```

    What it starts is stored when the call returns; any worker of the same database carries it out. Open one client for
    the whole program: it holds a few database connections and may be used by any number of tasks. Errors are those of
    `verbworker.errors`: `InvocationInvalid`, `RequestConflict` and `NotFound` mean that nothing was done;
    `StoreUnavailable` means that it is unknown, and a repeated call with the same `request_key` finds out.
    """

    def __init__(
        self,
        settings: config.Settings,
        registry: "Registry | None" = None,
        *,
        by: str | Person | None = None,
        tenant: str | None = None,
        resources: Resources | None = None,
    ) -> None:
        self.tenant = require_tenant(tenant or settings.tenant)
        """The tenant whose cases this client sees."""
        self.person = as_person(by or _user(), settings.roles)
        """The person who acts, unless a call names another; a name alone has the roles of the settings."""
        self.by = self.person.name
        """The name that is recorded for what this client does."""
        self._settings = settings
        self._registry = registry
        self._resources = resources
        self._stack = AsyncExitStack()

    @classmethod
    def from_environment(
        cls,
        registry: "Registry | None" = None,
        *,
        by: str | Person | None = None,
        tenant: str | None = None,
        dsn: str | None = None,
        engine_id: str | None = None,
    ) -> Self:
        """Make a client from `VERBWORKER_...` variables and `verbworker.toml`, as every command does.

        Without a registry it cannot start verbs, but does everything else. Raises `ContractInvalid` if a setting is
        wrong or no database is set. Use it with `async with`, which raises `StoreUnavailable` or `SchemaMismatch` for
        the database.
        """
        settings = config.load(dsn=dsn, engine_id=engine_id, tenant=tenant)
        settings.database(otherwise='pass Client.from_environment(dsn="postgresql://...")')
        return cls(settings, registry, by=by)

    async def __aenter__(self) -> Self:
        if self._resources is not None:
            raise CannotRun("this client is open already: use one `async with` and share the client")
        self._resources = await self._stack.enter_async_context(
            open_resources(self._settings, self._registry, tenant=self.tenant)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources = None
        await self._stack.__aexit__(kind, error, trace)

    def act_for(self, by: str | Person | None = None, *, tenant: str | None = None) -> "Client":
        """Return this client in another name, or for another tenant. It shares the connections and is not closed.

        For a service that acts for its users: `await client.act_for(user.name).start(...)`. A `Person` has roles, and
        an issuer and a subject: `client.act_for(Person("ada", frozenset({"reviewer"}))).decide(...)`. A name alone has
        the roles of this client.
        """
        whose, by = tenant or self.tenant, self._actor(by)
        return Client(self._settings, self._registry, by=by, tenant=whose, resources=self.resources)

    def _actor(self, by: str | Person | None) -> Person:
        """Return who acts in a call: this client's person, or the one that the call names."""
        return as_person(by, self.person.roles) if by else self.person

    def _author(self, by: str | Person | None) -> Person:
        """Return the same; raises `NotAllowed` for a person who may only look."""
        person = self._actor(by)
        person.require_change()
        return person

    @property
    def resources(self) -> Resources:
        """The connections of an open client, for verbworker's own surfaces; not part of the public interface."""
        if self._resources is None:
            raise CannotRun("this client is not open: use it inside of `async with Client.from_environment(...)`")
        return self._resources.of(self.tenant)

    # ---- entries --------------------------------------------------------------------------------------------------

    async def start(
        self,
        verb: str,
        args: Mapping[str, Any] | None = None,
        *,
        request_key: str | None = None,
        by: str | Person | None = None,
        provenance: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> EntryHandle:
        """Start a verb and return its entry: `start("kyc.open-case", {"entity": "Allianz GmbH"})`.

        Without `args` the text may be a whole invocation: `start('(kyc.open-case :entity "Allianz GmbH")')`. A workflow
        verb is stored on return, and a worker carries it out; one whose contract is blocking is awaited for up to 30
        seconds. A direct verb has ended on return: it runs in this process.

        With a `request_key` of your own the call may be repeated safely: the tenant's first request with the key
        counts, and the others return its entry. Raises `InvocationInvalid` if there is no such verb or the arguments
        do not fit, and `RequestConflict` if the key was used for something else. `provenance` is stored with the entry;
        `traceparent` continues a trace (W3C).
        """
        from verbworker.work.starts.router import Caller  # imports the registry's models

        person = self._author(by)
        router = self.resources.router
        await self.resources.require_engine()
        caller = Caller(self.tenant, person, request_key, provenance, traceparent)
        asked = {} if args is None and not str(verb).lstrip().startswith("(") else args
        entry = await router.invoke(verb, asked, caller=caller)
        return EntryHandle(self, entry.entry_id)

    async def entry(self, entry_id: EntryId) -> EntryHandle:
        """Return a handle on one entry; raises `NotFound`."""
        found = await self._entry_id(entry_id)
        if await self.resources.runbook.entry(found, tenant_id=self.tenant) is None:
            raise NotFound(f"the tenant {self.tenant} has no entry {found}")
        return EntryHandle(self, found)

    async def entries(
        self,
        *,
        status: Status | str | None = None,
        verb: str | None = None,
        text: str | None = None,
        entry_id: EntryId | None = None,
        stuck_for: timedelta | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> EntryPage:
        """Return a page of entries, newest first, that match every filter.

        `text` is found in the sentence, the verb or the name of who asked. `stuck_for` returns the entries without
        progress for so long, longest first, each with its reason, and takes no other filter. For the next page pass
        `cursor=page.next`.
        """
        require_limit(limit)
        if stuck_for is not None:
            if any((status, verb, text, entry_id)):
                raise InvocationInvalid("stuck_for cannot be combined with another filter")
            return await list_stuck(self.resources, self.tenant, longer_than=stuck_for, limit=limit, cursor=cursor)
        wanted = Filter(
            status=None if status is None else read_status(status),
            verb=verb,
            text=text,
            entry_id=None if entry_id is None else await self._entry_id(entry_id),
        )
        before = parse_cursor(cursor)
        found = await Overview(self.resources.database).page(self.tenant, wanted, before=before, limit=limit + 1)
        rows = (
            ListedEntry.with_progress(one.entry, one.progress, one.stalls, outcome_name=one.outcome_name)
            for one in found[:limit]
        )
        return EntryPage(entries=tuple(rows), next=next_cursor([one.key for one in found], limit))

    async def cancel(self, entry_id: EntryId, reason: str, *, by: str | Person | None = None) -> EntryRecord:
        """Request the end of an entry; completed steps are not undone. The request is stored on return.

        The entry is cancelled on return if the engine had not started it, else as soon as a worker has told the engine.
        Repeating a request has no effect. Raises `NotFound`, or `RequestConflict` if it ended otherwise before.
        """
        person, resources = self._author(by), self.resources
        # Withdrawing a start needs no engine id: an instance has one row, in one engine.
        dispatches = Dispatches(resources.database, engine_id="", owner=resources.owner)
        entry = await Cancellation(resources.database, dispatches).cancel(
            await self._entry_id(entry_id), tenant_id=self.tenant, by=person.name, reason=reason
        )
        return EntryRecord.of(entry)

    # ---- gates ----------------------------------------------------------------------------------------------------

    async def gates(
        self,
        *,
        gate: str | None = None,
        entry_id: EntryId | None = None,
        closed: bool = False,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> GatePage:
        """Return a page of the gates that wait for a person, the longest wait first; with `closed` also closed ones.

        For the next page pass `cursor=page.next`.
        """
        require_limit(limit)
        entry = None if entry_id is None else await self._entry_id(entry_id)
        return await self._gates.list(gate=gate, entry_id=entry, closed=closed, limit=limit, cursor=cursor)

    async def gate(self, where: EntryId, *, gate: str | None = None) -> GateRecord:
        """Return the gate that a gate id or an entry id names, an open one first.

        Raises `NotFound`, or `RequestConflict` if the entry waits at several: then name the `gate`.
        """
        return await self._gates.find(where, gate)

    async def decide(
        self,
        where: EntryId,
        decision: str,
        *,
        reason: str = "",
        gate: str | None = None,
        inputs: Mapping[str, object] | None = None,
        by: str | Person | None = None,
    ) -> GateRecord:
        """Decide once at a gate, which a gate id or an entry id names; `inputs` is what its contract asks for.

        The decision is stored on return, and a worker tells the engine. Raises `InvocationInvalid` for what the gate
        does not accept, `RequestConflict` if it is decided, closed or claimed by another, `NotAllowed`, `NotFound`.
        """
        return await self._gates.decide(where, decision, reason=reason, gate=gate, inputs=inputs, by=self._actor(by))

    async def claim(
        self, where: EntryId, *, gate: str | None = None, by: str | Person | None = None, wait: float = CLAIM_WAIT_S
    ) -> GateRecord:
        """Claim a gate, so that no other person can decide it; raises `RequestConflict` if another person has it.

        The task list of an engine with native user tasks gets the claim from a worker. Its answer is awaited for up to
        `wait` seconds: a refusal raises `RequestConflict` with the reason. If the engine is away, the claim holds here
        and is sent later, and `claim_words` of the answer says so.
        """
        return await self._gates.claim(where, gate=gate, by=self._actor(by), wait=wait)

    async def release(
        self, where: EntryId, *, gate: str | None = None, by: str | Person | None = None, wait: float = CLAIM_WAIT_S
    ) -> GateRecord:
        """Release a claimed gate; the engine's task list is awaited as for `claim`.

        Raises `NotAllowed` if another person claimed it, unless the roles include supervisor or are not declared.
        """
        return await self._gates.release(where, gate=gate, by=self._actor(by), wait=wait)

    # ---- messages and incidents -----------------------------------------------------------------------------------

    async def send(
        self,
        name: str,
        key: str,
        payload: Mapping[str, Any] | bytes | None = None,
        *,
        message_id: str | None = None,
        entry_id: EntryId | None = None,
        ttl: timedelta | None = None,
        by: str | Person | None = None,
        **envelope: Unpack[EnvelopeFields],
    ) -> MessageReceipt:
        """Send a message to the case that waits for it under a correlation key; it is stored on return.

        With a `message_id` of your own the call may be repeated safely. It waits for its case up to `ttl`, by default
        an hour; then it becomes a dead letter. Raises `MessageInvalid`, or `RequestConflict` for an id used before.
        """
        fields = {
            "message_name": name,
            "message_id": str(uuid4()) if message_id is None else message_id,
            "correlation_key": key,
            "tenant_id": self.tenant,
            "entry_id": None if entry_id is None else str(await self._entry_id(entry_id)),
            **payload_field(payload),
            **envelope,
        }
        return await self.deliver(await self.resources.ingress.compose(fields), ttl=ttl, by=by)

    async def deliver(
        self, message: Message, *, ttl: timedelta | None = None, by: str | Person | None = None
    ) -> MessageReceipt:
        """Send a prepared message, for example from a generated function; its tenant must be this client's."""
        person = self._author(by)
        if message.tenant_id != self.tenant:
            raise InvocationInvalid(
                f"the message is for the tenant {message.tenant_id}, and this client acts for {self.tenant}"
            )
        receipt = await self.resources.ingress.take(message, sent_by=person.name, ttl=ttl)
        return MessageReceipt(message_id=message.message_id, is_new=receipt.is_new)

    async def incidents(
        self, *, without_entry: bool = False, limit: int = 100, cursor: str | None = None
    ) -> IncidentPage:
        """Return a page of what waits for an operator, the longest wait first: held jobs, and incidents of the engine.

        With `without_entry` also held jobs that belong to no entry of any tenant. For the next page pass
        `cursor=page.next`.
        """
        require_limit(limit)
        return await self._incidents(without_entry).list(limit=limit, cursor=cursor)

    async def incident(self, where: EntryId | int, *, without_entry: bool = False) -> IncidentDetail:
        """Return one open incident with the story of its job.

        Its id names it, the id of its entry if that has one incident only, or the key of its job or incident. Raises
        `NotFound`, or `RequestConflict` if there are several.
        """
        return await self._incidents(without_entry).read(where)

    async def resolve(
        self,
        where: EntryId | int,
        reason: str,
        *,
        retries: int = 3,
        as_new: bool = False,
        flags: Mapping[str, str | int] | None = None,
        without_entry: bool = False,
        by: str | Person | None = None,
    ) -> IncidentResolution:
        """Resolve an incident, named as for `incident`: its job gets retries and the engine tries again.

        It is told to the engine on return, and recorded in the entry with `by` and the reason. With `as_new` a held
        verb gets a new idempotency key: its effect outside may happen twice. `flags` are set before, for a gateway
        that found no way. Raises `RequestConflict` if the engine does not accept it, and `NotFound`.
        """
        wanted = Resolution(self._author(by).name, reason, retries, as_new, flags or {})
        return await self._incidents(without_entry).resolve(where, wanted)

    async def verify(self, entry_id: EntryId | None = None, *, against: str | None = None) -> RecordReport:
        """Verify the record of this tenant, or one entry; `against` is the text of a checkpoint from `seal`."""
        which = None if entry_id is None else await self._entry_id(entry_id)
        return await verify_record(self.resources, self.tenant, which, against)

    async def seal(self) -> str:
        """Seal the record of all tenants up to now, and return a checkpoint: text to keep away from the database."""
        return (await seal_record(self.resources)).render()

    def _incidents(self, without_entry: bool) -> IncidentActions:
        return IncidentActions(self.resources, self.tenant, without_entry=without_entry)

    async def _entry_id(self, text: EntryId) -> UUID:
        return text if isinstance(text, UUID) else await self._prefixes.entry(text)

    @property
    def _prefixes(self) -> IdPrefixes:
        return IdPrefixes(self.resources.database, self.tenant)

    @property
    def _gates(self) -> GateActions:
        return GateActions(self.resources, self.tenant)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "client"
