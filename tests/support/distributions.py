"""Both distributions as they are released: sdists, and wheels that were built from nothing else."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {"verbworker": ROOT, "verbworker_lint": ROOT / "lint"}
_OURS = ("verbworker", "verblint", "_verbworker", "__editable__")


@dataclass(frozen=True, slots=True)
class Distribution:
    """One of the two: its sdist, the wheel made from that, and the wheel made from the checkout."""

    name: str
    sdist: Path
    wheel: Path
    straight: Path

    def metadata(self) -> Message:
        """What the wheel says of itself."""
        with zipfile.ZipFile(self.wheel) as archive:
            place = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return Parser().parsestr(archive.read(place).decode())


def build(folder: Path) -> dict[str, Distribution]:
    """Build everything into a folder, by distribution."""
    return {name: _build(name, source, folder) for name, source in SOURCES.items()}


def _build(name: str, source: Path, folder: Path) -> Distribution:
    first, second = folder / "first" / name, folder / "wheels"
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(first)], cwd=source)
    (sdist,), (straight,) = first.glob("*.tar.gz"), first.glob("*.whl")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    _run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(second), str(sdist)], cwd=folder)
    return Distribution(name, sdist, second / straight.name, straight)


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def contents(wheel: Path) -> list[str]:
    """The names of what is in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def borrow_dependencies(folder: Path) -> Path:
    """A folder for PYTHONPATH with everything that is installed here but our own two packages."""
    folder.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith(_OURS) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


def offline(wheels: Path, dependencies: Path) -> Mapping[str, str]:
    """The environment of somebody for whom pip finds our wheels in a folder and all else installed already."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin", "/usr/sbin"]),
        "PYTHONPATH": str(dependencies),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        # By the variable it is switched off with a no.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "HOME": str(wheels.parent),
        "LANG": "C.UTF-8",
    }
