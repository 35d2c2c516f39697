"""The broker's own FEEL engine, asked from Python: what it parses, what it reads, what it answers."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.support.cache import cached
from tests.support.errors import Unavailable
from tests.support.java import Java, find_java
from tests.support.maven import copy_dependencies

OLDEST = "1.18.0"
NEWEST = "1.21.0"

_SOURCE = Path(__file__).with_name("java") / "FeelOracle.java"
_TIMEOUT = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>verbworker</groupId><artifactId>feel-oracle</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.camunda.feel</groupId><artifactId>feel-engine</artifactId><version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class Question:
    """An expression without its equals sign, and the variables to evaluate it with, once for each mapping."""

    expression: str
    contexts: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the engine makes of a question; one value a context."""

    ok: bool
    error: str = ""
    ast: str = ""
    variables: frozenset[str] = frozenset()
    values: tuple[object, ...] = ()


class FeelOracle:
    """One version of the FEEL engine, compiled once and kept in the user's cache."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._java = find_java()
        digest = sha256(_SOURCE.read_bytes()).hexdigest()[:12]
        self._home = cached(f"feel-oracle-{version}-{digest}", lambda into: _build(self._java, version, into))

    def judge(self, questions: Iterable[Question]) -> list[Verdict]:
        """The engine's verdicts, in the order of the questions."""
        lines = [json.dumps({"expression": q.expression, "contexts": list(q.contexts)}) for q in questions]
        classpath = f"{self._home}:{self._home}/*"
        done = subprocess.run(
            [
                self._java.binary,
                "-XX:-UsePerfData",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                classpath,
                "FeelOracle",
            ],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        verdicts = [_verdict(json.loads(line)) for line in done.stdout.splitlines()]
        if len(verdicts) != len(lines):
            raise RuntimeError(f"the oracle answered {len(verdicts)} of {len(lines)}: {done.stderr[-2000:]}")
        return verdicts


def _verdict(answer: dict[str, object]) -> Verdict:
    if not answer["ok"]:
        return Verdict(False, error=str(answer["error"]))
    variables, values = answer["variables"], answer["values"]
    assert isinstance(variables, list)
    assert isinstance(values, list)
    return Verdict(True, ast=str(answer["ast"]), variables=frozenset(variables), values=tuple(values))


def _build(java: Java, version: str, into: Path) -> None:
    if java.compiler is None:
        raise Unavailable(f"{java.home} has no javac: the FEEL oracle needs a JDK, not just a runtime")
    pom = into / "pom.xml"
    pom.write_text(_POM.format(version=version))
    copy_dependencies(pom, into)
    subprocess.run(
        [java.compiler, "-d", into, "-cp", f"{into}/*", _SOURCE],
        check=True,
        capture_output=True,
        timeout=_TIMEOUT,
    )
