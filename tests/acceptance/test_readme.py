"""What the README shows is what works: its Python runs, its test passes, its commands exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import ForeignPostgres, Postgres
from verbworker import Registry
from verbworker.contract.workflow import load_verbs, workflow_verbs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240, env={**os.environ, **environment}
    )


def test_the_verb_of_the_readme_registers_itself() -> None:
    names: dict[str, object] = {}
    exec(blocks("python")[0], names)

    verbs = names["verbs"]

    assert isinstance(verbs, Registry)
    assert [verb.name for verb in verbs] == ["invoice.book"]


def test_the_contract_of_the_readme_fits_its_verb(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(blocks("python")[0], names)
    verbs = names["verbs"]
    assert isinstance(verbs, Registry)
    (contract,) = blocks("yaml")
    (tmp_path / "invoice.yaml").write_text(contract)

    (workflow,) = workflow_verbs(load_verbs(tmp_path))

    assert verbs.declare(workflow).check().find("invoice.book") is not None
    assert f'type="{workflow.sub_verbs[0]}"' in blocks("xml")[0]
    assert f"={next(iter(workflow.flag_contract.flags))} = true" in blocks("xml")[0]


@pytest.mark.req("TST-15")
def test_the_test_of_the_readme_passes_for_every_crash_point(
    tmp_path: Path, postgres: Postgres | ForeignPostgres
) -> None:
    shutil.copytree(ROOT / "verbs", tmp_path / "verbs")
    (tmp_path / "conftest.py").write_text(blocks("python")[1])
    (tmp_path / "test_verbs.py").write_text(blocks("python")[2])

    done = run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path, VERBWORKER_TEST_DSN=postgres.dsn
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = {line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")}

    assert {"demo", "test"} <= targets
    assert run("make", "--dry-run", *sorted(targets), cwd=ROOT).returncode == 0
