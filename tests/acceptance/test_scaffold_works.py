"""What `verbworker scaffold` writes works: its tests, its entry points, its image and its README."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import environment
from tests.support.dockerfile import Dockerfile
from tests.support.engines import Gateway
from tests.support.ingress_process import API_KEY, IngressProcess
from tests.support.ports import free_ports
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.project import Project
from tests.support.scaffolded import APP, DOCKERFILE, LOCK, MODULE, NAME, README, VERBS, scaffolded
from tests.support.sessions import trail
from tests.support.shop import wait_until
from verbworker.api.settings import IngressSettings
from verbworker.app.settings import Settings

ROOT = Path(__file__).parents[2]


# What is asked of the project in a process of its own.
_NAMES = """
import inspect, json
from verbs.parcel_return import parcel_return_gen as gen
own = [name for name, value in vars(gen).items() if getattr(value, "__module__", gen.__name__) == gen.__name__]
print(json.dumps(sorted(name for name in own + ["OutcomeFlag", "ReviewAnswer"] if not name.startswith("_"))))
"""
_REGISTERED = """
import json
from verbs.parcel_return import registry
workflows = {flow.process: flow.name for flow in registry.workflows.values()}
print(json.dumps({"direct": sorted(verb.name for verb in registry), "workflows": workflows}))
"""


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A scaffold as it is written; whoever changes it takes a copy."""
    return scaffolded(tmp_path_factory.mktemp("scaffold"))


@pytest.fixture
def project(untouched: Project, tmp_path: Path) -> Project:
    return untouched.copy(tmp_path / "project")


# ---- its code and its tests -----------------------------------------------------------------------------------------


def test_its_code_is_formatted_clean_and_typed(untouched: Project) -> None:
    tools = Path(sys.executable).parent
    settings = ("--config", str(ROOT / "pyproject.toml"), "verbs", "tests")
    commands = {
        "check": [str(tools / "ruff"), "check", "--no-cache", *settings],
        "format": [str(tools / "ruff"), "format", "--check", "--no-cache", *settings],
        "types": [str(tools / "mypy"), "--cache-dir", os.devnull],
    }

    done = {
        name: subprocess.run(command, cwd=untouched.folder, capture_output=True, text=True, timeout=280)
        for name, command in commands.items()
    }

    assert {name: one.returncode for name, one in done.items()} == dict.fromkeys(commands, 0), done


@pytest.fixture
def roomy(untouched: Project) -> Iterator[Project]:
    """A copy in a place that Postgres may pass through when we are root."""
    with trail() as found:
        project = untouched.copy(found.folder / "project")
        project.folder.chmod(0o755)
        yield project


def own_tests(project: Project, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the tests that came with a scaffold."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *words],
        cwd=project.folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.req("TST-13", "TST-14", "TST-15", "PRX-31")
def test_its_own_tests_go_the_whole_way_in_memory(roomy: Project, postgres: Postgres | ForeignPostgres) -> None:
    done = own_tests(roomy, VERBWORKER_TEST_DSN=postgres.dsn)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 1 skipped" in done.stdout
    assert "ZEEBE_ADDRESS names no broker" in done.stdout


@pytest.mark.req("TST-13")
@pytest.mark.parametrize("file", [LOCK, MODULE])
def test_its_compile_test_fails_when_one_byte_of_a_generated_file_differs(project: Project, file: str) -> None:
    project.write(file, project.read(file) + "\n")

    done = own_tests(project, "tests/test_parcel_return_compile.py", "-k", "what_is_compiled_now")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout


@pytest.mark.req("TST-14")
def test_its_workflow_test_fails_while_a_verb_is_not_written(
    roomy: Project, postgres: Postgres | ForeignPostgres
) -> None:
    roomy.change(VERBS, 'return Result(case.model_copy(update={"carried_out": True}))', "raise NotImplementedError")

    done = own_tests(roomy, "-k", "approved", VERBWORKER_TEST_DSN=postgres.dsn)

    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.zeebe
@pytest.mark.req("TST-14", "PRX-28", "X-30", "CPL-12")
def test_its_own_test_goes_the_whole_way_on_a_real_broker(
    roomy: Project, postgres: Postgres | ForeignPostgres, broker: Gateway
) -> None:
    given = {"VERBWORKER_TEST_DSN": postgres.dsn, "ZEEBE_ADDRESS": broker.address}

    done = own_tests(roomy, "-m", "zeebe", **given)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


# ---- what is generated ----------------------------------------------------------------------------------------------


@pytest.mark.req("CPL-11")
def test_the_generated_module_has_what_verbs_senders_and_deciders_need_of_the_model(untouched: Project) -> None:
    found = json.loads(untouched.shell(f"python -c {shlex.quote(_NAMES)}").stdout)

    assert found == [
        *("DEFINITION_ID", "FLAG_OUTCOME", "Flags", "GATE_REVIEW", "IR_DIGEST"),
        *("JOB_ASK", "JOB_CARRY_OUT", "JOB_SETTLE", "JOB_TAKE_ANSWER", "MESSAGE_ANSWERED"),
        *("OutcomeFlag", "POLICIES", "PROCESS_ID", "ReviewAnswer", "ReviewDecision", "VERB"),
        *("answered_message", "latest_answered", "review_decision"),
    ]


@pytest.mark.req("CPL-05", "CPL-06")
@pytest.mark.parametrize("file", [LOCK, MODULE])
def test_a_changed_generated_file_is_told_and_nothing_is_written_until_it_is_asked_for(
    project: Project, file: str
) -> None:
    due = project.tree()
    project.write(file, project.read(file) + "\n")
    changed = project.tree()

    told = project.verify(*APP, "--format", "concise")
    untold = project.tree()
    project.change(VERBS, "Carry out what was approved.", "Send the parcel back.")
    mine = project.tree()
    again = project.scaffold(NAME)

    assert (told.code, f"{file}:" in told.out) == (1, True), told.out
    assert untold == changed
    assert again.code == 0, again.err
    assert project.tree() == {**due, VERBS: mine[VERBS]}
    assert project.verify(*APP).code == 0


def lock(project: Project) -> Any:
    """What the scaffold compiled to."""
    return json.loads(project.read(LOCK))


@pytest.mark.req("CPL-12")
def test_a_verb_is_registered_for_every_type_of_the_model_and_the_workflow_by_its_own(untouched: Project) -> None:
    drawn = {node["task"]["type"] for node in lock(untouched)["ir"]["nodes"] if "task" in node}

    found = json.loads(untouched.shell(f"python -c {shlex.quote(_REGISTERED)}").stdout)

    assert drawn == {f"{NAME}.{verb}" for verb in ("ask", "take-answer", "settle", "carry-out")}
    assert found == {
        "direct": sorted(drawn),
        "workflows": {lock(untouched)["ir"]["process"]["workflow_type"]: f"{NAME}.open"},
    }


# ---- its image ------------------------------------------------------------------------------------------------------


def image_of(project: Project, folder: Path) -> Project:
    """The folder that the image would work in: what its Dockerfile copies, and nothing else."""
    for source, target in Dockerfile(project.folder / DOCKERFILE).copies:
        place = folder / source if target == "./" else folder / target
        assert source == str(place.relative_to(folder))
        place.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (project.folder / source).is_dir() else shutil.copy
        copy(project.folder / source, place)
    return Project(folder, project.environment)


@pytest.mark.req("CPL-10")
def test_its_image_adds_to_ours_only_what_it_copies(untouched: Project) -> None:
    image = Dockerfile(untouched.folder / DOCKERFILE)
    names = [name for name, _ in image.instructions]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())

    assert (
        image.last("FROM") == compose["services"]["worker"]["image"] == f"verbworker:{metadata.version('verbworker')}"
    )
    # The user that is not root is that of the base, and nothing is fetched or run.
    assert names == ["FROM", "WORKDIR", *["COPY"] * 3, "ENV", "EXPOSE", "ENTRYPOINT", "CMD"]
    assert image.last("WORKDIR") != Dockerfile(ROOT / "Dockerfile").last("WORKDIR")
    assert {source for source, _ in image.copies} == image.kept
    assert image.ignored[0] == "*"
    assert [source for source, _ in image.copies if not (untouched.folder / source).exists()] == []


@pytest.mark.req("CPL-10")
def test_the_settings_of_its_image_exist_and_its_health_check_finds_worker_and_ingress(untouched: Project) -> None:
    image, base = Dockerfile(untouched.folder / DOCKERFILE), Dockerfile(ROOT / "Dockerfile")
    given = dict(word.split("=") for word in image.last("ENV").split())
    known = {f"VERBWORKER_INGRESS_{name.upper()}" for name in IngressSettings.model_fields}

    assert given.keys() <= known
    assert f"'127.0.0.1', {given['VERBWORKER_INGRESS_PROBE_PORT']}" in base.last("HEALTHCHECK")
    assert str(Settings.model_fields["http_port"].default) == given["VERBWORKER_INGRESS_PROBE_PORT"]
    assert image.last("EXPOSE") == str(IngressSettings.model_fields["port"].default)


# ---- its entry points -----------------------------------------------------------------------------------------------


def given(dsn: str, port: int, probes: int) -> dict[str, str]:
    """What an operator sets for both: the database, the engine, the tenant, and who may send messages."""
    key = {"name": "portal", "tenant": "acme", "sha256": sha256(API_KEY.encode()).hexdigest()}
    return {
        "VERBWORKER_DSN": dsn,
        "VERBWORKER_ENGINE": "embedded",
        "VERBWORKER_ENGINE_ID": "scaffold",
        "VERBWORKER_TENANT": "acme",
        "VERBWORKER_HTTP_PORT": str(probes),
        "VERBWORKER_INGRESS_PORT": str(port),
        "VERBWORKER_INGRESS_CREDENTIALS": json.dumps({"api_keys": [key]}),
    }


def in_image(image: Dockerfile, line: str) -> str:
    """What `docker run` starts: the entry point, with the words behind the image's name or else its own."""
    words = line.split(f"{NAME}:1", 1)[1].split() or json.loads(image.last("CMD"))
    return shlex.join([*json.loads(image.last("ENTRYPOINT")), *words])


@pytest.mark.req("CPL-10", "CPL-12")
def test_its_entry_points_carry_a_case_to_its_end_with_what_its_image_has(
    untouched: Project, dsn: str, tmp_path: Path
) -> None:
    *_, (_, deploy, *started), (_, *ran) = untouched.shell_blocks(README)
    port, probes = free_ports(2)
    place = image_of(untouched, tmp_path / "image")
    image = Project(place.folder, {**place.environment, **given(dsn, port, probes)})
    dockerfile = Dockerfile(untouched.folder / DOCKERFILE)
    worker, ingress = (in_image(dockerfile, line) for line in ran)
    deployed = image.shell(deploy)

    with image.running(worker, log="worker.log"), image.running(ingress, log="ingress.log") as child:
        door = IngressProcess(child, port, image.folder / "ingress.log")
        wait_until(door.is_ready, "the ingress does not answer")
        start = f"verbworker start '({NAME}.open :subject \"a trial\")' {' '.join(APP)} --json"
        entry = json.loads(image.shell(start).stdout)["entry_id"]
        sent = door.post(
            {
                "message_name": f"{NAME}.answered",
                "message_id": "m-1",
                "correlation_key": entry,
                "tenant_id": "acme",
                "payload": {"answer": "yes, please"},
            }
        )
        wait_until(lambda: entry in image.shell("verbworker gates list --json").stdout, "no person is asked")
        decided = image.shell(f"verbworker gates decide {entry} approve --reason seen")
        wait_until(lambda: shown(image, entry)["status"] == "completed", "the case does not end")

    assert [worker, ingress] == started
    assert (deployed.returncode, sent.status, decided.returncode) == (0, 202, 0), deployed.stderr + decided.stderr
    assert shown(image, entry)["outcome"] == {"answer": "yes, please", "outcome": "approved", "carried_out": True}


def shown(project: Project, entry: str) -> Any:
    """An entry as the command prints it."""
    return json.loads(project.shell(f"verbworker runbook show {entry} --json").stdout)


@pytest.mark.req("CPL-12")
@pytest.mark.parametrize("name", ["worker", "ingress"])
def test_an_entry_point_takes_the_options_of_its_command_and_says_in_a_sentence_what_it_lacks(
    untouched: Project, name: str
) -> None:
    module = f"python -m verbs.parcel_return.{name}"

    helped = untouched.shell(f"{module} --help")
    alone = untouched.shell(module)

    assert (helped.returncode, "--engine-id" in helped.stdout) == (0, True), helped.stderr
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr.startswith("verbworker: ")
    assert "VERBWORKER_ENGINE_ID" in alone.stderr


# ---- its README -----------------------------------------------------------------------------------------------------


@pytest.mark.req("CPL-10", "TST-14")
def test_it_runs_on_the_embedded_engine_as_its_readme_says(roomy: Project) -> None:
    _, _, (develop,), (settings, start, send, decide, show), _, _ = roomy.shell_blocks(README)

    with roomy.running(develop) as session:
        roomy.wait_for(".verbworker/env", session)
        asked = roomy.shell(settings, f"{start} --json")
        entry = json.loads(asked.stdout)["entry_id"]
        gated = "for try in $(seq 100); do verbworker gates list | grep -q ENTRY && break; sleep 0.1; done"
        ended = f"for try in $(seq 100); do {show} | grep -q completed && break; sleep 0.1; done"
        lines = [line.replace("ENTRY", entry) for line in (send, gated, decide, ended, show)]
        told = roomy.shell(settings, *lines)

    assert told.returncode == 0, told.stdout + told.stderr + roomy.log()
    assert "completed" in told.stdout, told.stdout
