"""Whatever is done to a model, the linter answers, and never with a crash or a hang."""

import os
from pathlib import Path
from random import Random

import pytest

from tests.support.fixture_models import contracts, fixture_models
from tests.support.lint_models import BARE
from tests.support.model_source import ModelSource
from tests.support.mutation import damaged
from verblint.bpmn.reader import Limits
from verblint.contracts.contract import Contracts
from verblint.fixes.edits import UnsafeFix, repair
from verblint.linter import Linter, lint
from verblint.report import FORMATS, render
from verblint.settings import ENGINES, Project, Settings

COUNT = int(os.environ.get("VERBLINT_MUTATIONS", "10000"))
SEED = int(os.environ.get("VERBLINT_FUZZ_SEED", "20261116"))
MODELS = [model.content for model in fixture_models("rules")] + list(ModelSource(SEED).sized(10))


def linters() -> list[Linter]:
    projects = [Project(settings=Settings(engine=engine)) for engine in ENGINES]
    strict = Project(settings=Settings(profile="strict-v1", allow_identity_mappings=True))
    return [Linter(project, known) for project in (*projects, strict) for known in (Contracts(), contracts())]


@pytest.mark.timeout(600)
def test_damaged_models_are_checked_or_refused() -> None:
    random = Random(SEED)
    choices = linters()
    seen: dict[int, int] = {0: 0, 1: 0}
    for number in range(COUNT):
        content = damaged(MODELS, random)
        report = random.choice(choices).lint(content, "damaged.bpmn")

        assert report.problems == (), f"number {number} of seed {SEED}: {report.problems[0]}"
        assert all(1 <= finding.line <= finding.end_line for finding in report.findings)
        assert all(0 <= finding.offset <= len(content) for finding in report.findings)
        seen[report.exit_code()] += 1

    assert seen[1] > COUNT // 2


@pytest.mark.timeout(600)
def test_reports_on_damaged_models_have_every_format() -> None:
    random = Random(SEED + 1)
    linter = Linter()
    for _ in range(COUNT // 200):
        report = linter.lint(damaged(MODELS, random), "damaged.bpmn")
        for form in FORMATS:
            assert render(report, form).encode() or not report.findings


@pytest.mark.timeout(600)
def test_fixes_of_damaged_models_leave_files_that_can_be_read() -> None:
    random = Random(SEED + 2)
    linter = Linter(contracts=contracts())
    fixable = [content for content in MODELS if any(f.fix for f in linter.lint(content, "x").findings)]
    applied = 0
    for _ in range(COUNT // 40):
        content = damaged(fixable, random)
        try:
            repaired = repair(linter, content, "x")
        except UnsafeFix:
            continue
        applied += repaired.applied
        before = {f.code for f in linter.lint(content, "x").findings if f.code < "HB005"}
        assert {f.code for f in repaired.report.findings if f.code < "HB005"} <= before

    assert applied > COUNT // 200


def test_empty_and_tiny_files_are_refused() -> None:
    for content in (b"", b" ", b"<", b"<a/>", b"\xef\xbb\xbf", b"\x00" * 100, b"<?xml version='1.0'?>"):
        assert lint(content).exit_code() == 1


def many(part: str, count: int) -> bytes:
    """A model of about a megabyte that is wrong in the same way everywhere."""
    parts = "".join(part.format(number) for number in range(count))
    return BARE.replace(b'<startEvent id="start"/>', b'<startEvent id="start"/>' + parts.encode())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part",
    [
        '<serviceTask id="t{0}"/>',
        '<boundaryEvent id="b{0}" attachedToRef="b{0}"/>',
        '<sequenceFlow id="f{0}" sourceRef="start" targetRef="nowhere{0}"/>',
        '<sequenceFlow id="f{0}" sourceRef="ask" targetRef="left"><conditionExpression>=x{0}</conditionExpression>'
        "</sequenceFlow>",
        '<exclusiveGateway id="g{0}" default="g{0}"/><sequenceFlow id="f{0}" sourceRef="g{0}" targetRef="g{0}"/>',
        '<exclusiveGateway id="g{0}"/><sequenceFlow id="f{0}" sourceRef="ask" targetRef="g{0}"/>',
        '<intermediateThrowEvent id="e{0}"><linkEventDefinition name="l{0}"/></intermediateThrowEvent>',
        '<association id="a{0}" sourceRef="b{0}" targetRef="t{0}"/><boundaryEvent id="b{0}" attachedToRef="t">'
        "<compensateEventDefinition/></boundaryEvent>",
        '<userTask id="same"/>',
        "<unknown{0}/>",
        '<task id="t{0}" unknown{0}="x"/>',
        "<subProcess><startEvent/></subProcess>",
    ],
)
def test_a_large_model_that_is_wrong_everywhere_is_answered(part: str) -> None:
    report = lint(many(part, 4_000))

    assert len(report.findings) > 1_000
    assert report.problems == ()


@pytest.mark.timeout(60)
def test_a_large_model_on_one_line_is_answered_and_shown() -> None:
    content = many('<serviceTask id="ä{0}"/>', 8_000).replace(b"\n", b" ")
    report = lint(content, project=Project(settings=Settings(limits=Limits(findings=100_000))))

    assert len(report.findings) > 8_000
    assert render(report, "full").count("^") > 8_000


def test_a_file_is_never_clean_because_nobody_looked(tmp_path: Path) -> None:
    for name in ("gone", "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        assert lint(tmp_path / name).exit_code() == 2
