"""What a user task's job says in its headers, on the embedded engine."""

from datetime import UTC, datetime

import pytest

from tests.support.drawing import Drawing
from verblint.bpmn.element import ZEEBE
from verbworker.engine.embedded.kernel.commands import Begin, JobCreated
from verbworker.engine.embedded.kernel.definition import compile_models
from verbworker.engine.embedded.kernel.state import State
from verbworker.engine.embedded.kernel.step import step
from verbworker.errors import CommandInvalid

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def headers(extensions: str, **variables: object) -> dict[str, str]:
    """The headers of the job of a user task with these extensions, without the engine's prefix."""
    model = Drawing().start().user_task("ask").end().flow("begin", "ask", "end").xml().decode()
    task = '<bpmn:userTask id="ask">'
    holder = f'<bpmn:extensionElements xmlns:zeebe="{ZEEBE}">{extensions}</bpmn:extensionElements>'
    model = model.replace(task, task + holder)
    (definition,) = compile_models(model.encode(), "p.bpmn")
    _, effects = step(definition, State(1 << 20), Begin(variables), NOW)
    (job,) = [effect for effect in effects if isinstance(effect, JobCreated)]
    return {name.removeprefix("io.camunda.zeebe:"): value for name, value in job.headers.items()}


def test_literals_are_told_as_zeebe_tells_them() -> None:
    assert headers(
        '<zeebe:assignmentDefinition assignee="ann" candidateGroups="desk, leads"/>'
        '<zeebe:taskSchedule dueDate="2030-01-31T12:00:00Z" followUpDate="2030-01-01T08:30:15+01:00"/>'
        '<zeebe:formDefinition formKey="review"/>'
    ) == {
        "assignee": "ann",
        "candidateGroups": '["desk","leads"]',
        "dueDate": "2030-01-31T12:00Z",
        "followUpDate": "2030-01-01T08:30:15+01:00",
        "formKey": "review",
    }


def test_a_flag_is_read_when_the_task_is_reached_and_left_out_where_it_is_unset() -> None:
    extensions = '<zeebe:assignmentDefinition assignee="=orch_reviewer"/>'

    assert headers(extensions, orch_reviewer="bob") == {"assignee": "bob"}
    assert headers(extensions) == {}
    assert headers('<zeebe:taskSchedule dueDate="=orch_due"/>', orch_due="2030-01-31") == {"dueDate": "2030-01-31"}


@pytest.mark.parametrize(
    ("extensions", "words"),
    [
        ('<zeebe:assignmentDefinition assignee="=a + b"/>', "more than one variable"),
        ('<zeebe:assignmentDefinition candidateUsers="=orch_users"/>', "write names separated by commas"),
        ('<zeebe:taskSchedule dueDate="tomorrow"/>', "an invalid date: tomorrow"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(extensions: str, words: str) -> None:
    with pytest.raises(CommandInvalid, match=words) as refused:
        headers(extensions)

    assert "'ask'" in str(refused.value)
