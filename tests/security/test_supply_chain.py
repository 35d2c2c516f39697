"""What we build and run with is named by its content: an action, an image or a package that changes is another one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.distributions import ROOT

pytestmark = pytest.mark.attack("auth")

WORKFLOWS = sorted([*(ROOT / ".github/workflows").glob("*.yml"), ROOT / "action.yml"])
LOCKS = sorted([ROOT / "requirements.lock", *(ROOT / "deploy").glob("*.lock")])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_named_by_its_commit(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses:\s*(\S+)", text)

    assert [name for name in used if not name.startswith("./") and not re.search(r"@[0-9a-f]{40}$", name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_text_of_others_becomes_a_command_of_a_workflow(path: Path) -> None:
    text = path.read_text()
    foreign = r"github\.(?:event\.(?:issue|pull_request|comment|review|head_commit)|head_ref)"

    assert not re.search(rf"\$\{{\{{[^}}]*{foreign}", text)
    assert "pull_request_target" not in text


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_package_of_a_lock_has_its_hashes(path: Path) -> None:
    text = path.read_text()
    packages = re.split(r"\n(?=[A-Za-z0-9])", text)
    pinned = [one for one in packages if re.match(r"[A-Za-z0-9._-]+(?:\[[^\]]*\])?==", one)]

    assert len(pinned) > 5
    assert [one.split("==")[0] for one in pinned if "--hash=sha256:" not in one] == []
    assert "://" not in re.sub(r"#.*", "", text)


def test_the_image_of_a_release_stands_on_digests() -> None:
    text = (ROOT / ".ci/image").read_text()

    # Each base is looked up, used by its digest, and looked for in the provenance of what was built.
    assert "docker-image://$base@$digest" in text
    assert "[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]]" in text
    assert "the provenance of the image does not name" in text


def test_our_own_code_passes_the_rules_for_security() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "S", "--ignore", "S101", "verbworker", "lint/verblint"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stdout
