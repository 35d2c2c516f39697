"""Starting instances as the router will: known to the database first, then to the engine, with every variable set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine, Start
from verbworker.model import start_variables as beginning
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import EntryMode
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.cases.runbook import Request, Runbook
from verbworker.stores.database import Database

TENANT = "tests"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An instance the database knows, and the variables the engine is to start it with."""

    instance_uid: UUID
    entry_id: UUID
    variables: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """A running instance."""

    instance_uid: UUID
    entry_id: UUID
    instance_key: int


async def prepare(
    database: Database,
    engine_id: str,
    workflow: WorkflowVerb,
    data: Mapping[str, Any],
    *,
    ring: KeyRing | None = None,
    correlation: Mapping[str, str] | None = None,
    has_entry: bool = False,
) -> Prepared:
    """Make an instance known with its first payload, and perhaps its entry in the runbook; nothing is started yet."""
    ready = beginning.begin(
        workflow,
        data,
        instance_uid=uuid4(),
        entry_id=uuid4(),
        tenant_id=TENANT,
        at=datetime.now(UTC),
        ring=ring if workflow.integrity == "signed" else None,
    )
    instance = Instance(
        instance_uid=ready.instance_uid,
        tenant_id=TENANT,
        entry_id=ready.entry_id,
        verb=workflow.name,
        verb_version=str(workflow.version),
        payload_schema=workflow.schema,
        engine_id=engine_id,
        process_id=workflow.process,
        payload=ready.content,
        correlation={**ready.correlation, **(correlation or {})},
    )
    async with database.transaction() as connection:
        if has_entry:
            assert await Runbook(database).open_in(connection, _request(instance))
        await Instances(database).open_in(connection, instance)
    variables = {**ready.variables, **(correlation or {})}
    return Prepared(ready.instance_uid, ready.entry_id, variables)


def _request(instance: Instance) -> Request:
    return Request(
        entry_id=instance.entry_id,
        tenant_id=instance.tenant_id,
        request_key=None,
        request_hash=b"asked",
        verb=instance.verb,
        verb_version=instance.verb_version,
        mode=EntryMode.DURABLE,
        sentence=f"Run {instance.verb}",
        invocation=f"({instance.verb})",
        args=b"{}",
        asked_by="tests",
        process_id=instance.process_id,
    )


async def begin(
    database: Database,
    engine: Engine,
    workflow: WorkflowVerb,
    data: Mapping[str, Any],
    *,
    ring: KeyRing | None = None,
    correlation: Mapping[str, str] | None = None,
    changes: Mapping[str, object] | None = None,
    has_entry: bool = False,
) -> Begun:
    """Start one instance; `changes` are put over the variables, as somebody would who tampers with them."""
    given: dict[str, Any] = {"ring": ring, "correlation": correlation, "has_entry": has_entry}
    ready = await prepare(database, engine.engine_id, workflow, data, **given)
    started = await engine.start(Start(workflow.process, {**ready.variables, **(changes or {})}))
    await Instances(database).pin(
        ready.instance_uid,
        instance_key=started.instance_key,
        definition_key=started.definition_key,
        version=started.version,
    )
    return Begun(ready.instance_uid, ready.entry_id, started.instance_key)
