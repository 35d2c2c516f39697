"""What GitHub runs: the action for the linter, played step by step here, and the release workflow."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from verblint.settings import PROFILES

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOWS = {path.name: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d")


# ---- the action -----------------------------------------------------------------------------------------------------


def fill(text: str, inputs: dict[str, str]) -> str:
    """What GitHub puts into the place of its expressions."""
    known = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ROOT)}
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: known[found[1]], text)


def run_action(folder: Path, **given: str) -> tuple[int, str, str]:
    """Play the action's steps in a project; the exit code, what was printed, and the outputs."""
    inputs = {name: one["default"] for name, one in ACTION["inputs"].items()} | {"python": sys.executable, **given}
    (folder / "temp").mkdir(exist_ok=True)
    output = folder / "temp" / "output"
    said = ""
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        environment = {name: fill(text, inputs) for name, text in step["env"].items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder / fill(step.get("working-directory", "."), inputs),
            env={
                **os.environ,
                "RUNNER_TEMP": str(folder / "temp"),
                "GITHUB_OUTPUT": str(output),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        said += done.stdout + done.stderr
        if done.returncode:
            break
    return done.returncode, said, output.read_text() if output.exists() else ""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a model that is well, one that is not, and an environment of the linter that exists already.

    The first step is played by one test alone; here pip takes what the tests run with.
    """
    folder = tmp_path_factory.mktemp("project")
    (folder / "processes").mkdir()
    model = (ROOT / "processes" / "document-collect" / "process.bpmn").read_text()
    (folder / "processes" / "good.bpmn").write_text(model)
    (folder / "bad models").mkdir()
    (folder / "bad models" / "bad.bpmn").write_text(model.replace("orch_", "payload_"))
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the first step out, with the linter of this environment in its place."""
    steps = [step for step in ACTION["runs"]["steps"] if "check" in step.get("id", "")]
    monkeypatch.setitem(ACTION["runs"], "steps", steps)


@pytest.fixture
def linter(project: Path, installed: None) -> None:
    place = project / "temp" / "verblint" / "bin"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "verblint").exists():
        (place / "verblint").symlink_to(Path(sys.executable).parent / "verblint")


def test_the_action_names_every_profile_of_the_linter() -> None:
    words = ACTION["inputs"]["profile"]["description"]

    assert [profile for profile in PROFILES if profile not in words] == []


@pytest.mark.usefixtures("linter")
def test_a_hollow_model_passes(project: Path) -> None:
    code, said, output = run_action(project)

    assert (code, output.splitlines()[-1]) == (0, "exit-code=0"), said


@pytest.mark.usefixtures("linter")
def test_a_finding_is_an_annotation_and_fails_the_step(project: Path) -> None:
    code, said, output = run_action(project, paths="processes\nbad*/*.bpmn", sarif="models.sarif", engine="8.6")

    assert (code, output.splitlines()[-1]) == (1, "exit-code=1"), said
    assert re.search(r"^::error file=bad models/bad.bpmn,line=\d+", said, re.MULTILINE), said
    assert '"version": "2.1.0"' in (project / "models.sarif").read_text()


@pytest.mark.usefixtures("linter")
def test_what_cannot_be_checked_fails_with_two(project: Path) -> None:
    code, _, output = run_action(project, paths="nowhere")

    assert (code, output.splitlines()[-1]) == (2, "exit-code=2")


@pytest.mark.usefixtures("linter")
@pytest.mark.parametrize("name", [name for name in ACTION["inputs"] if name not in ("python", "working-directory")])
def test_an_input_is_never_a_command(project: Path, name: str) -> None:
    run_action(project, **{name: '$(touch owned); `touch owned` "; touch owned #'})

    assert not (project / "owned").exists()


def test_no_input_stands_in_the_text_of_a_script() -> None:
    assert [step["run"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]] == []


def test_the_action_installs_the_linter_of_its_own_tag_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    model = ROOT / "processes" / "document-collect" / "process.bpmn"
    (tmp_path / "processes" / "good.bpmn").write_bytes(model.read_bytes())

    code, said, _ = run_action(tmp_path)
    listed = subprocess.run(
        [tmp_path / "temp/verblint/bin/python", "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    )

    if code and "No matching distribution" in said:
        pytest.skip("pip reaches no index from here")
    assert code == 0, said
    assert "verbworker-lint==0.1.0" in listed.stdout
    assert not {"grpcio", "asyncpg", "verbworker"} & {line.partition("==")[0] for line in listed.stdout.splitlines()}


# ---- the release ----------------------------------------------------------------------------------------------------


def test_a_release_is_published_without_a_stored_secret_and_with_attestations() -> None:
    text = WORKFLOWS["release.yml"]
    jobs = yaml.safe_load(text)["jobs"]
    (publish,) = [step for step in jobs["publish"]["steps"] if "gh-action-pypi-publish" in step["uses"]]

    assert "secrets." not in text
    assert publish["with"] == {"packages-dir": "dist/", "attestations": True}
    assert (jobs["publish"]["environment"], jobs["publish"]["permissions"]) == ("release", {"id-token": "write"})
    assert set(jobs["publish"]["needs"]) == {"build", "image", "check"}
    assert jobs["build"]["permissions"]["attestations"] == "write"
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_to_a_commit(name: str) -> None:
    used = [line.strip() for line in WORKFLOWS[name].splitlines() if "uses:" in line]

    assert len(used) > 3
    assert [line for line in used if not PINNED.search(line)] == []


def test_a_release_attests_what_it_is_made_of_and_publishes_packages_only() -> None:
    steps = yaml.safe_load(WORKFLOWS["release.yml"])["jobs"]["build"]["steps"]
    (attest,) = [step for step in steps if "attest-build-provenance" in step.get("uses", "")]
    runs = [step.get("run") for step in steps]

    assert runs.index("make dist") < runs.index("make sbom") < steps.index(attest)
    assert attest["with"]["subject-path"].split() == ["dist/*", "build/sbom/*"]


DOCKER = """#!/bin/bash
echo "$@" >> {folder}/asked
case "$*" in
  *inspect*) echo {told} ;;
  "buildx build"*)
    echo '{{"digest": "{built}"}}' > {folder}/blob
    for word; do case $word in type=oci,dest=*) tar -cf "${{word#type=oci,dest=}}" -C {folder} blob ;; esac; done ;;
esac
"""


@pytest.mark.parametrize(
    ("told", "built", "words"),
    [
        ("sha256:" + "a" * 64, "sha256:" + "a" * 64, ""),
        ("sha256:" + "a" * 64, "sha256:" + "b" * 64, "the provenance of the image does not name python:"),
        ("latest", "latest", "the registry names no digest"),
    ],
)
def test_the_image_of_a_release_is_built_on_bases_by_digest(tmp_path: Path, told: str, built: str, words: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER.format(folder=tmp_path, told=told, built=built))
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", ".ci/image", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert (done.returncode != 0, words in done.stderr) == (bool(words), True)
    if not words:
        base = (tmp_path / "out" / "bases.txt").read_text().strip()
        assert f"docker-image://{base}" in (tmp_path / "asked").read_text()
        assert base.endswith(f"@{told}")


@pytest.mark.parametrize("lock", ["requirements.lock", "deploy/build.lock"])
def test_a_lock_replaces_the_old_setuptools_of_a_new_environment(lock: str) -> None:
    (version,) = re.findall(r"^setuptools==(\d+)", (ROOT / lock).read_text(), re.MULTILINE)

    assert int(version) >= 80


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_make_targets_and_scripts_that_exist(name: str) -> None:
    steps = [step for job in yaml.safe_load(WORKFLOWS[name])["jobs"].values() for step in job["steps"]]
    targets = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    scripts = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("bash ")]

    assert all((ROOT / script).is_file() for script in scripts)
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 0), ("v0.1.1", 1), ("v0.1", 1)])
def test_the_tag_must_be_the_version(tag: str, code: int) -> None:
    done = subprocess.run(["bash", ".ci/version", tag], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, bool(done.stderr)) == (code, bool(code))
