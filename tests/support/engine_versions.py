"""The 8.8 and 8.9 test engines as child processes: Camunda's real engine code behind a test gateway."""

import hashlib
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.cache import cached
from tests.support.children import Child, close_log, fresh_directory, fresh_log, remove, spawn
from tests.support.errors import Broken
from tests.support.http import ask
from tests.support.java import Java, apart_from_tmp, find_java
from tests.support.maven import copy_artifact, copy_dependencies
from tests.support.ports import LOOPBACK, free_ports

_SOURCES = Path(__file__).with_name("java")
_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_COMPILER = "org.eclipse.jdt:ecj:3.43.0:jar"  # for runtimes that come without javac
_RELEASE = "21"
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Version:
    """One engine version: its pom, and the Java sources compiled against it."""

    name: str
    sources: tuple[str, ...]

    @property
    def pom(self) -> Path:
        """What Maven copies the jars from."""
        return _SOURCES / f"engine-{self.name}.xml"

    def files(self) -> list[Path]:
        """The sources, where they are."""
        return [_SOURCES / source for source in self.sources]

    def digest(self) -> str:
        """Changes when anything that is built changes."""
        content = b"".join(file.read_bytes() for file in (self.pom, *self.files()))
        return hashlib.sha256(content).hexdigest()[:12]


_SHARED = ("EngineLog.java", "EngineProcess.java", "LoopbackServers.java", "LongPoll.java", "UserTaskRest.java")
VERSIONS = {
    "8.8": Version("8.8", _SHARED),
    "8.9": Version("8.9", (*_SHARED, "store-8.9/InMemoryDbFactory.java")),
}


class VersionEngine:
    """One test engine: everything in memory, nothing survives a stop."""

    def __init__(self, version: str) -> None:
        self._version = VERSIONS[version]
        self._gateway, self._control = free_ports(2)
        self._child: Child | None = None
        self._scratch = fresh_directory(f"engine-{version}")
        self.log = fresh_log(f"engine-{version}")

    @property
    def address(self) -> str:
        """host:port of the gRPC gateway."""
        return f"{LOOPBACK}:{self._gateway}"

    @property
    def rest_address(self) -> str:
        """host:port of the user-task calls of REST; other calls it has none of."""
        return f"{LOOPBACK}:{self._control}"

    @property
    def pid(self) -> int:
        """The pid of the Java process."""
        if self._child is None:
            raise RuntimeError("this engine is not running")
        return self._child.pid

    def start(self) -> Self:
        """Build what is missing, start the engine, return when it is ready."""
        try:
            java = find_java()
            home = built(self._version, java)
            self._child = spawn(self._command(java, home), log=self.log, directory=self._scratch)
            self._await_ready(self._child)
        except BaseException as error:
            self.stop(keep_log=isinstance(error, Exception))  # an interrupted start has nothing to explain
            raise
        return self

    def stop(self, *, keep_log: bool = False) -> None:
        """End the engine; the log goes too unless it is wanted."""
        if self._child is not None:
            self._child.end()
            self._child = None
        remove(self._scratch)
        close_log(self.log, keep=keep_log)

    def advance(self, seconds: float) -> None:
        """Move the engine's clock forward, so that timers fall due now."""
        status, answer = ask("POST", f"{LOOPBACK}:{self._control}", "/clock", round(seconds * 1000))
        if status != 204:
            raise RuntimeError(f"the engine answered {status} to a clock change: {answer}")

    def records(self) -> list[dict[str, Any]]:
        """Everything in the engine's log, oldest first."""
        _, answer = ask("GET", f"{LOOPBACK}:{self._control}", "/records")
        return [json.loads(line) for line in answer.splitlines()] if isinstance(answer, str) else [answer]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, java: Java, home: Path) -> list[str]:
        return [
            str(java.binary),
            *_FLAGS,
            *apart_from_tmp(self._scratch),
            "-cp",
            f"{home / 'classes'}:{home / 'jars'}/*",  # ours first: one class stands before the jar's
            "EngineProcess",
            str(self._gateway),
            str(self._control),
        ]

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not self._is_ready():
            if child.code() is not None or time.monotonic() > deadline:
                raise Broken(f"the {self._version.name} engine did not start; its log: {self.log}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            return ask("GET", f"{LOOPBACK}:{self._control}", "/ready")[0] == 204
        except OSError:
            return False


def built(version: Version, java: Java) -> Path:
    """The directory with an engine's jars and our compiled classes; made on first use."""
    return cached(f"engine-{version.name}-{version.digest()}", lambda into: _build(version, java, into))


def _build(version: Version, java: Java, into: Path) -> None:
    copy_dependencies(version.pom, into / "jars")
    jars = ":".join(str(jar) for jar in sorted((into / "jars").glob("*.jar")))
    arguments = ["-cp", jars, "-d", str(into / "classes"), *map(str, version.files())]
    done = subprocess.run([*_compiler(java), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the {version.name} engine did not compile:\n{done.stderr or done.stdout}")


def _compiler(java: Java) -> Sequence[str]:
    if java.compiler is not None:
        return [str(java.compiler), "--release", _RELEASE]
    jar = cached("ecj", lambda into: copy_artifact(_COMPILER, into)) / "ecj-3.43.0.jar"
    return [str(java.binary), "-XX:-UsePerfData", "-jar", str(jar), "-source", _RELEASE, "-target", _RELEASE, "-nowarn"]
