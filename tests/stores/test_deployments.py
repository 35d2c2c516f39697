"""What was deployed: the record of bytes, versions and waits, and what stands against it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256

import pytest

from tests.support.databases import execute
from tests.support.weaving import BY_TIMER, woven
from verbworker.engine.protocol import Deployed
from verbworker.errors import StoreError
from verbworker.model.weave import Woven
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments

AUTHORED = sha256(b"as authored").digest()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, size=2) as database:
        yield database


@pytest.fixture
def deployments(database: Database) -> Deployments:
    return Deployments(database, engine_id="here")


def model(step: str = "wait") -> Woven:
    return woven(f'<intermediateCatchEvent id="{step}" name="Über Nacht">{BY_TIMER}</intermediateCatchEvent>')


def deployed(key: int, version: int, process: str = "case") -> Deployed:
    return Deployed(process, version, key, f"{process}.bpmn")


async def keep(deployments: Deployments, made: Deployed, bytes_of: Woven) -> bool:
    return await deployments.record(made, bytes_of, resource="processes/case.bpmn", authored_sha256=AUTHORED, by="ann")


@pytest.mark.req("VER-02", "COR-07")
async def test_a_definition_is_found_with_its_version_its_hashes_and_its_waits(deployments: Deployments) -> None:
    assert await keep(deployments, deployed(7, 3), model())

    found = await deployments.find(7)

    assert found is not None
    assert (found.process_id, found.version, found.verb, found.resource, found.deployed_by) == (
        "case",
        3,
        "kyc.open-case",
        "processes/case.bpmn",
        "ann",
    )
    assert (found.authored_sha256, found.woven_sha256) == (AUTHORED, sha256(model().content).digest())
    assert (found.waits, found.steps) == (model().waits, 0)
    assert found.waits["wait"].name == "Über Nacht"


async def test_the_very_bytes_can_be_read_again(deployments: Deployments) -> None:
    await keep(deployments, deployed(7, 3), model())

    assert await deployments.content(7) == model().content


async def test_a_definition_is_recorded_once_and_never_changed(deployments: Deployments) -> None:
    first = await keep(deployments, deployed(7, 3), model())
    second = await keep(deployments, deployed(7, 4), model("other"))
    found = await deployments.find(7)

    assert (first, second) == (True, False)
    assert found is not None
    assert (found.version, list(found.waits)) == (3, ["wait"])


async def test_the_latest_is_the_highest_version_however_it_was_recorded(deployments: Deployments) -> None:
    for key, version in ((9, 2), (8, 10), (7, 1)):
        await keep(deployments, deployed(key, version), model())
    await keep(deployments, deployed(99, 99, "other"), model())

    latest = await deployments.latest("case")

    assert latest is not None
    assert (latest.version, latest.definition_key) == (10, 8)


async def test_a_list_has_every_version_of_every_process(deployments: Deployments) -> None:
    for key, version, process in ((1, 1, "b"), (2, 2, "b"), (3, 1, "a")):
        await keep(deployments, deployed(key, version, process), model())

    assert [(one.process_id, one.version) for one in await deployments.list()] == [("a", 1), ("b", 2), ("b", 1)]
    assert len(await deployments.list(limit=1)) == 1


async def test_another_engine_has_deployments_of_its_own(deployments: Deployments, database: Database) -> None:
    await keep(deployments, deployed(7, 3), model())
    elsewhere = Deployments(database, engine_id="there")

    assert await elsewhere.find(7) is None
    assert await elsewhere.latest("case") is None
    assert await elsewhere.content(7) is None
    assert await elsewhere.list() == []


async def test_a_hash_that_is_no_hash_is_refused(deployments: Deployments) -> None:
    with pytest.raises(StoreError, match="authored_sha256"):
        await deployments.record(deployed(7, 3), model(), resource="x", authored_sha256=b"short", by="ann")


async def test_bytes_cannot_be_changed_behind_their_hash(deployments: Deployments, dsn: str) -> None:
    await keep(deployments, deployed(7, 3), model())

    with pytest.raises(Exception, match="process_deployment_check"):
        await execute(dsn, "UPDATE verbworker.process_deployment SET woven = 'other'")


async def test_waits_keep_any_name_a_model_may_have(deployments: Deployments) -> None:
    odd = replace(model(), waits={"x": replace(model().waits["wait"], name='"\\ \u2028 😀')})
    await keep(deployments, deployed(7, 3), odd)
    found = await deployments.find(7)

    assert found is not None
    assert found.waits == odd.waits
