"""Tables of commands on terminals of any width: nothing is cut, and ids stay in one line."""

import re
from uuid import UUID

import pytest

from verbworker.app import output

ROW = {
    "token_id": "8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40",
    "gate": "approval",
    "sentence": "Claim 800 for Ada",
    "opened_at": "2026-11-18T04:00:00.123456Z",
    "takes": "approve, reject",
    "asked": "amount: 800; purpose: A train to Vienna",
    "claimed_by": None,
    "state": "ada decided approve",
}


@pytest.mark.parametrize("width", [40, 80, 240])
def test_a_table_of_any_width_shows_the_end_of_every_row(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    output.show([ROW, {**ROW, "gate": "review"}], columns=tuple(ROW), as_json=False)

    shown = re.sub("\\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(len(line) <= width for line in shown.splitlines())
    assert shown.count("8b1f6a52") == 2
    assert shown.count("ada decided approve") == 2
    assert shown.count("State") == (1 if width == 240 else 2)


def test_objects_in_a_table_are_json_and_no_python(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([{"args": {"name": "Ada", "is_new": True}}], columns=("args",), as_json=False)

    assert capsys.readouterr().out == 'args\n{"name": "Ada", "is_new": true}\n'


@pytest.mark.parametrize("width", [40, 240])
def test_a_time_in_a_table_is_short_and_in_a_pipe_exact(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    output.show([ROW], columns=("opened_at", "gate"), as_json=False)
    piped = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.show([ROW], columns=("opened_at", "gate"), as_json=False)
    shown = capsys.readouterr().out

    assert piped == "opened_at\tgate\n2026-11-18T04:00:00.123456Z\tapproval\n"
    assert "2026-11-18 04:00:00Z" in shown
    assert "123456" not in shown


def test_an_incident_is_short_if_it_has_an_id_and_whole_if_it_has_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    ids: list[object] = [UUID("8b1f6a52-0d0e-4c55-9a6e-3f2a7c1d9e40"), 2251799813685249, 2251799813685250]

    output.show([{"incident": one, "why": "w" * 90} for one in ids], columns=("incident", "why"), as_json=False)

    shown = capsys.readouterr().out
    assert "8b1f6a52 " in shown
    assert "8b1f6a52-" not in shown
    assert "2251799813685249" in shown
