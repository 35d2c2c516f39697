"""Messages and the cases they are for: builders, and an inbox on a real database."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.support.databases import execute
from tests.support.frames import ENGINE, make_instance
from verbworker.contract.message import Message
from verbworker.contract.registry import Registry
from verbworker.contract.verb import ReceivedMessage
from verbworker.contract.workflow import WorkflowVerb
from verbworker.runbook.event import EntryMode, Event, Kind
from verbworker.stores.cases.gates import GateStore
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Request, Runbook
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetter, DeadLetters
from verbworker.stores.messages.inbox import ClaimedMessage, Inbox, Receipt
from verbworker.testing.memory import MemoryEngine
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.messages.ingress import ImmediateDelivery, Ingress

TENANT = "acme"
DOCS = "documents-received"
KEY = "case-1"
VERB = "kyc.open-case"
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def make_message(**changes: Any) -> Message:
    """A message that documents arrived."""
    fields: dict[str, Any] = {
        "message_name": DOCS,
        "message_id": "m-1",
        "correlation_key": KEY,
        "tenant_id": TENANT,
        "payload": {"pages": 3},
    }
    return Message.model_validate({**fields, **changes})


MODEL = f"""<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="urn:tests">
<message id="docs" name="{DOCS}"/>
<process id="kyc" isExecutable="true">
<startEvent id="start"><messageEventDefinition messageRef="docs"/></startEvent>
</process></definitions>"""
_DEPLOY = """
INSERT INTO verbworker.process_deployment
  (engine_id, definition_key, process_id, version, verb, resource, authored_sha256, woven_sha256, woven, deployed_by)
VALUES ($1, 1, 'kyc', 1, 'kyc.open-case', 'kyc.bpmn', sha256($2), sha256($2), $2, 'tests')
"""


async def deploy_model(dsn: str, engine_id: str, message: str = DOCS) -> None:
    """Record that a process is deployed which takes the message."""
    await execute(dsn, _DEPLOY, engine_id, MODEL.replace(DOCS, message).encode())


async def deploy_wait(database: Database, message: str = DOCS) -> None:
    """Record that a process is deployed which waits for the message."""
    await database.execute(_DEPLOY, ENGINE, MODEL.encode())
    waits = {"wait": {"kind": "external_signal", "name": "Wait", "message": message}}
    await database.execute("UPDATE verbworker.process_deployment SET waits = $1::jsonb", json.dumps(waits))


def make_registry(*, message: str = DOCS, process: str = "kyc") -> Registry:
    """A registry whose one workflow verb takes the message by `corr_docs`."""
    workflow = WorkflowVerb(
        name=VERB,
        version=1,
        process=process,
        schema=f"{VERB}/v1",
        correlation={"corr_docs": "${args.case_id}"},
        messages={message: "corr_docs"},
    )
    return Registry().declare(workflow)


@dataclass(frozen=True, slots=True)
class Case:
    """A case that has a key."""

    instance_uid: UUID
    entry_id: UUID


@dataclass(frozen=True, slots=True)
class InboxSetup:
    """An inbox with everything around it."""

    database: Database
    engine: MemoryEngine
    inbox: Inbox
    letters: DeadLetters
    message_delivery: MessageDelivery
    ingress: Ingress
    immediate: ImmediateDelivery
    runbook: Runbook

    async def case(self, key: str = KEY, *, tenant: str = TENANT, verb: str = VERB) -> Case:
        """Open a case that waits under a key."""
        instance = make_instance(tenant_id=tenant, verb=verb, correlation={"corr_docs": key})
        async with self.database.transaction() as connection:
            await self.runbook.open_in(connection, make_request(instance.entry_id, tenant))
            await Instances(self.database).open_in(connection, instance)
        return Case(instance.instance_uid, instance.entry_id)

    async def give_key(self, case: Case, key: str) -> None:
        """What a step does that finds a key out."""
        await self.database.execute(
            "UPDATE verbworker.workflow_instance SET correlation = $2::jsonb WHERE instance_uid = $1",
            case.instance_uid,
            f'{{"corr_docs": "{key}"}}',
        )

    async def end(self, case: Case) -> None:
        """End a case well."""
        async with self.database.transaction() as connection:
            await self.runbook.end_in(connection, case.entry_id, outcome=b"{}", detail={"result": "ok"})

    async def put(self, message: Message | None = None, *, ttl: timedelta = HOUR) -> Receipt:
        """Keep a message."""
        return await self.inbox.receive(message or make_message(), sent_by="tests", ttl=ttl)

    async def consume(self, case: Case, key: str = KEY) -> ReceivedMessage | None:
        """What the bridge does when a wait ends."""
        async with self.database.transaction() as connection:
            return await self.inbox.consume_in(connection, case.instance_uid, DOCS, key)

    async def state(self, message_id: str = "m-1", tenant: str = TENANT) -> str:
        """Where a message stands."""
        row = await self.database.fetchrow(
            "SELECT state FROM verbworker.inbox_message WHERE tenant_id = $1 AND message_id = $2", tenant, message_id
        )
        assert row is not None
        return str(row["state"])

    async def hurry(self, *, over: bool = False) -> None:
        """Let every message be due now; with `over` its time is over as well."""
        await self.database.execute("UPDATE verbworker.inbox_message SET next_at = clock_timestamp()")
        if over:
            await self.database.execute("UPDATE verbworker.inbox_message SET expires_at = clock_timestamp()")

    async def claim(self) -> list[ClaimedMessage]:
        """Claim what is due, as the delivery service does."""
        return await self.inbox.claim(16, names=(DOCS,), claim_for=MINUTE)

    async def letter(self) -> DeadLetter:
        """The one letter that waits for a person."""
        (letter,) = await self.letters.list(TENANT)
        return letter

    async def told(self, case: Case, kind: Kind) -> list[Mapping[str, Any]]:
        """What the entry of a case says of one kind."""
        events: list[Event] = await self.runbook.events(case.entry_id)
        return [event.detail for event in events if event.kind is kind]

    def beside(self) -> Inbox:
        """The same inbox as another process has it."""
        return Inbox(self.database, engine_id=ENGINE, owner=uuid4())


def make_request(entry_id: UUID, tenant: str) -> Request:
    """An entry for a case."""
    mode, said = EntryMode.DURABLE, "Open a case"
    return Request(entry_id, tenant, None, b"-", VERB, "1", mode, said, f"({VERB})", b"{}", "tests")


@asynccontextmanager
async def open_inbox(dsn: str, registry: Registry | None = None) -> AsyncIterator[InboxSetup]:
    """An inbox on a migrated database, with an engine in memory."""
    known = registry or make_registry()
    async with Database(dsn, size=8) as database:
        engine = MemoryEngine(ENGINE)
        inbox = Inbox(database, engine_id=ENGINE, owner=uuid4())
        letters = DeadLetters(database)
        message_delivery = MessageDelivery(known, inbox, letters, engine)
        ingress = Ingress(inbox, letters, delivery=message_delivery)
        immediate = ImmediateDelivery(known, inbox, letters, engine)
        yield InboxSetup(database, engine, inbox, letters, message_delivery, ingress, immediate, Runbook(database))


async def received(database: Database, instance_uid: UUID) -> list[ReceivedMessage]:
    """The messages an instance has read, as a verb gets them."""
    _, messages = await GateStore(database).heard(instance_uid, decisions=False, messages=True)
    return list(messages)
