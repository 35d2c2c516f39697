"""`verbworker verify` as people and CI meet it: a process in a project folder, its words, its files, its exit code."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.support.command import COMMAND, environment
from tests.support.loan import APP, CODE, CONTRACT, LOCK, MODEL, MODULE, POLICIES, make_loan, make_verified_loan
from tests.support.project import Project

ROOT = Path(__file__).parents[2]
WRITTEN = {LOCK, MODULE}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_verified_loan(tmp_path_factory.mktemp("loan"))


@pytest.fixture
def loan(compiled: Project, tmp_path: Path) -> Project:
    return compiled.copy(tmp_path / "loan")


@pytest.mark.req("CPL-06", "CPL-08")
def test_a_process_that_was_never_compiled_is_outdated_and_nothing_is_written(tmp_path: Path) -> None:
    loan = make_loan(tmp_path)
    before = loan.tree()

    said = loan.verify(*APP)

    assert said.code == 1
    assert "VF801 lock-missing" in said.out
    assert "VF805 generated-outdated" in said.out
    assert loan.tree() == before


@pytest.mark.req("CPL-05", "CPL-08", "CPL-09")
def test_write_writes_the_lock_and_the_module_and_no_other_file(tmp_path: Path) -> None:
    loan = make_loan(tmp_path)
    before = loan.tree()

    said = loan.verify("--write", *APP)

    after = loan.tree()
    assert said.code == 0, said.out + said.err
    assert after.keys() - before.keys() == WRITTEN
    assert before.items() <= after.items()


@pytest.mark.req("CPL-04", "CPL-05")
def test_a_second_write_touches_nothing(loan: Project) -> None:
    before = {name: (loan.folder / name).stat().st_mtime_ns for name in WRITTEN}

    said = loan.verify("--write", *APP)

    assert (said.code, said.err) == (0, "")
    assert {name: (loan.folder / name).stat().st_mtime_ns for name in WRITTEN} == before


@pytest.mark.req("CPL-02", "CPL-04", "POL-07")
def test_two_directories_get_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "far" / "away").mkdir(parents=True)

    one, other = make_verified_loan(tmp_path / "one"), make_verified_loan(tmp_path / "far" / "away")

    assert one.tree() == other.tree()


@pytest.mark.req("CPL-06", "POL-05", "POL-04")
def test_a_policy_number_that_changed_is_named_until_it_is_written(loan: Project) -> None:
    loan.change(POLICIES, "maximum_attempts: 3", "maximum_attempts: 5")
    loan.change(MODEL, 'retries="3"', 'retries="5"')

    changed = loan.verify("--format", "concise")
    written = loan.verify("--write", *APP)
    again = loan.verify(*APP)

    words = "policies.standard.retry.maximum_attempts is 5, and compile.lock.json has 3"
    assert changed.code == 1
    assert f"verbs/policies.yaml:7:7: VF802 {words}\n" in changed.out
    assert (written.code, again.code) == (0, 0)
    assert '"maximum_attempts": 5' in loan.read(LOCK)


@pytest.mark.req("REG-24")
def test_a_model_that_changed_is_refused_until_its_lock_is_part_of_the_change_too(loan: Project) -> None:
    loan.commit()
    loan.change(MODEL, "P5D", "P6D")

    alone = loan.verify("--format", "concise", *APP)
    written = loan.verify("--write", *APP)

    assert (alone.code, written.code) == (1, 0)
    assert f"{MODEL}:" in alone.out
    assert 'is "P6D", and compile.lock.json has "P5D"' in alone.out
    assert loan.git("diff", "--name-only").split() == [LOCK, MODEL, MODULE]


@pytest.mark.req("CPL-06")
def test_what_agrees_ends_with_0_and_leaves_every_file_alone(loan: Project) -> None:
    before = loan.tree()

    said = loan.verify(*APP)

    assert (said.code, said.out, said.err) == (0, "3 files checked: nothing found\n", "")
    assert loan.tree() == before


def test_without_an_application_its_verbs_are_said_to_be_left_out(loan: Project) -> None:
    said = loan.verify()

    assert said.code == 0
    assert said.sentence() == "verbworker: the registered verbs were not compared; pass --app module:attribute"


@pytest.mark.req("CPL-06", "CPL-09")
def test_what_the_linter_refuses_is_not_written(loan: Project) -> None:
    loan.change(MODEL, '<ameide:taskDefinition type="loan.ask"', '<ameide:taskDefinition type="loan.other"')
    loan.change(POLICIES, "start_to_close_timeout_seconds: 30", "start_to_close_timeout_seconds: 31")
    before = loan.tree()

    said = loan.verify("--write", *APP)

    assert said.code == 1
    assert "AM717 ameide-drift" in said.out
    assert "Fix the model first" in said.out
    assert loan.tree() == before


def test_the_settings_of_the_linter_are_the_projects(loan: Project) -> None:
    loan.change("pyproject.toml", "\nverbs", "\nservice-tasks = 1\nverbs")
    strict = loan.verify()
    loan.change("pyproject.toml", "\nverbs", "\nmax-warnings = 1\nverbs")
    lenient = loan.verify()

    assert (strict.code, lenient.code) == (1, 0)
    assert "HB601 too-many-service-tasks" in strict.out


@pytest.mark.req("CPL-06", "EVO-25")
def test_a_verb_that_nobody_registered_is_told_at_the_task_that_calls_it(loan: Project) -> None:
    loan.change(CODE, '@registry.verb("loan.record"', '@registry.verb("loan.recrod"')

    said = loan.verify("--format", "concise", *APP)

    assert said.code == 1
    assert f"{MODEL}:37:1: VF811 record calls loan.record, and no verb of that name is registered" in said.out
    assert "VF812 loan.recrod is registered, and no model and no contract uses it" in said.out


@pytest.mark.req("CPL-06")
def test_a_field_that_the_model_does_not_have_cannot_be_written(loan: Project) -> None:
    loan.change(CODE, 'mode="external", writes=("decided",)', 'mode="external", writes=("descided",)')

    said = loan.verify("--format", "concise", *APP)

    assert said.code == 1
    assert "VF815 loan.record declares that it writes descided, and " in said.out


@pytest.mark.req("CPL-06")
def test_a_case_that_could_not_pass_its_first_verb_is_told_at_the_contract(loan: Project) -> None:
    loan.change(CONTRACT, "        customer: args.customer\n", "        custmer: args.customer\n")

    said = loan.verify("--format", "concise", *APP)

    words = "payload.initial of loan.apply does not give customer, which loan.ask requires, the first verb at ask"
    assert said.code == 1
    assert f"{CONTRACT}:14:9: VF816 {words}\n" in said.out


@pytest.mark.req("CPL-06")
def test_an_outcome_of_a_field_that_no_case_has_is_told_at_the_contract(loan: Project) -> None:
    loan.change(
        CONTRACT,
        "    sub_verbs",
        "      outcome: {was: data.decided, by: data.customer, at: data.asekd}\n    sub_verbs",
    )

    said = loan.verify("--format", "concise", *APP)

    words = "the outcome at of loan.apply is data.asekd, and no verb of its process has a field asekd"
    assert said.code == 1
    assert f"{CONTRACT}:15:55: VF817 {words}\n" in said.out
    assert said.out.count("VF817") == 1


@pytest.mark.req("CPL-06")
def test_a_part_of_the_models_is_held_to_the_verbs_of_that_part(loan: Project) -> None:
    another = loan.read(CONTRACT).replace("loan.", "house.").replace("loan-apply", "house-apply")
    loan.write("verbs/house/house.yaml", another)
    loan.write("verbs/loan/loan.yaml", loan.read(CONTRACT))
    (loan.folder / CONTRACT).unlink()
    loan.change(CODE, "registry.load(HERE,", 'registry.load(HERE / "loan",')

    part = loan.verify("processes/loan-apply", "--write", *APP)
    whole = loan.verify(*APP)

    assert (part.code, whole.code) == (0, 1), part.out + part.err
    assert "the workflow verb house.apply is in no registry" in whole.out
    assert "house" not in part.out


def test_a_module_that_the_application_imports_is_written_before_it_is_loaded(tmp_path: Path) -> None:
    loan = make_loan(tmp_path)
    loan.write(CODE, f"import verbs.loan_apply_gen\n{loan.read(CODE)}")

    early = loan.verify(*APP)
    said = loan.verify("--write", *APP)

    assert early.code == 2
    assert "the process loan-apply has no verbs/loan_apply_gen.py" in early.out
    assert "loan_apply_gen" in early.sentence()
    assert said.code == 0, said.err


@pytest.mark.req("CPL-03", "PRX-21")
def test_another_process_needs_another_definition_id(loan: Project) -> None:
    loan.commit()
    loan.change(MODEL, "P5D", "P6D")
    same = loan.verify("--write", "--base", "HEAD", "--format", "concise")
    loan.change(MODEL, "loan-apply/1", "loan-apply/2")
    other = loan.verify("--write", "--base", "HEAD")

    assert same.code == 1
    assert f"{MODEL}:13:48: VF807 loan-apply is another process than at HEAD (sha256:" in same.out
    assert "and its definitionId is still loan-apply/1" in same.out
    assert other.code == 0, other.out


@pytest.mark.req("CPL-03", "CPL-02")
def test_a_process_that_only_looks_different_keeps_its_definition_id(loan: Project) -> None:
    loan.commit()
    loan.change(MODEL, '    <bpmn:startEvent id="begin"/>', '\n\n    <!-- here -->\n    <bpmn:startEvent id="begin"/>')

    said = loan.verify("--base", "HEAD")

    assert said.code == 0, said.out


def test_a_lock_that_was_not_there_yet_is_no_base(tmp_path: Path) -> None:
    loan = make_loan(tmp_path)
    loan.commit()
    loan.verify("--write")

    assert loan.verify("--base", "HEAD").code == 0


def test_git_is_only_asked(loan: Project) -> None:
    loan.commit()
    (loan.folder / CONTRACT).touch()
    git = {file: file.read_bytes() for file in (loan.folder / ".git").rglob("*") if file.is_file()}

    assert loan.verify("--base", "HEAD").code == 0
    assert {file: file.read_bytes() for file in (loan.folder / ".git").rglob("*") if file.is_file()} == git


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", ""])
def test_a_revision_that_git_does_not_know_is_one_sentence(revision: str, loan: Project) -> None:
    loan.commit()

    said = loan.verify(f"--base={revision}")

    assert said.code == 2
    assert "git has no such revision here" in said.sentence()


def test_a_folder_without_git_has_no_base(loan: Project) -> None:
    said = loan.verify("--base", "HEAD", GIT_CEILING_DIRECTORIES=str(loan.folder.parent))

    assert said.code == 2
    assert "processes/loan-apply is in no git repository" in said.sentence()


def test_a_machine_without_git_has_no_base(loan: Project, tmp_path: Path) -> None:
    said = loan.verify("--base", "HEAD", PATH=str(tmp_path / "empty"))

    assert said.code == 2
    assert said.sentence() == "verbworker: --base needs git, which is not installed"


def test_a_base_whose_lock_is_none_cannot_be_compared(loan: Project) -> None:
    good = loan.read(LOCK)
    loan.write(LOCK, "<<<<<<< ours\n")
    loan.commit()
    loan.write(LOCK, good)

    said = loan.verify("--base", "HEAD")

    assert said.code == 2
    assert said.sentence().startswith(f"verbworker: {LOCK} at HEAD: the file: ")


def cannot(loan: Project, *arguments: str) -> str:
    before = loan.tree()
    said = loan.verify(*arguments)
    assert said.code == 2, said.out
    assert loan.tree() == before
    return said.sentence().removeprefix("verbworker: ")


@pytest.mark.req("CPL-06")
def test_what_cannot_be_checked_is_one_sentence_and_2(loan: Project) -> None:
    assert cannot(loan, "nowhere") == "nowhere: No such file or directory"
    assert cannot(loan, "verbs") == "verbs: the folder holds no .bpmn file"
    assert cannot(loan, "--verbs", "nowhere") == "nowhere: there is no such folder of verb contracts"
    assert cannot(loan, "--app", "nowhere:registry").startswith("--app nowhere:registry: there is no module nowhere")
    assert cannot(loan, "--output-file", "no/such/folder") == "--output-file no/such/folder: No such file or directory"


def test_a_project_without_a_folder_of_verbs_cannot_be_checked(loan: Project) -> None:
    loan.write("pyproject.toml", "[tool.verblint]\n")

    assert cannot(loan).startswith("no folder of verb contracts is known")
    assert loan.verify("--verbs", "verbs").code == 0


def test_a_lock_that_cannot_be_read_is_no_missing_one(loan: Project) -> None:
    (loan.folder / LOCK).unlink()
    (loan.folder / LOCK).mkdir()

    assert cannot(loan) == f"{LOCK}: Is a directory"


def test_a_contract_that_is_wrong_is_told_with_its_line(loan: Project) -> None:
    loan.change(POLICIES, "maximum_attempts: 3", "maximum_attempts: 0")

    said = loan.verify()

    assert said.code == 2
    assert "verbs/policies.yaml:7:7: policies[0].retry.maximum_attempts" in said.err
    assert "Traceback" not in said.err


@pytest.fixture
def outdated(loan: Project) -> Project:
    loan.change(POLICIES, "start_to_close_timeout_seconds: 30", "start_to_close_timeout_seconds: 31")
    return loan


SENTENCE = "policies.standard.start_to_close_timeout_seconds is 31, and compile.lock.json has 30"


def test_json_has_every_finding(outdated: Project) -> None:
    told = json.loads(outdated.verify("--format", "json").out)

    (found,) = (finding for finding in told["findings"] if finding["code"] == "VF802")
    assert (found["message"], found["file"], found["line"]) == (SENTENCE, POLICIES, 5)
    assert found["hint"] == "Run verbworker verify --write"


def test_sarif_describes_the_rules_of_its_results(outdated: Project) -> None:
    (run,) = json.loads(outdated.verify("--format", "sarif").out)["runs"]

    rules = run["tool"]["driver"]["rules"]
    described = {rules[result["ruleIndex"]]["id"] for result in run["results"]}
    assert described == {result["ruleId"] for result in run["results"]} == {"VF802", "VF805"}


def test_junit_is_xml_with_a_failure_each(outdated: Project) -> None:
    suite = ElementTree.fromstring(outdated.verify("--format", "junit").out)[0]

    assert suite.attrib["failures"] == "2"
    assert [case.attrib["name"] for case in suite if not len(case)] == ["clean", "clean"]


def test_gitlab_gets_a_list_and_github_gets_commands(outdated: Project) -> None:
    gitlab = json.loads(outdated.verify("--format", "gitlab").out)
    github = outdated.verify("--format", "github").out.splitlines()

    assert [entry["check_name"] for entry in gitlab] == ["VF805", "VF802"]
    assert len(github) == 2
    assert all(line.startswith("::error file=verbs/") for line in github)


def test_the_full_format_quotes_the_line_to_look_at(outdated: Project) -> None:
    shown = outdated.verify("--format", "full").out

    assert "  5 |     start_to_close_timeout_seconds: 31\n    |     ^^^^^" in shown


def test_a_report_goes_into_a_file(outdated: Project) -> None:
    said = outdated.verify("--format", "json", "--output-file", "report.json")

    assert (said.code, said.out) == (1, "")
    assert len(json.loads(outdated.read("report.json"))["findings"]) == 2


def test_a_format_that_nobody_knows_is_refused(loan: Project) -> None:
    said = loan.verify("--format", "yaml")

    assert said.code == 2
    assert "Traceback" not in said.err


@pytest.mark.req("CPL-06")
def test_the_hook_runs_the_command_on_the_whole_project(loan: Project) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = (hook for hook in hooks if hook["id"] == "verbworker-verify")

    done = subprocess.run(
        [*shlex.split(hook["entry"]), *APP],
        cwd=loan.folder,
        env={**environment(), "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (hook["pass_filenames"], hook["language"]) == (False, "system")
