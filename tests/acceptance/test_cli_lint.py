"""`verbworker lint` is `verblint check`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "verbworker", "lint", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.req("LNT-07")
def test_a_hollow_model_is_clean() -> None:
    assert lint("processes").returncode == 0


def test_findings_come_with_exit_code_1_and_every_option_passes_through(tmp_path: Path) -> None:
    text = (ROOT / "processes/document-collect/process.bpmn").read_text()
    model = tmp_path / "process.bpmn"
    model.write_text(text.replace("=orch_solicited = true", '=domain_payload = "x"'))

    done = lint(str(model), "--format", "concise")

    assert done.returncode == 1
    assert "HB208" in done.stdout


@pytest.mark.req("X-25")
def test_a_profile_passes_through() -> None:
    done = lint("processes/document-collect/process.bpmn", "--profile", "strict-v1", "--format", "concise")

    assert done.returncode == 1
    assert "AM753" in done.stdout


def test_a_file_that_is_not_there_is_told_in_one_sentence() -> None:
    done = lint("no/such/file.bpmn")

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
