"""`verbworker scaffold`: what is written into a project folder, what is kept, and what is refused."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.cli_walk import misuse
from tests.support.command import verbworker
from tests.support.project import Project
from tests.support.scaffolded import APP, CATALOGUE, LOCK, MODEL, MODULE, NAME, POLICIES, VERBS, scaffolded
from verbworker.errors import Refused
from verbworker.profile.verify.scaffold import contents
from verbworker.profile.verify.scaffold import scaffold as write


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A scaffold as it is written; whoever changes it takes a copy."""
    return scaffolded(tmp_path_factory.mktemp("scaffold"))


@pytest.fixture
def project(untouched: Project, tmp_path: Path) -> Project:
    return untouched.copy(tmp_path / "project")


# ---- writing --------------------------------------------------------------------------------------------------------


ROOT = Path(__file__).parents[2]
# The repository contract of seed 001, section 2, in Python: one process of a project that may have several.
#   cmd/worker, cmd/ingress -> worker.py, ingress.py    every *_gen of internal -> parcel_return_gen.py
#   internal/activities -> answer.py, outcome.py        internal/process/state -> case.py
#   go.mod -> pyproject.toml                            internal/tests -> tests
OWNED = """
.schemas/policies.schema.json
.schemas/verbs.schema.json
processes/parcel-return/Dockerfile
processes/parcel-return/Dockerfile.dockerignore
processes/parcel-return/README.md
processes/parcel-return/catalog-info.yaml
processes/parcel-return/policies.yaml
processes/parcel-return/process.bpmn
pyproject.toml
tests/test_parcel_return_compile.py
tests/test_parcel_return_workflow.py
verbs/__init__.py
verbs/parcel_return/__init__.py
verbs/parcel_return/answer.py
verbs/parcel_return/case.py
verbs/parcel_return/ingress.py
verbs/parcel_return/outcome.py
verbs/parcel_return/parcel-return.yaml
verbs/parcel_return/worker.py
"""
GENERATED = """
processes/parcel-return/compile.lock.json
verbs/parcel_return/parcel_return_gen.py
"""


@pytest.mark.req("CPL-07", "CPL-10")
def test_a_name_is_all_that_an_empty_folder_needs_for_the_whole_tree(tmp_path: Path) -> None:
    project = Project(tmp_path)

    said = project.scaffold("parcel-return")

    assert (said.code, said.err) == (0, "")
    assert sorted(project.tree()) == sorted([*OWNED.split(), *GENERATED.split()])
    assert f"wrote {MODEL}\n" in said.out
    assert "parcel-return is ready; processes/parcel-return/README.md explains how to test and run it" in said.out


@pytest.mark.req("CPL-07")
@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ([], "missing argument"),
        (["parcel-return", "other"], "unexpected extra argument"),
        (["parcel-return", "--kind", "process"], "no such option"),
        (["parcel-return", "--include-gitops"], "no such option"),
    ],
)
def test_the_command_takes_one_name_and_nothing_that_chooses_what_is_written(words: list[str], wrong: str) -> None:
    found = misuse(["scaffold", *words])

    assert found is not None
    assert wrong in found.lower()


@pytest.mark.req("CPL-08")
def test_there_is_no_command_that_only_compiles() -> None:
    assert misuse(["scaffold", "parcel-return"]) is None
    assert misuse(["compile", "parcel-return"]) == "there is no command compile"


@pytest.mark.req("CPL-10")
def test_the_catalogue_names_the_process_and_the_file_is_of_its_form(untouched: Project) -> None:
    entry = yaml.safe_load(untouched.read(CATALOGUE))

    assert (entry["apiVersion"], entry["kind"]) == ("backstage.io/v1alpha1", "Component")
    assert entry["metadata"]["name"] == NAME
    assert {"type", "lifecycle", "owner"} == entry["spec"].keys()
    assert all(
        re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word) for word in (*entry["metadata"]["tags"], *entry["spec"].values())
    )


def test_no_place_is_left_unnamed(untouched: Project) -> None:
    texts = {name: untouched.read(name) for name in untouched.tree()}

    assert [name for name, text in texts.items() if re.search(r"@(name|package|title)@", text)] == []


@pytest.mark.req("PRX-01", "CPL-02", "CPL-04", "TST-13")
def test_two_runs_in_two_directories_write_the_same_bytes(untouched: Project, tmp_path: Path) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)

    other = scaffolded(tmp_path / "far" / "away")

    assert other.tree() == untouched.tree()


@pytest.mark.req("CPL-06", "CPL-08", "POL-05")
def test_what_is_scaffolded_verifies_until_a_number_is_changed_and_again_when_it_is_written(project: Project) -> None:
    at_first = project.verify(*APP)
    project.change(POLICIES, "maximum_attempts: 3", "maximum_attempts: 4")
    changed = project.verify(*APP, "--format", "concise")
    written = project.verify(*APP, "--write")
    at_last = project.verify(*APP)

    words = "policies.parcel-return.standard.retry.maximum_attempts is 4, and compile.lock.json has 3"
    assert (at_first.code, at_first.err) == (0, "")
    assert changed.code == 1
    assert f"{POLICIES}:9:7: VF802 {words}\n" in changed.out
    assert (written.code, at_last.code) == (0, 0), written.out


@pytest.mark.req("CPL-05")
def test_what_people_own_is_never_written_over(project: Project) -> None:
    project.change(VERBS, "Carry out what was approved.", "Send the parcel back.")
    project.change(MODEL, f'definitionId="{NAME}/1"', f'definitionId="{NAME}/2"')
    before = project.tree()

    said = project.scaffold(NAME)

    after = project.tree()
    assert (said.code, said.err) == (0, "")
    assert {name for name in after if after[name] != before.get(name)} == {LOCK, MODULE}
    assert f"kept {VERBS}\n" in said.out
    assert project.verify(*APP).code == 0


def test_a_second_run_changes_nothing_and_says_so(project: Project) -> None:
    before = project.tree()

    said = project.scaffold(NAME)

    assert (said.code, said.err) == (0, "")
    assert project.tree() == before
    assert "parcel-return is up to date\n" in said.out


@pytest.mark.req("CPL-05")
def test_a_generated_file_that_was_edited_or_removed_is_written_again(project: Project) -> None:
    before = project.tree()
    project.change(MODULE, 'PROCESS_ID: Final = "parcel-return"', 'PROCESS_ID: Final = "parcel-loss"')
    (project.folder / LOCK).unlink()

    said = project.scaffold(NAME, "--json")

    told = json.loads(said.out)
    assert told["written"] == [LOCK, MODULE]
    assert told["left"] == [path for path in OWNED.split() if "parcel" in path]
    assert project.tree() == before


def test_a_verb_that_was_removed_stays_away(project: Project) -> None:
    (project.folder / VERBS).unlink()

    said = project.scaffold(NAME)

    assert said.code == 0, said.err
    assert not (project.folder / VERBS).exists()


def test_a_second_process_leaves_the_first_alone_and_tells_what_is_to_be_added(project: Project) -> None:
    before = project.tree()

    said = project.scaffold("parcel-loss")
    project.write(
        "verbs/__init__.py",
        '"""Both."""\n\nfrom verbs import parcel_loss, parcel_return\nfrom verbworker import Registry\n\n'
        "registry = Registry.of(parcel_loss.registry, parcel_return.registry)\n",
    )
    together = project.verify("--app", "verbs:registry")

    assert said.code == 0, said.err
    assert before.items() <= {**project.tree(), "verbs/__init__.py": before["verbs/__init__.py"]}.items()
    assert "add to verbs/__init__.py:\n  from verbs import parcel_loss\n" in said.out
    assert "conftest" not in said.out.partition("ready")[2]
    assert together.code == 0, together.out + together.err


def test_a_process_is_registered_in_a_project_that_init_made(tmp_path: Path) -> None:
    assert verbworker("init", "my-app", directory=tmp_path).code == 0
    project = Project(tmp_path / "my-app")
    before = project.tree()

    said = project.scaffold(NAME)

    assert (said.code, "registered in verbs/__init__.py\n" in said.out) == (0, True), said.err
    assert "NOT DONE" not in said.out
    changed = {path for path, content in project.tree().items() if before.get(path, content) != content}
    assert changed == {"verbs/__init__.py"}
    assert "from verbs import expense, parcel_return\n" in project.read("verbs/__init__.py")
    deployed = verbworker(
        "deploy", "processes", "--app", "verbs:registry", "--dry-run", "--out", "woven", directory=project.folder
    )
    verified = project.verify("--app", "verbs:registry")
    assert (deployed.code, verified.code) == (0, 0), deployed.err + verified.out


def test_a_project_of_another_form_is_told_what_to_add(tmp_path: Path) -> None:
    assert verbworker("init", "my-app", directory=tmp_path).code == 0
    project = Project(tmp_path / "my-app")
    own = project.read("verbs/__init__.py").replace("Registry.of(expense.verbs)", "Registry.of(*[expense.verbs])")
    project.write("verbs/__init__.py", own)
    before = project.tree()

    said = project.scaffold(NAME)

    assert said.code == 0, said.err
    assert before.items() <= project.tree().items()
    assert said.out.endswith("  registry = Registry.of(..., parcel_return.verbs)\n")
    assert "\n\nNOT DONE YET: the registry of your other verbs lacks it, " in said.out

    early = verbworker("deploy", "processes", "--app", "verbs:registry", "--dry-run", directory=project.folder)
    assert early.code == 1
    assert "calls parcel-return.ask, and no verb of that name is registered; add the package" in early.err
    assert "policy" not in early.err

    project.change("verbs/__init__.py", "import expense", "import expense, parcel_return")
    project.change("verbs/__init__.py", "*[expense.verbs]", "expense.verbs, parcel_return.verbs")
    advised = project.verify("--app", "verbs:registry")
    assert advised.code == 0, advised.out + advised.err


def test_another_directory_can_be_named(tmp_path: Path, untouched: Project) -> None:
    (tmp_path / "place").mkdir()

    said = verbworker("scaffold", NAME, "--directory", "place", directory=tmp_path)

    assert said.code == 0, said.err
    assert f"wrote place/{MODEL}\n" in said.out
    assert Project(tmp_path / "place").tree() == untouched.tree()


# ---- refusing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["Parcel", "parcel_return", "1parcel", "parcel--return", "parcel-", "a b", "päckchen", "a" * 41, "x\n", "../x"],
)
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="is not a valid process name"):
        write(tmp_path, name)

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["class", "tests", "verbs", "verbworker", "lambda"])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"{name} is reserved by Python or verbworker; choose another name"):
        write(tmp_path, name)

    assert os.listdir(tmp_path) == []


def test_a_refusal_is_one_sentence(tmp_path: Path) -> None:
    said = Project(tmp_path).scaffold("Parcel")

    assert (said.code, said.out) == (1, "")
    assert said.sentence().startswith("verbworker: 'Parcel' is not a valid process name: use lower-case letters")


@pytest.mark.req("CPL-05")
@pytest.mark.parametrize("there", [name for name in contents(NAME) if name != MODEL])
def test_a_file_that_is_there_without_its_model_is_kept_and_nothing_is_written(tmp_path: Path, there: str) -> None:
    project = Project(tmp_path)
    project.write(there, "mine")

    with pytest.raises(Refused, match=f"{there} exists"):
        write(tmp_path, NAME)

    assert project.tree().keys() == {there}
    assert project.read(there) == "mine"


def test_a_verb_of_the_same_name_in_another_file_is_told(project: Project) -> None:
    project.write("verbs/more.yaml", project.read(f"verbs/parcel_return/{NAME}.yaml"))
    for name in ("verbs/parcel_return", f"processes/{NAME}"):
        shutil.rmtree(project.folder / name)
    for name in ("compile", "workflow"):
        (project.folder / f"tests/test_parcel_return_{name}.py").unlink()
    before = project.tree()

    said = project.scaffold(NAME)

    assert said.code == 1
    assert "the verb parcel-return.open and its process parcel-return exist already" in said.sentence()
    assert project.tree() == before


def test_a_model_that_does_not_pass_is_not_compiled(project: Project) -> None:
    project.change(MODEL, 'correlationKey="=corr_answer"', 'correlationKey="=number"')
    before = project.tree()

    said = project.scaffold(NAME)

    assert said.code == 1
    assert said.sentence().endswith(f"run: verbworker verify processes/{NAME}")
    assert project.tree() == before


def test_what_cannot_be_read_is_one_sentence_and_nothing_is_written(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("pyproject.toml", "[tool.verblint\n")

    said = project.scaffold(NAME)

    assert said.code == 2
    assert said.sentence().endswith("nothing was written")
    assert project.tree().keys() == {"pyproject.toml"}


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = verbworker("scaffold", NAME, "--directory", "nowhere", directory=tmp_path)

    assert said.code == 1
    assert said.sentence() == "verbworker: nowhere does not exist; create the project's directory first"


def test_what_goes_wrong_halfway_leaves_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("tests", "a file where a folder must be")

    said = project.scaffold(NAME)

    assert said.code == 2
    assert said.sentence().endswith("nothing was written")
    assert project.tree().keys() == {"tests"}


# ---- verbs to be written --------------------------------------------------------------------------------------------

_SETTLE_FLOW = '<bpmn:sequenceFlow id="to_choice" sourceRef="settle" targetRef="choice" />'
_TOLD = """
    <bpmn:serviceTask id="tell" name="Tell what was decided">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="parcel-return.tell-client" />
        <ameide:taskDefinition type="parcel-return.tell-client" policyRef="parcel-return.standard" />
        <ameide:taskHeaders />
        <ameide:ioMapping>
          <ameide:input source="state.outcome" target="request.outcome" />
          <ameide:output source="result.told_at" target="state.told_at" />
        </ameide:ioMapping>
      </bpmn:extensionElements>
      <bpmn:incoming>to_tell</bpmn:incoming>
      <bpmn:outgoing>to_choice</bpmn:outgoing>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="to_tell" sourceRef="settle" targetRef="tell" />
    <bpmn:sequenceFlow id="to_choice" sourceRef="tell" targetRef="choice" />"""
STUB = "verbs/parcel_return/tell_client.py"


def with_another_task(project: Project) -> Project:
    """The process with one task more, in model and contract, and no verb for it."""
    project.change(MODEL, _SETTLE_FLOW, _TOLD)
    settle = project.read(MODEL).index('<bpmn:serviceTask id="settle"')
    text = project.read(MODEL)
    project.write(MODEL, text[:settle] + text[settle:].replace("<bpmn:outgoing>to_choice", "<bpmn:outgoing>to_tell", 1))
    contract = f"verbs/parcel_return/{NAME}.yaml"
    project.change(contract, f"      - {NAME}.settle\n", f"      - {NAME}.settle\n      - {NAME}.tell-client\n")
    line = "  - {verb: parcel-return.tell-client, version: 1, mode: external, on_unknown: rerun, writes: [told_at]}\n"
    project.write(contract, project.read(contract) + line)
    return project


@pytest.mark.req("CPL-05", "CPL-11")
def test_a_verb_that_nobody_wrote_gets_a_file_to_write_it_in(project: Project) -> None:
    before = with_another_task(project).tree()

    said = project.scaffold(NAME)

    after = project.tree()
    assert said.code == 0, said.err
    assert {path for path in after if after[path] != before.get(path)} == {LOCK, MODULE, STUB}
    assert "NOT DONE YET: write verbs/parcel_return/tell_client.py, and register it in" in said.out
    assert "VF811" in project.verify(*APP).out
    tidy = f"{shlex.quote(sys.executable)} -m ruff format --check --no-cache --config {ROOT}/pyproject.toml {STUB}"
    assert project.shell(tidy).returncode == 0

    init = "verbs/parcel_return/__init__.py"
    project.change(init, "import answer, outcome", "import answer, outcome, tell_client")
    project.change(init, "outcome.verbs)", "outcome.verbs, tell_client.verbs)")
    verified = project.verify(*APP)
    assert verified.code == 0, verified.out


@pytest.mark.parametrize(
    ("verb", "field"), [("import", "class"), ("verbs", "_told"), ("result", "told"), ("ingress", "a")]
)
def test_a_file_to_write_a_verb_in_is_valid_under_any_name(project: Project, verb: str, field: str) -> None:
    with_another_task(project)
    for name in (MODEL, f"verbs/parcel_return/{NAME}.yaml"):
        project.change(name, "tell-client", verb)
    project.change(MODEL, "result.told_at", f"result.{field}")

    said = project.scaffold(NAME)

    assert said.code == 0, said.err
    (stub,) = [path for path in project.tree() if path.endswith(f"/{verb}_2.py")]
    compile(project.read(stub), stub, "exec")
    assert f"async def {verb}_2(" in project.read(stub)


@pytest.mark.req("CPL-05", "CPL-11")
def test_a_file_to_write_a_verb_in_is_written_once(project: Project) -> None:
    with_another_task(project).scaffold(NAME)
    project.change(
        STUB,
        '    raise PermanentContract("parcel-return.tell-client is not',
        '    # mine\n    raise PermanentContract("it is not',
    )
    mine = project.tree()

    said = project.scaffold(NAME)

    assert said.code == 0, said.err
    assert project.tree() == mine
