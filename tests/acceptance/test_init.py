"""`verbworker init`: a new project outside the repository, where everything that its README says works."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.apart import run_apart
from tests.support.command import Said, verbworker
from tests.support.databases import execute
from tests.support.distributions import ROOT, borrow_dependencies, build, offline
from tests.support.engines import Gateway
from tests.support.http import ask
from tests.support.ports import free_ports
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.project import Project
from tests.support.sessions import trail
from verbworker.dev.init.new_project import FILES

WHEELS = ("wheels/verbworker-0.1.0-py3-none-any.whl", "wheels/verbworker_lint-0.1.0-py3-none-any.whl")


def init(directory: Path, *words: str) -> Said:
    return verbworker("init", *words, directory=directory)


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


# ---- writing --------------------------------------------------------------------------------------------------------


def test_a_new_directory_gets_every_file(tmp_path: Path) -> None:
    said = init(tmp_path, "my-app")

    assert (said.code, said.err) == (0, "")
    assert everything(tmp_path / "my-app") == sorted([*FILES, *WHEELS])
    assert os.listdir(tmp_path) == ["my-app"]
    assert "my-app is ready; my-app/README.md explains how to test and run it" in said.out


def test_a_directory_with_other_files_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "my-app" / ".git").mkdir(parents=True)
    (tmp_path / "my-app" / "NOTES").write_text("mine")

    said = init(tmp_path, "my-app")

    assert said.code == 0, said.err
    assert everything(tmp_path / "my-app") == sorted([*FILES, *WHEELS, "NOTES"])
    assert (tmp_path / "my-app" / "NOTES").read_text() == "mine"


def test_the_directory_one_stands_in_will_do(tmp_path: Path) -> None:
    (tmp_path / "till").mkdir()

    said = init(tmp_path / "till", ".")

    assert said.code == 0, said.err
    assert everything(tmp_path / "till") == sorted([*FILES, *WHEELS])
    assert 'name = "till"' in (tmp_path / "till" / "pyproject.toml").read_text()


def test_a_place_that_nobody_can_find_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")

    said = init(tmp_path, "circle")

    assert said.code == 2
    assert "circle cannot be resolved" in said.sentence()


@pytest.mark.parametrize("there", [*FILES, *WHEELS])
def test_a_file_that_is_there_is_never_written_over(tmp_path: Path, there: str) -> None:
    (tmp_path / "my-app" / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "my-app" / there).write_text("mine")

    said = init(tmp_path, "my-app")

    assert (said.code, said.out) == (1, "")
    assert said.sentence() == f"verbworker: my-app already has {there}; nothing was written"
    assert everything(tmp_path) == [f"my-app/{there}"]
    assert (tmp_path / "my-app" / there).read_text() == "mine"


def test_what_goes_wrong_halfway_leaves_nothing(tmp_path: Path) -> None:
    # A file where a folder must be: some files are in place by then.
    (tmp_path / "my-app").mkdir()
    (tmp_path / "my-app" / "verbs").write_text("mine")

    said = init(tmp_path, "my-app")

    assert said.code == 2
    assert said.sentence().endswith("nothing was written")
    assert everything(tmp_path) == ["my-app/verbs"]
    assert os.listdir(tmp_path / "my-app") == ["verbs"]


@pytest.mark.parametrize("name", ["My-App", "my_app", "1app", "my--app", "-app-", "my app", "мой", "a" * 65, "app\n"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    said = init(tmp_path, "--name", name, "place")

    assert said.code == 1
    assert "is not a valid project name" in said.sentence()
    assert os.listdir(tmp_path) == []


def test_the_name_of_what_it_needs_is_refused(tmp_path: Path) -> None:
    said = init(tmp_path, "verbworker")

    assert said.code == 1
    assert said.sentence() == "verbworker: verbworker is the name of a package that the project needs; choose another"


def test_no_directory_and_one_below_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "afile").touch()

    assert init(tmp_path, "").sentence() == (
        "verbworker: the directory is empty; for the current one write: verbworker init ."
    )
    assert init(tmp_path, "afile/x").sentence().endswith("afile is not a directory, so x cannot be created in it")
    assert [path.name for path in tmp_path.iterdir()] == ["afile"]


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    said = {place: init(tmp_path, place) for place in ("file", "nowhere/my-app")}

    assert {place: one.code for place, one in said.items()} == {"file": 1, "nowhere/my-app": 1}
    assert all(one.sentence() for one in said.values())
    assert everything(tmp_path) == ["file"]


def test_the_name_may_differ_from_the_directory(tmp_path: Path) -> None:
    (tmp_path / "Somewhere Else").mkdir()

    said = init(tmp_path, "--name", "till", "--json", "Somewhere Else")

    told = json.loads(said.out)
    assert (told["project"], told["files"]) == ("till", [*FILES, *WHEELS])
    assert 'name = "till"' in (tmp_path / "Somewhere Else" / "pyproject.toml").read_text()


def test_no_place_is_left_unnamed(tmp_path: Path) -> None:
    init(tmp_path, "my-app")

    texts = [path.read_text() for path in (tmp_path / "my-app").rglob("*") if path.is_file() and path.suffix != ".whl"]

    assert [text for text in texts if "@project@" in text] == []


def test_the_hook_and_the_pipeline_run_what_there_is(tmp_path: Path) -> None:
    init(tmp_path, "my-app")
    hooks = yaml.safe_load((tmp_path / "my-app" / ".pre-commit-config.yaml").read_text())
    pipeline = yaml.safe_load((tmp_path / "my-app" / ".github/workflows/ci.yml").read_text())

    (repository,) = hooks["repos"]
    (hook,) = repository["hooks"]
    steps = [step["run"] for step in pipeline["jobs"]["ci"]["steps"] if "run" in step]
    shown = {line for block in Project(tmp_path / "my-app").shell_blocks() for line in block}
    assert (repository["repo"], hook["entry"]) == ("local", "verblint check")
    assert [pattern for pattern in FILES if re.search(hook["files"], pattern)] == [
        "processes/expense-claim/process.bpmn"
    ]
    assert {step.removesuffix(" --format github") for step in steps} <= shown


# ---- what its README says -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A place outside the repository that Postgres may pass through when we are root."""
    with trail() as found:
        yield found.folder


@pytest.fixture(scope="module")
def project(folder: Path, postgres: Postgres | ForeignPostgres) -> Project:
    """A new project whose environment was made as its README says; nothing of this checkout is in it."""
    wheels = build(folder)["verbworker"].wheel.parent
    environment = {
        **offline(wheels, borrow_dependencies(folder / "borrowed")),
        "VERBWORKER_TEST_DSN": postgres.dsn,
    }
    written = init(folder, "my-app")
    assert written.code == 0, written.err
    project = Project(folder / "my-app", environment)
    made = project.shell(*project.shell_blocks()[0][:3])
    assert made.returncode == 0, made.stdout + made.stderr
    return project


ACTIVATE = ". .venv/bin/activate"


@pytest.mark.req("TST-15")
def test_its_tests_pass_at_once(project: Project) -> None:
    lines = project.shell_blocks()[0]

    done = project.shell(ACTIVATE, "python -c 'import verbworker; print(verbworker.__file__)'", *lines[3:])

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(project.folder / ".venv"))
    assert re.search(r"\d\d passed", done.stdout), done.stdout
    assert "1 file checked: nothing found" in done.stdout
    assert "Success: no issues found" in done.stdout


def test_its_code_is_formatted_and_clean(project: Project) -> None:
    settings = f"--config {ROOT / 'pyproject.toml'}"

    done = project.shell(f"ruff check {settings} verbs tests", f"ruff format --check {settings} verbs tests")

    assert done.returncode == 0, done.stdout


def test_it_runs_here_as_its_readme_says(project: Project) -> None:
    (develop,), (activate, settings, start, gates, decide, runbook) = project.shell_blocks()[1:3]

    with project.running(ACTIVATE, develop) as session:
        project.wait_for(".verbworker/env", session)
        asked = project.shell(activate, settings, f"{start} --json")
        entry = json.loads(asked.stdout)["entry_id"]
        until = f"for try in $(seq 600); do {gates} | grep -q {entry} && break; sleep 0.1; done"
        decided = project.shell(activate, settings, until, gates, decide.replace("ENTRY", entry))
        ended = f"for try in $(seq 600); do {runbook} | grep {entry} | grep -q completed && break; sleep 0.1; done"
        listed = project.shell(activate, settings, ended, runbook)

    assert decided.returncode == 0, decided.stdout + decided.stderr
    assert "completed" in listed.stdout, project.log()


@pytest.mark.zeebe
def test_it_runs_on_a_real_broker_as_its_readme_says(project: Project, broker: Gateway, dsn: str) -> None:
    lines = project.shell_blocks()[3]
    (port,) = free_ports(1)
    given = {
        "VERBWORKER_DSN": dsn,
        "VERBWORKER_ENGINE_ID": "init",
        "ZEEBE_ADDRESS": broker.address,
        "VERBWORKER_HTTP_PORT": str(port),
    }
    named = {line.removeprefix("export ").partition("=")[0] for line in lines if line.startswith("export ")}
    migrate, deploy, work = (line for line in lines if not line.startswith("export "))
    claim = """verbworker start '(expense.claim :employee "Ada" :amount 80 :purpose "tea")' --app verbs:registry"""

    prepared = project.shell(ACTIVATE, migrate, deploy, **given)
    run_apart(execute(dsn, (project.folder / "verbs" / "expense.sql").read_text()))
    with project.running(ACTIVATE, work, **given):
        asked = project.shell(ACTIVATE, f"{claim} --wait 60 --json", **given)
        _, metrics = ask("GET", f"127.0.0.1:{port}", "/metrics")

    assert named <= given.keys()
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr
    assert "expense-claim: deployed, version" in prepared.stdout
    assert json.loads(asked.stdout)["status"] == "completed", project.log()
    assert "verbworker_outcomes_total" in metrics
