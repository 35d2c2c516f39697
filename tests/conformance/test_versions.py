"""Versions on both engines: what began on one version ends on it, what begins later takes the latest."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from tests.support.engines import Gateway
from tests.support.models import line
from tests.support.rig import Rig, opened
from tests.support.start_router import asking, beside
from verblint.contracts.contract import Argument
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Deployed, Resource
from verbworker.job.frame import FrameState
from verbworker.job.job import Job
from verbworker.payload.envelope import unpack
from verbworker.runbook.event import Entry, Kind
from verbworker.stores.cases.runbook import Runbook

ON = ("embedded", "zeebe", "zeebe-rest")

PINS = "SELECT process_version, definition_key, instance_key FROM verbworker.workflow_instance WHERE entry_id = $1"


class Letter(BaseModel):
    """A letter as the second version of the schema has it."""

    to: str
    read: list[str] = []


class EarlyLetter(BaseModel):
    """A letter as the first version had it."""

    receiver: str
    read: list[str] = []


@pytest.fixture
def domain(unique: Callable[[str], str]) -> str:
    return unique("post")


def first(domain: str) -> Registry:
    """The application as it was first."""
    verbs = Registry()

    async def read(letter: EarlyLetter) -> EarlyLetter:
        """Read a letter."""
        return letter.model_copy(update={"read": [*letter.read, letter.receiver]})

    return _declared(verbs, domain, read, version=1, initial={"receiver": "args.to"})


def second(domain: str, *, upgrades: bool = True) -> Registry:
    """The application after its data changed shape."""
    verbs = Registry()

    async def read(letter: Letter) -> Letter:
        """Read a letter."""
        return letter.model_copy(update={"read": [*letter.read, letter.to]})

    registry = _declared(verbs, domain, read, version=2, initial={"to": "args.to"})
    if upgrades:

        @registry.upgrade(f"{domain}.letter/v1", to="v2")
        def rename(data: dict[str, Any]) -> dict[str, Any]:
            return {"to": data["receiver"], "read": data.get("read", [])}

    return registry.check()


def _declared(verbs: Registry, domain: str, read: Any, *, version: int, initial: dict[str, str]) -> Registry:
    names = [f"{domain}.{name}" for name in ("glance", "read", "answer")]
    for name in names:
        verbs.verb(name, mode="transactional")(read)
    workflow = WorkflowVerb(
        name=f"{domain}.letter",
        version=version,
        process=f"{domain}-letter",
        schema=f"{domain}.letter/v{version}",
        sub_verbs=tuple(names),
        args={"to": Argument(type="string", required=True)},
        initial=initial,
    )
    return verbs.declare(workflow)


@pytest.fixture
async def rig(dsn: str, gateway: Gateway, domain: str) -> AsyncIterator[Rig]:
    async with opened(dsn, gateway.address, first(domain)) as rig:
        yield rig


@pytest.fixture
async def later(dsn: str, gateway: Gateway, domain: str) -> AsyncIterator[Rig]:
    """The worker after the new version of the application was rolled out."""
    async with opened(dsn, gateway.address, second(domain)) as rig:
        yield rig


async def deployed(rig: Rig, domain: str, *verbs: str) -> Deployed:
    model = line(f"{domain}-letter", [f"{domain}.{verb}" for verb in verbs])
    (made,) = await rig.engine.deploy([Resource("letter.bpmn", model)])
    return made


async def asked(rig: Rig, domain: str, to: str) -> UUID:
    async with beside(rig) as immediate:
        entry = await immediate.router.invoke(f"{domain}.letter", {"to": to}, caller=asking())
        await immediate.dispatcher.drain()
    return entry.entry_id


async def pinned(rig: Rig, entry_id: UUID) -> tuple[Entry, Any]:
    entry = await Runbook(rig.database).entry(entry_id)
    row = await rig.database.fetchrow(PINS, entry_id)
    assert entry is not None
    return entry, row


async def steps(rig: Rig, entry_id: UUID) -> list[str]:
    events = await Runbook(rig.database).events(entry_id)
    return [event.detail["verb"].split(".")[1] for event in events if event.kind is Kind.STEP_COMPLETED]


async def work_all(rig: Rig, verb: str, number: int) -> list[Job]:
    """Work off as many jobs of a verb as are known to be there."""
    worked: list[Job] = []
    while len(worked) < number:
        for job in await rig.take(verb, limit=number - len(worked)):
            await rig.executor.execute(job)
            worked.append(job)
    return worked


@pytest.mark.req("VER-01", "VER-02", "VER-03")
async def test_each_instance_follows_the_model_it_began_with(rig: Rig, domain: str) -> None:
    old = await deployed(rig, domain, "glance", "answer")
    early = await asked(rig, domain, "Ada")
    new = await deployed(rig, domain, "glance", "read")
    late = await asked(rig, domain, "Ben")
    assert (old.version, new.version) == (1, 2)

    await work_all(rig, f"{domain}.glance", 2)
    answered = await rig.work(f"{domain}.answer")
    read = await rig.work(f"{domain}.read")

    for entry_id, model, job in ((early, old, answered), (late, new, read)):
        entry, instance = await pinned(rig, entry_id)
        assert (entry.process_version, entry.definition_key) == (model.version, model.definition_key)
        assert (instance["process_version"], instance["definition_key"]) == (model.version, model.definition_key)
        assert (job.process_version, job.process_instance_key) == (model.version, instance["instance_key"])
        assert entry.verb_version == "1"
    assert await steps(rig, early) == ["glance", "answer"]
    assert await steps(rig, late) == ["glance", "read"]


@pytest.mark.req("VER-01", "VER-03", "PAY-16")
async def test_a_case_that_began_under_the_older_schema_goes_on_under_the_newer(
    rig: Rig, later: Rig, domain: str
) -> None:
    await deployed(rig, domain, "glance", "read")
    early = await asked(rig, domain, "Ada")
    await rig.work(f"{domain}.glance")
    late = await asked(later, domain, "Ben")

    jobs = [*await work_all(later, f"{domain}.glance", 1), *await work_all(later, f"{domain}.read", 2)]

    frames = {job.process_instance_key: await later.frame(job) for job in jobs}
    ended = {}
    for entry_id in (early, late):
        entry, instance = await pinned(later, entry_id)
        frame = frames[instance["instance_key"]]
        assert frame.state is FrameState.COMPLETED
        payload = unpack(frame.output or b"")
        ended[entry_id] = (entry.verb_version, payload.schema, payload.data)
    schema = f"{domain}.letter/v2"
    assert ended[early] == ("1", schema, {"to": "Ada", "read": ["Ada", "Ada"]})
    assert ended[late] == ("2", schema, {"to": "Ben", "read": ["Ben", "Ben"]})


@pytest.mark.req("PAY-16")
async def test_without_an_upgrade_the_case_stops_and_says_which_is_missing(
    rig: Rig, dsn: str, gateway: Gateway, domain: str
) -> None:
    await deployed(rig, domain, "read")
    await asked(rig, domain, "Ada")

    async with opened(dsn, gateway.address, second(domain, upgrades=False)) as careless:
        job = await careless.work(f"{domain}.read")

        assert (await careless.frame(job)).fail_code == "SchemaUnsupported"
        (told,) = careless.engine.failures
    assert told[:2] == (job.key, 0)
    assert f"there is no upgrade of {domain}.letter/v1" in told[2]
