"""The testing kit itself: what it tells about a verb, and what it refuses to guess."""

from dataclasses import replace

import pytest

from tests.support.ledger import Account
from tests.support.worker_boot import OTHER, VERB, one_verb
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.errors import CannotRun, PermanentContract
from verbworker.job.failpoint import Point
from verbworker.testing.kit import Kit
from verbworker.testing.memory import JobState


async def send(account: Account) -> Result[Account]:
    return Result(account.model_copy(update={"sent": True}), flags={"orch_done": True})


async def test_a_verb_is_told_of_in_full(dsn: str) -> None:
    async with Kit.open(dsn, one_verb(send)) as kit:
        ran = await kit.run(VERB, Account(amount=7))

        assert (ran.state, ran.flags, ran.messages) == (JobState.COMPLETED, {"orch_done": True}, ())
        assert ran.data == {"amount": 7, "booked": False, "sent": True, "note": ""}
        assert ran.deliveries == 2  # the second shows that a redelivery changes nothing


async def test_a_verb_of_a_workflow_with_signed_payloads_needs_no_keys_here(dsn: str) -> None:
    plain = one_verb(send)
    signed = Registry()
    for verb in plain:
        signed.add(verb)
    workflows = [replace(workflow, integrity="signed") for workflow in plain.workflows.values()]
    signed.declare(*workflows, policies=plain.policies.values())
    async with Kit.open(dsn, signed) as kit:
        ran = await kit.run(VERB, Account())

        assert (ran.state, ran.messages) == (JobState.COMPLETED, ())


async def test_a_verb_that_breaks_its_contract_is_an_incident_with_its_words(dsn: str) -> None:
    async def refuse(account: Account) -> Account:
        raise PermanentContract("wrong", code="Wrong")

    async with Kit.open(dsn, one_verb(refuse)) as kit:
        ran = await kit.run(VERB, Account())

        assert ran.state is JobState.INCIDENT
        assert ran.messages[0].startswith("PermanentContract Wrong: wrong (at tests/stores/test_kit.py:")


async def test_a_line_of_verbs_is_worked_through_step_by_step(dsn: str) -> None:
    registry = one_verb(send)
    async with Kit.open(dsn, registry) as kit:
        instance = await kit.start(registry.workflows["desk.run"], Account().model_dump(), [VERB, OTHER])
        counts = [await kit.deliver(VERB), await kit.deliver(VERB), await kit.deliver(OTHER)]

        assert (counts, kit.engine.has_ended(instance)) == ([1, 0, 1], True)
        assert '"booked":true' in str(kit.engine.variables(instance)["domain_payload"])


async def test_a_crash_happens_once_and_another_boot_goes_on(dsn: str) -> None:
    keys: list[str] = []

    async def call_out(account: Account, call: Call) -> Account:
        keys.append(call.idempotency_key)
        return account

    async with Kit.open(dsn, one_verb(call_out)) as kit:
        ran = await kit.run(VERB, Account(), crash_at=Point.PERFORMED)

        assert (ran.state, len(keys), len(set(keys))) == (JobState.COMPLETED, 2, 1)


async def test_what_nobody_registered_cannot_be_run(dsn: str) -> None:
    async with Kit.open(dsn, one_verb(send)) as kit:
        with pytest.raises(CannotRun, match=r"no verb desk\.gone is registered"):
            await kit.run("desk.gone", Account())


async def test_what_no_workflow_lists_cannot_be_run(dsn: str) -> None:
    lonely = Registry()
    lonely.verb("desk.lonely", mode="external")(send)
    async with Kit.open(dsn, lonely) as kit:
        with pytest.raises(CannotRun, match=r"no workflow verb lists desk\.lonely"):
            await kit.run("desk.lonely", Account())
