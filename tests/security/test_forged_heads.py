"""A database user changes the payload of record: nothing reads it, nothing merges onto it, nothing signs it."""

import json
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from tests.support import case_models as models
from tests.support.case_setup import COMPLETE, Case, CaseSetup, case_setup
from tests.support.engines import Gateway
from tests.support.flags import flag_contract
from tests.support.hands import transaction_by_hand
from verblint.contracts.contract import Argument, Flag, FlagType
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import StoreError
from verbworker.job.job import PAYLOAD, PAYLOAD_HASH, Job
from verbworker.payload.signature import KeyRing
from verbworker.runbook.event import Kind
from verbworker.stores.database import Connection

pytestmark = pytest.mark.attack("payload")

ON = ("embedded",)
ALSO_ON = ("zeebe",)
RING = KeyRing("k1", {"k1": b"a secret that is long enough to be one"})
INTEGRITY = ("plain", "signed")


def registry_of(domain: str, integrity: Any) -> Registry:
    """Two verbs that write one field each."""
    verbs = Registry()

    @verbs.verb(f"{domain}.first", mode="transactional", writes=("first",))
    async def first(case: Case) -> Result[Case]:
        """Write one field."""
        return Result(case.model_copy(update={"first": "done"}), flags={"orch_first": True})

    @verbs.verb(f"{domain}.second", mode="external", writes=("second",))
    async def second(case: Case) -> Case:
        """Write the other field."""
        return case.model_copy(update={"second": "done"})

    return verbs.declare(
        WorkflowVerb(
            name=f"{domain}.case",
            version=1,
            process=f"{domain}-case",
            schema=f"{domain}.case/v1",
            integrity=integrity,
            args={"name": Argument(type="string", required=True)},
            initial={"name": "args.name"},
            correlation={"corr_case": "${args.name}"},
            messages={f"{domain}-letter": "corr_case"},
            sub_verbs=(f"{domain}.first", f"{domain}.second"),
            flag_contract=flag_contract(Flag("orch_first", FlagType.BOOLEAN, False)),
        )
    )


@pytest.fixture(params=INTEGRITY)
def integrity(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str], integrity: str) -> AsyncIterator[CaseSetup]:
    domain = unique("heads")
    async with case_setup(dsn, gateway.address, domain, registry_of(domain, integrity), ring=RING) as setup:
        yield setup


class Head:
    """The row as a person with SQL sees it, and may write it past every trigger."""

    def __init__(self, setup: CaseSetup, uid: UUID) -> None:
        self.setup = setup
        self.uid = uid

    async def read(self) -> dict[str, Any]:
        """Every column."""
        row = await self.setup.database.fetchrow(
            "SELECT * FROM verbworker.payload_head WHERE instance_uid = $1", self.uid
        )
        assert row is not None
        return {name: row[name] for name in ("version", "hash", "content", "seal")}

    async def write(self, *, past_triggers: bool, **changes: Any) -> None:
        """Change columns."""
        places = ", ".join(f"{name} = ${number}" for number, name in enumerate(changes, 2))
        async with transaction_by_hand(self.setup.database) as connection:
            if past_triggers:
                await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(
                f"UPDATE verbworker.payload_head SET {places} WHERE instance_uid = $1", self.uid, *changes.values()
            )


def forge(content: bytes) -> bytes:
    """Another payload that fits its envelope."""
    envelope = json.loads(content)
    envelope["data"]["name"] = "Mallory"
    data = json.dumps(envelope["data"], sort_keys=True, separators=(",", ":")).encode()
    envelope["schema_hash"] = "sha256:" + sha256(data).hexdigest()
    return json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()


def hashed(content: bytes) -> dict[str, Any]:
    """Content with everything that needs no key."""
    return {"content": content, "hash": sha256(content).digest(), "seal": "sha256:" + sha256(content).hexdigest()}


async def of_other(setup: CaseSetup) -> dict[str, Any]:
    """The head of another case of the same kind, right in itself."""
    other = await setup.uid(await setup.ask("other"))
    return await Head(setup, other).read()


Forge = Callable[[CaseSetup, dict[str, Any], dict[str, Any]], Any]


async def both(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return hashed(forge(now["content"])) | {"version": now["version"] + 1}


async def both_in_place(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return hashed(forge(now["content"]))


async def only_the_hash(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {"hash": sha256(b"forged").digest()}


async def only_the_content(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {"content": forge(now["content"])}


async def older(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return first | {"version": now["version"] + 1}


async def foreign(setup: CaseSetup, first: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return await of_other(setup) | {"version": now["version"] + 1}


FORGED: dict[str, tuple[Forge, str]] = {
    "content and hash": (both, "HeadUnknown"),
    "content and hash, in place": (both_in_place, "HeadUnknown"),
    "the hash": (only_the_hash, "HeadMismatch"),
    "the content": (only_the_content, "HeadMismatch"),
    "the head of another case": (foreign, "HeadUnknown"),
}


async def forked(setup: CaseSetup) -> tuple[UUID, Head, Job, dict[str, Any]]:
    """A case in which one branch has written, and the other is about to; with the head as it was at first."""
    entry_id = await setup.start(models.forks)
    head = Head(setup, await setup.uid(entry_id))
    first = await head.read()
    job = await setup.take("second")
    await setup.serve("first")
    return entry_id, head, job, first


async def expect_nothing_done(setup: CaseSetup, entry_id: UUID, head: Head, code: str, forged: dict[str, Any]) -> None:
    """The case waits for a person, in a sentence; the head is as it was forged, and the engine heard of nothing."""
    (raised,) = await setup.events(entry_id, Kind.INCIDENT_RAISED)
    assert (raised.detail["code"], raised.detail["class"]) == (code, "PermanentContract")
    assert "Mallory" not in json.dumps(raised.detail)
    assert "\n" not in raised.detail["text"]
    assert await head.read() == forged
    assert not any("Mallory" in str(variables) for _, variables in setup.engine.completions)
    assert await setup.status(entry_id) == "parked"


@pytest.mark.parametrize(("how", "code"), FORGED.values(), ids=FORGED)
async def test_nothing_is_merged_onto_a_forged_head(setup: CaseSetup, how: Forge, code: str) -> None:
    entry_id, head, job, first = await forked(setup)
    await head.write(past_triggers=True, **await how(setup, first, await head.read()))
    forged = await head.read()

    await setup.deliver(job)

    await expect_nothing_done(setup, entry_id, head, code, forged)


@pytest.mark.parametrize(("how", "code"), FORGED.values(), ids=FORGED)
async def test_no_case_ends_with_a_forged_head(setup: CaseSetup, how: Forge, code: str) -> None:
    entry_id, head, job, first = await forked(setup)
    await setup.deliver(job)
    await head.write(past_triggers=True, **await how(setup, first, await head.read()))
    forged = await head.read()

    await setup.serve(COMPLETE)

    await expect_nothing_done(setup, entry_id, head, code, forged)
    assert (await setup.entry(entry_id)).outcome is None


REFUSED: dict[str, Forge] = {
    "the hash": only_the_hash,
    "the content": only_the_content,
    "content and hash, in place": both_in_place,
}


@pytest.mark.parametrize("how", REFUSED.values(), ids=REFUSED)
async def test_the_database_refuses_a_head_that_is_not_true(setup: CaseSetup, how: Forge) -> None:
    _, head, _, first = await forked(setup)

    with pytest.raises(StoreError):
        await head.write(past_triggers=False, **await how(setup, first, await head.read()))


async def test_the_database_refuses_to_set_a_head_back(setup: CaseSetup) -> None:
    _, head, _, first = await forked(setup)

    with pytest.raises(StoreError):
        await head.write(past_triggers=False, **first)
    with pytest.raises(StoreError):
        await head.write(past_triggers=False, seal=None)
    with pytest.raises(StoreError):
        await head.write(past_triggers=False, flags=None)


async def know(connection: Connection, uid: UUID, hash: bytes, version: int) -> None:
    """Have the forged head known as a version as well."""
    await connection.execute(
        "INSERT INTO verbworker.payload_version (instance_uid, hash, version) VALUES ($1, $2, $3)"
        " ON CONFLICT (instance_uid, hash) DO UPDATE SET version = excluded.version",
        *(uid, hash, version),
    )


SIGNED: dict[str, tuple[Forge, str]] = {
    "content and hash": (both, "SealUnsigned"),
    "an older one as a newer": (older, "SealVersion"),
    "the head of another case": (foreign, "SealMismatch"),
}


@pytest.mark.parametrize("integrity", ["signed"], indirect=True)
@pytest.mark.parametrize(("how", "code"), SIGNED.values(), ids=SIGNED)
async def test_a_signed_head_is_proven_by_its_key_alone(setup: CaseSetup, how: Forge, code: str) -> None:
    entry_id, head, job, first = await forked(setup)
    changes = await how(setup, first, await head.read())
    async with transaction_by_hand(setup.database) as connection:
        await know(connection, head.uid, changes["hash"], changes["version"])
    await head.write(past_triggers=True, **changes)
    forged = await head.read()

    await setup.deliver(job)

    await expect_nothing_done(setup, entry_id, head, code, forged)


@pytest.mark.parametrize("integrity", ["signed"], indirect=True)
async def test_an_older_signed_envelope_under_a_newer_version_is_told_apart(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    head = Head(setup, await setup.uid(entry_id))
    first = await setup.take("first")
    await setup.deliver(first)
    now = await head.read()
    # The attacker has the engine and the database: the first envelope, which we did sign, is to be the newest.
    async with transaction_by_hand(setup.database) as connection:
        await connection.execute("DELETE FROM verbworker.payload_version WHERE hash = $1", now["hash"])
        await know(connection, head.uid, sha256(str(first.variables[PAYLOAD]).encode()).digest(), now["version"])
    content = str(first.variables[PAYLOAD]).encode()
    seal = first.variables[PAYLOAD_HASH]
    await head.write(past_triggers=True, content=content, hash=sha256(content).digest(), seal=seal)
    await setup.engine.set_flags(
        await setup.instance_key(entry_id), {name: first.variables[name] for name in (PAYLOAD, PAYLOAD_HASH)}
    )
    forged = await head.read()

    await setup.serve("second")

    await expect_nothing_done(setup, entry_id, head, "SealVersion", forged)


@pytest.mark.parametrize("integrity", ["signed"], indirect=True)
async def test_what_an_older_release_signed_is_taken_once(setup: CaseSetup) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    head = Head(setup, await setup.uid(entry_id))
    now = await head.read()
    tenant = (await setup.entry(entry_id)).tenant_id
    seal = RING.sign_without_version(now["content"], tenant=tenant, instance_uid=str(head.uid), kid="k1")
    await head.write(past_triggers=True, seal=None, unversioned_until=0, flags=None)
    await setup.engine.set_flags(await setup.instance_key(entry_id), {PAYLOAD_HASH: seal})

    await setup.serve("first")

    assert (await head.read())["seal"].startswith("hmac-sha256-v2:k1:1:")
    await setup.serve("second", COMPLETE)
    assert await setup.status(entry_id) == "completed"


async def test_the_seal_is_stored_with_the_head(setup: CaseSetup, integrity: str) -> None:
    entry_id = await setup.start(models.line, "first", "second")
    head = Head(setup, await setup.uid(entry_id))
    seals = [(await head.read())["seal"]]
    for verb in ("first", "second"):
        await setup.serve(verb)
        seals.append((await head.read())["seal"])
    last = await setup.serve(COMPLETE)

    prefixes = [f"hmac-sha256-v2:k1:{version}:" if integrity == "signed" else "sha256:" for version in range(3)]
    assert all(seal.startswith(prefix) for seal, prefix in zip(seals, prefixes, strict=True))
    assert last.variables[PAYLOAD_HASH] == seals[-1]
    assert await setup.status(entry_id) == "completed"
