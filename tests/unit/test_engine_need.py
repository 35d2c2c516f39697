"""The first engine that accepts a woven model, and what is said of an older one."""

import pytest

from tests.support.bpmn import document, process
from tests.support.drawing import listeners
from verbworker.model.engine_need import EngineNeed, read_need

TASK_LISTENER = (
    '<userTask id="ask"><extensionElements><zeebe:taskListeners><zeebe:taskListener eventType="creating" type="x"/>'
    "</zeebe:taskListeners></extensionElements></userTask>"
)


def model(*events: str, inside: str = "") -> bytes:
    """A process with an execution listener for each event."""
    held = listeners(*((event, "x") for event in events))
    return document(process(f"<extensionElements>{held}</extensionElements>", inside))


@pytest.mark.parametrize(
    ("content", "since", "what"),
    [
        (model("end", "cancel"), (8, 10), "a cancel listener"),
        (model("end", inside=TASK_LISTENER), (8, 8), "task listeners"),
        (model("cancel", inside=TASK_LISTENER), (8, 10), "a cancel listener"),
    ],
)
def test_what_the_latest_engine_is_needed_for_decides(content: bytes, since: tuple[int, int], what: str) -> None:
    need = read_need(content)

    assert need is not None
    assert need.since == since
    assert need.what.startswith(f"{what}, which need")


def test_a_model_for_every_engine_needs_none() -> None:
    assert read_need(model("start", "end")) is None


@pytest.mark.parametrize(
    ("version", "number", "known"), [("8.7.3", (8, 7), "8.7"), ("8.6.0", (8, 6), "8.6"), ("8.4.1", (8, 4), "8.6")]
)
def test_an_older_cluster_is_refused_with_the_setting_that_helps(
    version: str, number: tuple[int, int], known: str
) -> None:
    need = EngineNeed("task listeners, which need", (8, 8))

    assert need.refusal(version, number) == (
        f"the cluster is Zeebe {version}, and the woven model has task listeners, which need engine 8.8;"
        f' set engine = "{known}" in [tool.verblint], run verblint check --fix, and deploy again'
    )


@pytest.mark.parametrize(("version", "number"), [("8.8.0", (8, 8)), ("8.10.1", (8, 10)), ("9.0.0", (9, 0))])
def test_a_cluster_that_is_new_enough_is_not_refused(version: str, number: tuple[int, int]) -> None:
    assert EngineNeed("task listeners, which need", (8, 8)).refusal(version, number) is None
