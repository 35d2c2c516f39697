"""One process for every tenant: what is different between them is a flag, and the model branches on it."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.case_setup import COMPLETE, Case, CaseSetup, case_setup
from tests.support.drawing import Drawing
from tests.support.engines import Gateway
from tests.support.flags import flag_contract
from tests.support.start_router import asking
from verblint.contracts.contract import Argument, Flag, FlagType
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb

ON = ("embedded", "zeebe")

APPROVALS = {"north": "one-person", "south": "four-eyes"}


def loans(domain: str) -> Registry:
    """`<domain>.case`: how it is approved is the tenant's rule, which a verb knows and the model does not."""
    verbs = Registry()

    @verbs.verb(f"{domain}.assess", mode="external", writes=())
    async def assess(case: Case, call: Call) -> Result[Case]:
        """Look up how the tenant wants loans to be approved."""
        return Result(case, flags={"orch_approval": APPROVALS[call.tenant_id]})

    @verbs.verb(f"{domain}.approve", mode="external", writes=("first",))
    async def approve(case: Case) -> Case:
        """Approve it."""
        return case.model_copy(update={"first": "approved"})

    @verbs.verb(f"{domain}.countersign", mode="external", writes=("second",))
    async def countersign(case: Case) -> Case:
        """Approve it once more, by another person."""
        return case.model_copy(update={"second": "countersigned"})

    flag = Flag("orch_approval", FlagType.ENUM, "one-person", tuple(APPROVALS.values()))
    return verbs.declare(
        WorkflowVerb(
            name=f"{domain}.case",
            version=1,
            process=f"{domain}-case",
            schema=f"{domain}.case/v1",
            args={"name": Argument(type="string", required=True)},
            initial={"name": "args.name"},
            outcome={"first": "data.first", "second": "data.second"},
            sub_verbs=tuple(f"{domain}.{verb}" for verb in ("assess", "approve", "countersign")),
            flag_contract=flag_contract(flag),
        )
    )


def model(process: str, _: str, domain: str) -> bytes:
    """The one model: a second signature where the flag asks for it."""
    drawing = Drawing(process).start()
    for verb in ("assess", "approve", "countersign"):
        drawing.task(verb, f"{domain}.{verb}")
    drawing.gateway("exclusive", "how", default="how_end").end()
    drawing.flow("begin", "assess", "approve", "how").flow("how", "end")
    drawing.flow("how", "countersign", when='=orch_approval = "four-eyes"').flow("countersign", "end")
    return drawing.xml()


@pytest.fixture
async def setup(dsn: str, gateway: Gateway, unique: Callable[[str], str]) -> AsyncIterator[CaseSetup]:
    domain = unique("loan")
    async with case_setup(dsn, gateway.address, domain, loans(domain)) as setup:
        yield setup


async def start(setup: CaseSetup, tenant: str) -> Any:
    entry = await setup.router.invoke(setup.workflow.name, {"name": "k"}, caller=asking(tenant=tenant))
    setup.entries.append(entry.entry_id)
    await setup.dispatcher.drain()
    return entry.entry_id


@pytest.mark.req("REG-25")
async def test_two_tenants_approve_in_their_own_ways_by_one_model(setup: CaseSetup) -> None:
    definition = await setup.deploy(model)

    north = await start(setup, "north")
    await setup.serve("assess", "approve", COMPLETE)
    south = await start(setup, "south")
    await setup.serve("assess", "approve", "countersign", COMPLETE)

    entries = [await setup.entry(entry_id) for entry_id in (north, south)]
    assert [(entry.tenant_id, entry.outcome) for entry in entries] == [
        ("north", {"first": "approved"}),
        ("south", {"first": "approved", "second": "countersigned"}),
    ]
    assert [entry.definition_key for entry in entries] == [definition, definition]
