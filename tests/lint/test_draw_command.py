"""`verblint draw`: which file goes where, and the exit code."""

import io
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from tests.lint.test_cli import Run, folder, run
from verblint.cli import main

__all__ = ["folder", "run"]


def test_one_model_goes_to_standard_output(run: Run) -> None:
    code, output, errors = run("draw", "clean.bpmn")

    assert (code, errors) == (0, "")
    assert fromstring(output).tag.endswith("svg")


def test_one_model_goes_to_a_file(run: Run, folder: Path) -> None:
    assert run("draw", "clean.bpmn", "-o", "new/clean.svg") == (0, "", "")
    assert run("draw", "bare.bpmn", "--output", "bare.svg", "--theme", "dark") == (0, "", "")

    assert fromstring((folder / "new" / "clean.svg").read_text()).get("data-theme") is None
    assert fromstring((folder / "bare.svg").read_text()).get("data-theme") == "dark"


def test_several_models_go_to_a_folder(run: Run, folder: Path) -> None:
    assert run("draw", "clean.bpmn", "bare.bpmn", "-o", "pictures") == (0, "", "")
    assert run("draw", "ok.bpmn", "-o", "pictures") == (0, "", "")

    assert sorted(path.name for path in (folder / "pictures").iterdir()) == ["bare.svg", "clean.svg", "ok.svg"]


def test_models_of_the_same_name_keep_their_folders(run: Run, folder: Path) -> None:
    for name in ("one/process.bpmn", "two/process.bpmn", "two/process.xml"):
        (folder / "models" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "models" / name).write_bytes((folder / "clean.bpmn").read_bytes())

    assert run("draw", "models", "models/two/process.xml", "-o", "out") == (0, "", "")

    drawn = sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*.svg"))
    assert drawn == ["one/process.svg", "two/process.svg", "two/process.xml.svg"]


def test_standard_input_is_drawn(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ((), ("-o", ".")):
        content = io.BytesIO((folder / "clean.bpmn").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
        code, output, _ = run("draw", "-", *target)
        assert (code, bool(output)) == (0, not target)

    assert (folder / "stdin.svg").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gone.bpmn",), "verblint: gone.bpmn: No such file or directory\n"),
        (("*.dmn",), "verblint: *.dmn: no file matches\n"),
        (("broken.bpmn",), "verblint: broken.bpmn:"),
        (("clean.bpmn", "bare.bpmn"), "verblint: several models need a folder: name it with -o\n"),
        (
            ("clean.bpmn", "bare.bpmn", "-o", "ok.bpmn"),
            "verblint: ok.bpmn: not a folder, and there are several models\n",
        ),
        (("clean.bpmn", "-o", "ok.bpmn/x.svg"), "verblint: ok.bpmn: File exists\n"),
        (("clean.bpmn", "--theme", "pink"), "verblint: argument --theme: invalid choice"),
        ((), "verblint: the following arguments are required: PATH"),
    ],
)
def test_what_could_not_be_drawn_is_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    code, output, errors = run("draw", *words)

    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(sentence)


def test_what_can_be_drawn_is_drawn_beside_what_cannot(run: Run, folder: Path) -> None:
    code, _, errors = run("draw", "broken.bpmn", "clean.bpmn", "*.dmn", "-o", "out")

    assert code == 2
    assert errors.count("\n") == 2
    assert (folder / "out" / "clean.svg").exists()


def test_the_limits_of_the_project_hold(run: Run, folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.verblint.limits]\nsize = 100\n")

    code, _, errors = run("draw", "clean.bpmn")

    assert code == 2
    assert "more than 100 bytes" in errors


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["draw", "--help"])

    assert "0 drawn, 2 something could not be drawn" in capsys.readouterr().out


def test_the_installed_command_draws(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "verblint", "draw", "clean.bpmn"], cwd=folder, capture_output=True, check=True
    )

    assert done.stdout.startswith(b"<svg ")
