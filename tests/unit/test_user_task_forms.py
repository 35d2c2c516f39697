"""The two forms of a user task: one setting decides, and linter, verify and deploy agree about it."""

import shutil
from pathlib import Path

import pytest

from tests.support.bpmn import document, process
from tests.support.weaving import model_of
from verblint.bpmn.model import NodeKind
from verblint.fixes.edits import repair
from verblint.linter import Linter
from verblint.settings import ENGINES, find_project
from verbs import registry
from verbworker.engine.embedded.kernel.definition import compile_models
from verbworker.engine.protocol import Resource
from verbworker.errors import Refused
from verbworker.model.native_tasks import ASSIGNING, CANCELING, COMPLETING, CREATING
from verbworker.model.weave import weave
from verbworker.profile.verify.models import open_linter
from verbworker.profile.verify.sources import open_sources
from verbworker.profile.verify.verifier import verify
from verbworker.work.starts.deploy import prepare

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "processes/kyc-open-case/process.bpmn"
NAME = "processes/kyc-open-case/process.bpmn"
JOB = MODEL.read_bytes()
NATIVE = JOB.replace(
    b'          <ameide:updateDefinition name="review" />',
    b'          <zeebe:userTask />\n          <ameide:updateDefinition name="review" />',
)
TABLE = {
    ("8.6", "job"): "",
    ("8.7", "job"): "",
    ("8.8", "job"): "",
    ("8.9", "job"): "",
    ("8.10", "job"): "HB509",
    ("8.6", "native"): "HB510",
    ("8.7", "native"): "HB510",
    ("8.8", "native"): "",
    ("8.9", "native"): "",
    ("8.10", "native"): "",
}
FORMS = {"job": JOB, "native": NATIVE}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "verbs", tmp_path / "verbs")
    (tmp_path / "processes/kyc-open-case").mkdir(parents=True)
    shutil.copy(MODEL.with_name("compile.lock.json"), tmp_path / "processes/kyc-open-case")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def choose(project: Path, engine: str) -> None:
    (project / "pyproject.toml").write_text(f'[tool.verblint]\nverbs = "verbs"\nengine = "{engine}"\n')


def test_the_table_has_every_profile_and_form() -> None:
    assert set(TABLE) == {(engine, form) for engine in ENGINES for form in FORMS}


@pytest.mark.req("WAIT-01", "X-42")
@pytest.mark.parametrize(("engine", "form"), TABLE)
def test_linter_verify_and_deploy_agree_in_every_profile(project: Path, engine: str, form: str) -> None:
    choose(project, engine)
    model = Resource(NAME, FORMS[form])

    linted = Linter(find_project()).lint(model.content, NAME)
    verified = verify([model], open_sources([model])).report
    prepared = prepare([model], open_linter(), registry)

    expected = [TABLE[engine, form]] if TABLE[engine, form] else []
    assert [finding.code for finding in linted.findings] == expected
    assert [finding.code for finding in verified.findings] == expected
    assert [finding.code for finding in prepared.report.findings] == expected
    assert (not prepared.ready, prepared.refusals) == (bool(expected), ())


@pytest.mark.parametrize(("engine", "form"), TABLE)
def test_weaving_alone_refuses_only_what_an_engine_does_not_report(engine: str, form: str) -> None:
    version = int(engine.split(".")[0]), int(engine.split(".")[1])
    if TABLE[engine, form] == "HB510":
        with pytest.raises(Refused, match=rf"the user task review with zeebe:userTask, which engine {engine} does not"):
            weave(FORMS[form], registry, engine=version)
        return

    woven = weave(FORMS[form], registry, engine=version)

    (task,) = (node for _, node in model_of(woven.content).executable[0].walk(NodeKind.USER_TASK))
    heard = [(listener.event, listener.type and listener.type.text) for listener in task.binding.task_listeners]
    native = [("creating", CREATING), ("assigning", ASSIGNING), ("completing", COMPLETING), ("canceling", CANCELING)]
    assert heard == (native if form == "native" else [])
    assert [mapping.target for mapping in task.binding.mappings] == (["vw_entry_id"] if form == "native" else [])
    assert woven.waits == weave(JOB, registry).waits
    assert woven.compiled.ir_digest == weave(JOB, registry).compiled.ir_digest


@pytest.mark.parametrize(("engine", "before", "after"), [("8.10", JOB, NATIVE), ("8.6", NATIVE, JOB)])
def test_a_fix_turns_one_form_into_the_other_byte_for_byte(
    project: Path, engine: str, before: bytes, after: bytes
) -> None:
    choose(project, engine)

    repaired = repair(Linter(find_project()), before, NAME)

    assert (repaired.content == after, repaired.applied, repaired.report.findings) == (True, 1, ())


def with_form(model: bytes, attribute: str) -> bytes:
    update = b'<ameide:updateDefinition name="review" />'
    form = f"<zeebe:formDefinition {attribute} />"
    return model.replace(update, form.encode() + b"\n          " + update)


@pytest.mark.parametrize(
    ("engine", "before", "after"),
    [
        ("8.6", with_form(NATIVE, 'externalReference="form-1"'), with_form(JOB, 'formKey="form-1"')),
        ("8.10", with_form(JOB, 'formKey="form-1"'), with_form(NATIVE, 'externalReference="form-1"')),
        ("8.6", with_form(NATIVE, 'formId="review"'), with_form(JOB, 'formId="review"')),
        ("8.8", with_form(JOB, 'externalReference="form-1"'), with_form(JOB, 'formKey="form-1"')),
        ("8.8", with_form(NATIVE, 'formKey="form-1"'), with_form(NATIVE, 'externalReference="form-1"')),
        ("8.6", with_form(NATIVE, 'formKey="form-1"'), with_form(JOB, 'formKey="form-1"')),
        ("8.10", with_form(JOB, 'externalReference="form-1"'), with_form(NATIVE, 'externalReference="form-1"')),
    ],
)
def test_a_fix_takes_the_form_along(project: Path, engine: str, before: bytes, after: bytes) -> None:
    choose(project, engine)

    repaired = repair(Linter(find_project()), before, NAME)

    assert (repaired.content.decode(), repaired.applied, repaired.report.findings) == (after.decode(), 1, ())


@pytest.mark.parametrize(
    ("engine", "model", "codes"),
    [
        ("8.6", with_form(NATIVE, 'externalReference="camunda-forms:bpmn:form"'), {"HB510"}),
        ("8.10", with_form(JOB, 'formKey="camunda-forms:bpmn:form"'), {"HB509", "HB124"}),
        ("8.10", with_form(JOB, 'formKey="form-1" externalReference=""'), {"HB509"}),
        ("8.8", with_form(JOB, 'formKey="a" externalReference="b"'), {"HB127"}),
    ],
)
def test_a_form_that_cannot_go_along_is_reported_and_not_fixed(
    project: Path, engine: str, model: bytes, codes: set[str]
) -> None:
    choose(project, engine)

    repaired = repair(Linter(find_project()), model, NAME)

    assert (repaired.content == model, repaired.applied) == (True, 0)
    assert {finding.code for finding in repaired.report.findings} == codes


@pytest.mark.req("TOK-22")
def test_the_embedded_engine_runs_both_forms_as_the_same_job() -> None:
    (as_job,), (native,) = (compile_models(weave(form, registry).content, "kyc.bpmn") for form in (JOB, NATIVE))

    assert as_job.nodes["review"].job_type == native.nodes["review"].job_type == "io.camunda.zeebe:userTask"


@pytest.mark.parametrize("native", [True, False])
def test_the_embedded_engine_puts_into_headers_what_the_real_one_does(native: bool) -> None:
    asked = '<zeebe:assignmentDefinition candidateGroups="reviewers"/><zeebe:priorityDefinition priority="70"/>'
    mark = "<zeebe:userTask/>" if native else ""
    task = f'<userTask id="ask"><extensionElements>{mark}{asked}</extensionElements></userTask>'
    flow = '<sequenceFlow id="f" sourceRef="begin" targetRef="ask"/>'

    (made,) = compile_models(document(process('<startEvent id="begin"/>', task, flow)), "x.bpmn")

    given = {"io.camunda.zeebe:candidateGroups": '["reviewers"]', "io.camunda.zeebe:priority": "70"}
    assert dict(made.nodes["ask"].headers) == {k: v for k, v in given.items() if native or not k.endswith("priority")}
