"""The profile plain: what an engine refuses is found, what is merely not hollow is not."""

from pathlib import Path

import pytest

from tests.support.lint_models import CLEAN
from verblint.cli import main
from verblint.contracts.profiles import BY_NAME
from verblint.linter import Linter, lint
from verblint.rules.index import rules
from verblint.settings import PLAIN, Project, SettingError, Settings, find_project
from verblint.testing import assert_hollow

_PLAIN = Project(settings=Settings(profile=PLAIN))
MODEL = b"""<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" targetNamespace="urn:orders">
  <process id="orders" isExecutable="true">
    <startEvent id="begin"><outgoing>a</outgoing></startEvent>
    <sequenceFlow id="a" sourceRef="begin" targetRef="price"/>
    <serviceTask id="price">
      <extensionElements>
        <zeebe:taskDefinition type="price"/>
        <zeebe:ioMapping><zeebe:input source="=order.total * 1.19" target="total"/></zeebe:ioMapping>
      </extensionElements>
      <incoming>a</incoming><outgoing>b</outgoing>
    </serviceTask>
    <sequenceFlow id="b" sourceRef="price" targetRef="is-large"/>
    <exclusiveGateway id="is-large" default="d"><incoming>b</incoming><outgoing>c</outgoing><outgoing>d</outgoing>
    </exclusiveGateway>
    <sequenceFlow id="c" sourceRef="is-large" targetRef="end">
      <conditionExpression>=total &gt; 100 and order.country = "DE"</conditionExpression>
    </sequenceFlow>
    <sequenceFlow id="d" sourceRef="is-large" targetRef="end"/>
    <endEvent id="end"><incoming>c</incoming><incoming>d</incoming></endEvent>
  </process>
</definitions>
"""


def test_mappings_and_conditions_over_variables_are_allowed() -> None:
    hollow = {finding.code for finding in lint(MODEL).findings}

    assert lint(MODEL, project=_PLAIN).findings == ()
    assert {"HB302", "HB203"} <= hollow


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'<zeebe:taskDefinition type="price"/>', b"", "HB409"),
        (b'type="price"', b'type="verbworker.price"', "HB410"),
        (b'targetRef="end">', b'targetRef="nowhere">', "HB010"),
        (b"<conditionExpression>=", b"<conditionExpression>", "HB201"),
        (b'default="d"', b"", "HB222"),
        (b"zeebe:input", b"zeebe:inputs", "HB118"),
    ],
)
def test_what_an_engine_refuses_is_found(old: bytes, new: bytes, code: str) -> None:
    found = lint(MODEL.replace(old, new), project=_PLAIN).findings

    assert code in {finding.code for finding in found}


def test_every_code_of_the_profile_is_a_rule() -> None:
    codes = [rule.code for rule in rules()]

    assert all(any(code.startswith(chosen) for code in codes) for chosen in BY_NAME[PLAIN].rules)


def test_a_setting_gives_single_files_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nplain = ["legacy/*.bpmn"]\n')
    (tmp_path / "legacy").mkdir()
    for name in ("legacy/orders.bpmn", "orders.bpmn"):
        (tmp_path / name).write_bytes(MODEL)
    linter = Linter(find_project())

    assert (main(["check", "legacy"]), main(["check", "orders.bpmn"])) == (0, 1)
    assert [linter.is_plain(name) for name in ("legacy/orders.bpmn", "orders.bpmn")] == [True, False]


def test_a_pattern_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="plain: "):
        Linter(Project(plain=("[z-a]",)))


def test_a_plain_model_is_never_taken_for_a_hollow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nplain = ["clean.bpmn"]\n')
    (tmp_path / "clean.bpmn").write_bytes(CLEAN)

    with pytest.raises(AssertionError, match=r"clean\.bpmn is plain by \[tool\.verblint\], not hollow"):
        assert_hollow("clean.bpmn")
