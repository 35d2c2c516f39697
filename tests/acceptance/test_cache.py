"""What the harness fetches once and keeps."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import zeebe_home
from tests.support.cache import cached
from tests.support.errors import Broken, Unavailable


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "verbworker"


def test_many_who_ask_at_once_build_once(empty_cache: Path) -> None:
    everyone = threading.Barrier(8)
    built: list[Path] = []

    def build(directory: Path) -> None:
        built.append(directory)
        (directory / "part").write_text("whole")

    def ask(_: int) -> str:
        everyone.wait(timeout=30)
        return (cached("thing", build) / "part").read_text()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))

    assert answers == ["whole"] * 8
    assert len(built) == 1


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again(empty_cache: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise Unavailable("no network")

    with pytest.raises(Unavailable):
        cached("thing", fail)
    again = cached("thing", lambda directory: (directory / "whole").touch())

    assert [file.name for file in again.iterdir()] == ["whole"]
    assert list(empty_cache.glob(".thing-*")) == []


def test_what_a_killed_builder_left_is_removed(empty_cache: Path) -> None:
    (empty_cache / ".thing-abandoned").mkdir(parents=True)
    cached("thing", lambda directory: (directory / "whole").touch())

    assert list(empty_cache.glob(".thing-*")) == []


def test_an_archive_with_another_checksum_is_refused(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_something_else(_coordinates: str, into: Path) -> None:
        into.mkdir()
        (into / "camunda-zeebe-8.6.0.tar.gz").write_bytes(b"not the broker")

    monkeypatch.setattr(zeebe_home, "copy_artifact", fetch_something_else)

    with pytest.raises(Broken, match=hashlib.sha256(b"not the broker").hexdigest()):
        zeebe_home.zeebe_home()
    assert not (empty_cache / "zeebe-8.6.0").exists()
