"""What `verbworker dev` watches: the files a worker is made of, and no others."""

from pathlib import Path

import pytest

from verbworker.dev.files import Files, home_of, sql_files
from verbworker.errors import CannotRun


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "verbs").mkdir()
    (tmp_path / "verbs" / "__init__.py").write_text("")
    return tmp_path


async def test_a_change_is_told_once(place: Path) -> None:
    files = Files([place / "verbs"])
    (place / "verbs" / "__init__.py").write_text("x = 1\n")

    assert await files.changes() == ["verbs/__init__.py"]
    assert await files.changes() == []


async def test_files_that_come_and_go_are_changes(place: Path) -> None:
    (place / "verbs" / "old.yaml").write_text("")
    files = Files([place / "verbs"])
    (place / "verbs" / "old.yaml").unlink()
    (place / "verbs" / "new.bpmn").write_text("")

    assert await files.changes() == ["verbs/new.bpmn", "verbs/old.yaml"]


@pytest.mark.parametrize("name", ["notes.txt", ".hidden/a.py", "__pycache__/a.py", "env/lib/a.py", "a.log"])
async def test_what_no_worker_is_made_of_is_left_alone(name: str, place: Path) -> None:
    files = Files([place])
    (place / "env").mkdir()
    (place / "env" / "pyvenv.cfg").write_text("")
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text("")

    assert await files.changes() == []


@pytest.mark.parametrize(("app", "home"), [("verbs:registry", "verbs"), ("single:registry", "."), ("none:x", ".")])
def test_the_home_of_an_application_is_found_without_importing_it(app: str, home: str, place: Path) -> None:
    (place / "verbs" / "__init__.py").write_text("raise SystemExit\n")
    (place / "single.py").write_text("raise SystemExit\n")

    assert home_of(app) == place / home


def test_a_folder_of_sql_is_looked_at_anew(place: Path) -> None:
    (place / "verbs").mkdir(exist_ok=True)
    before = sql_files([place / "verbs"])
    (place / "verbs" / "claim.sql").write_text("SELECT 1;\n")

    assert before == []
    assert sql_files([place / "verbs"]) == [place / "verbs" / "claim.sql"]


def test_a_place_of_sql_that_is_gone_is_named(place: Path) -> None:
    with pytest.raises(CannotRun, match="--sql nowhere: there is no such file or folder"):
        sql_files([Path("nowhere")])
