"""Maven, asked for artifacts by their coordinates."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.errors import Unavailable
from tests.support.java import find_java

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_TIMEOUT = 1200


def copy_artifact(coordinates: str, into: Path) -> None:
    """Put one artifact, named group:artifact:version:type, into a directory."""
    _run(f"{_PLUGIN}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={into}", what=coordinates)


def copy_dependencies(pom: Path, into: Path) -> None:
    """Put every runtime jar that a pom asks for into a directory."""
    goal = f"{_PLUGIN}:copy-dependencies"
    _run("-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={into}", what=pom.name)


def _run(*arguments: str, what: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(f"no Maven: install mvn, which fetches {what}")
    try:
        done = subprocess.run(
            [maven, "-q", "-B", "-Dstyle.color=never", *arguments],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"Maven could not fetch {what} in {_TIMEOUT} s") from error
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(f"Maven could not fetch {what}: {lines[0] if lines else done.returncode}")


def _environment() -> dict[str, str]:
    # Java's counters would lie in /tmp; Maven's launcher passes these words on.
    environment = {"MAVEN_OPTS": "-XX:-UsePerfData", **os.environ}
    if "JAVA_HOME" not in environment and shutil.which("java") is None:
        environment["JAVA_HOME"] = str(find_java().home)
    return environment
