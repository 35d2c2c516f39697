"""The policies of one process lie beside its model, and the linter finds them there."""

from pathlib import Path

import pytest

from verblint import find_project, lint
from verblint.cli import main

CONTRACT = """
verbs:
  - verb: tea.make
    version: 1
    strategy: workflow
    process: tea-make
    sub_verbs: [tea.boil]
  - {verb: tea.boil, writes: [hot]}
"""
POLICIES = """
version: 1
policies:
  - name: NAME
    schedule_to_close_timeout_seconds: 60
    start_to_close_timeout_seconds: 6
    retry:
      maximum_attempts: 3
      initial_interval_seconds: 1
      maximum_interval_seconds: 6
      backoff_coefficient: 2
      non_retryable_error_types: []
"""
MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
                  xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"
                  xmlns:ameide="https://ameide.io/schema/bpmn/extensions/v1" id="d" targetNamespace="urn:tea">
  <bpmn:process id="tea-make" isExecutable="true">
    <bpmn:extensionElements>
      <ameide:workflowDefinition definitionId="tea-make/1" workflowIdTemplate="${state.pot}" />
    </bpmn:extensionElements>
    <bpmn:startEvent id="start"><bpmn:outgoing>a</bpmn:outgoing></bpmn:startEvent>
    <bpmn:serviceTask id="boil">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="tea.boil" />
        <ameide:taskDefinition type="tea.boil" policyRef="slow" />
        <ameide:ioMapping />
      </bpmn:extensionElements>
      <bpmn:incoming>a</bpmn:incoming>
      <bpmn:outgoing>b</bpmn:outgoing>
    </bpmn:serviceTask>
    <bpmn:endEvent id="end"><bpmn:incoming>b</bpmn:incoming></bpmn:endEvent>
    <bpmn:sequenceFlow id="a" sourceRef="start" targetRef="boil" />
    <bpmn:sequenceFlow id="b" sourceRef="boil" targetRef="end" />
  </bpmn:process>
</bpmn:definitions>
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a project whose own policies do not have the one that it names."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "pyproject.toml": '[tool.verblint]\nverbs = "verbs"\n',
        "verbs/tea.yaml": CONTRACT,
        "verbs/policies.yaml": POLICIES.replace("NAME", "standard"),
        "processes/tea-make/process.bpmn": MODEL,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "processes/tea-make/process.bpmn"


def test_a_policy_that_nobody_has_is_found(model: Path) -> None:
    assert [finding.code for finding in lint(model, project=find_project()).findings] == ["AM715"]


@pytest.mark.req("POL-01", "POL-04")
def test_a_policy_beside_the_model_counts_for_it(model: Path) -> None:
    model.with_name("policies.yaml").write_text(POLICIES.replace("NAME", "slow"))

    assert lint(model, project=find_project()).findings == ()


def test_a_policy_beside_another_model_does_not_count(model: Path, tmp_path: Path) -> None:
    (tmp_path / "processes/other").mkdir()
    (tmp_path / "processes/other/policies.yaml").write_text(POLICIES.replace("NAME", "slow"))

    assert [finding.code for finding in lint(model, project=find_project()).findings] == ["AM715"]


def test_policies_beside_the_model_that_cannot_be_read_are_a_problem(model: Path) -> None:
    model.with_name("policies.yaml").write_text("version: 2\npolicies: []\n")

    report = lint(model, project=find_project())

    assert [str(problem) for problem in report.problems] == [
        f"{model.with_name('policies.yaml')}:1:1: version: must be 1"
    ]
    assert report.exit_code() == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_fault_in_policies_is_printed_once_however_many_models_it_affects(
    model: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model.with_name("policies.yaml").write_text("version: 2\npolicies: []\n")
    for name in ("second.bpmn", "third.bpmn"):
        model.with_name(name).write_text(MODEL)

    code = main(["check", "processes", "--jobs", jobs])

    assert code == 2
    assert capsys.readouterr().err.splitlines() == [
        "verblint: processes/tea-make/policies.yaml:1:1: version: must be 1"
    ]
