"""Models that are not hollow: how they are taken, and what is left to change until they are."""

from pathlib import Path

import pytest

from tests.pyzeebe_app import orders
from tests.support.boundary_jobs import make_registry
from tests.support.bpmn import document, process
from tests.support.weaving import SHARED, registry_of
from verbworker.contract.registry import Registry
from verbworker.contract.task import variables_bytes
from verbworker.engine.protocol import Resource
from verbworker.engine.variables import variables_of
from verbworker.errors import CannotRun, ContractInvalid, Refused
from verbworker.job.outcome import PLAIN_SEAL, JobResult
from verbworker.model.weave import PLAIN_PROCESS, take_plain
from verbworker.profile.migration import report_on

MODEL = Path(orders.__file__).with_name("orders.bpmn")
ORDERS = Resource("orders.bpmn", MODEL.read_bytes())


def test_a_plain_model_is_taken_as_it_is_authored() -> None:
    taken = take_plain(ORDERS.content, orders.registry)

    assert (taken.content, taken.process_id, taken.verb) == (ORDERS.content, "orders", PLAIN_PROCESS)
    assert (taken.is_hollow, taken.compiled.definition_id, taken.steps) == (False, None, 7)
    assert taken.catches["validate"].catches("amount-negative")


def test_a_process_of_a_workflow_verb_is_hollow() -> None:
    content = document(SHARED, process('<startEvent id="begin"/>'))

    with pytest.raises(Refused, match="so it must be hollow"):
        take_plain(content, registry_of())


def test_a_verb_has_no_place_in_a_plain_process() -> None:
    registry = make_registry()
    name = next(iter(registry)).name
    content = ORDERS.content.replace(b"orders.price", name.encode())

    with pytest.raises(Refused, match=f"calls the verb {name} in a plain process"):
        take_plain(content, registry)
    with pytest.raises(Refused, match="cannot be read"):
        take_plain(b"<", registry)


def test_a_workflow_verb_lists_no_plain_task() -> None:
    listed = make_registry()
    registry = Registry().declare(*listed.workflows.values(), policies=listed.policies.values())
    (workflow, *_) = registry.workflows.values()
    registry.task(workflow.sub_verbs[0])(lambda: None)

    with pytest.raises(ContractInvalid, match="lists the plain task"):
        registry.check()


def test_what_a_plain_job_answered_is_what_the_engine_gets() -> None:
    content = variables_bytes("t", {"a": [1, None], "b": "ä"})

    assert variables_of(JobResult(content, PLAIN_SEAL)) == {"a": [1, None], "b": "ä"}


# ---- the report -----------------------------------------------------------------------------------------------------


def test_the_report_lists_every_task_mapping_and_condition_with_what_to_do() -> None:
    report = report_on(ORDERS, orders.registry)

    told = {(change.kind, change.element): change for change in report.changes}
    tasks = ("validate", "refund", "price", "reserve", "charge", "ship", "notify", "archive")
    assert report.counts == {"process": 1, "task": 8, "mapping": 3, "condition": 1}
    assert {element for kind, element in told if kind == "task"} == set(tasks)
    assert "@registry.verb('orders.charge', mode='external'" in told["task", "charge"].change
    assert "it reads order_id, price as fields" in told["task", "charge"].change
    assert told["mapping", "notify"].has == "the input mapping of =customer.email to email"
    assert told["mapping", "ship"].change == "remove it: the verb stores it as the field tracking_number of the case"
    assert told["condition", "large"].has == "the condition =price > 100"
    assert "=orch_large = true" in told["condition", "large"].change
    assert told["condition", "large"].rule == "HB203"


def test_without_a_registry_the_jobs_are_told_all_the_same() -> None:
    report = report_on(ORDERS)

    assert report.counts["task"] == 8
    assert "the job orders.ship" in {change.has for change in report.changes}
    assert report.as_json()["counts"] == {"process": 1, "task": 8, "mapping": 3, "condition": 1}


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        (b'type="orders.ship"', b'type="Ship It"', "task", "write type='orders.ship-it' in the model"),
        (b'type="orders.ship"', b'type="42"', "task", "write type='orders.x-42' in the model"),
        (b'type="orders.ship"', b'type="=carrier"', "task", "the job type is computed"),
        (b"=price &gt; 100", b"=orch_large", "condition", "write: orch_large = true"),
        (b'errorCode="amount-negative"', b'errorCode="=code"', "other", "literal"),
    ],
)
def test_other_things_that_are_not_hollow_are_found_too(old: bytes, new: bytes, kind: str, words: str) -> None:
    report = report_on(Resource("orders.bpmn", ORDERS.content.replace(old, new)), orders.registry)

    assert any(words in f"{change.has} {change.change}" for change in report.changes if change.kind == kind)


def test_a_hollow_model_has_nothing_to_change() -> None:
    import verbs  # the example application

    file = Path("processes/kyc-open-case/process.bpmn")
    report = report_on(Resource(str(file), file.read_bytes()), verbs.registry)

    assert report.changes == ()


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(CannotRun, match=r"x\.bpmn cannot be read"):
        report_on(Resource("x.bpmn", b"<"))


def test_hello_world_is_small() -> None:
    """At most 25 own lines and 7 concepts: Registry, task, TaskCall, key, variables, model, worker."""
    lines = [line for line in Path(orders.__file__).with_name("hello.py").read_text().splitlines() if line.strip()]

    assert len(lines) <= 25
