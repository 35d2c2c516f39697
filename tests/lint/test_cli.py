"""The command line: what it prints where, and the exit code that CI trusts."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.lint_models import BARE, BROKEN, CLEAN, SUPPRESSED, model
from verblint.cli import Options, UsageError, check_options, main, parser
from verblint.rules.index import rules

CONTRACTS = str(Path(__file__).parent / "contracts")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in {"bare": BARE, "clean": CLEAN, "broken": BROKEN, "ok": SUPPRESSED}.items():
        (tmp_path / f"{name}.bpmn").write_bytes(content)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.req("LNT-07")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("clean.bpmn",), 0),
        (("ok.bpmn",), 0),
        (("bare.bpmn",), 1),
        (("broken.bpmn",), 1),
        (("clean.bpmn", "bare.bpmn"), 1),
        (("gone.bpmn",), 2),
        (("clean.bpmn", "gone.bpmn"), 2),
        (("bare.bpmn", "gone.bpmn"), 2),
        (("*.dmn",), 2),
        (("clean.bpmn", "*.dmn"), 2),
        (("clean.bpmn", "--select", "HB999"), 2),
        (("clean.bpmn", "--ignore", "HB001"), 2),
        (("clean.bpmn", "--engine", "7.0"), 2),
        (("clean.bpmn", "--profile", "strict"), 2),
        (("clean.bpmn", "--profile", "hollow"), 0),
        (("clean.bpmn", "--profile", "strict-v1"), 1),
        (("clean.bpmn", "--verbs", "nowhere"), 2),
        (("clean.bpmn", "--config", "nowhere.toml"), 2),
        (("clean.bpmn", "--baseline", "nowhere.json"), 2),
        (("clean.bpmn", "--output-file", "no/such/folder/report"), 2),
        (("clean.bpmn", "--nonsense"), 2),
        (("clean.bpmn", "--max-warnings", "-1"), 2),
        ((), 2),
        (("--format", "concise"), 2),
        (("--fix", "--diff", "clean.bpmn"), 2),
        (("--fix", "-"), 2),
        (("bare.bpmn", "--exit-zero"), 0),
        (("gone.bpmn", "--exit-zero"), 2),
        (("bare.bpmn", "--ignore", "HB215"), 0),
        (("bare.bpmn", "--select", "HB3,HB4"), 0),
        (("bare.bpmn", "--select", "HB3", "--select", "bare-flag"), 1),
    ],
)
def test_the_exit_code_says_how_it_went(run: Run, words: tuple[str, ...], code: int) -> None:
    returned, _, errors = run("check", *words)

    assert returned == code
    assert bool(errors) is (code == 2)
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("check", "gone.bpmn"), "verblint: gone.bpmn: No such file or directory\n"),
        (("check", "*.dmn"), "verblint: *.dmn: no file matches\n"),
        (("check", "clean.bpmn", "--select", "HB999"), "verblint: HB999: no rule has this code or name"),
        (("check", "clean.bpmn", "--fromat", "json"), "verblint: unrecognized arguments: --fromat"),
        (("check", "--format", "xml", "clean.bpmn"), "verblint: argument --format: invalid choice"),
        (("check", "--jobs", "x", "clean.bpmn"), "verblint: argument --jobs: invalid number value: 'x'"),
        (("check",), "verblint: name a file, a folder or a pattern to check"),
        (("explain", "HB999"), "verblint: no rule is called HB999"),
        (("chekc", "a"), "verblint: argument COMMAND: invalid choice"),
    ],
)
def test_what_is_wrong_is_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    code, _, errors = run(*words)

    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith(sentence)


def test_without_a_command_help_is_shown(run: Run) -> None:
    code, output, errors = run()

    assert (code, output) == (2, "")
    assert errors.startswith("usage: verblint")


def test_help_names_every_option_and_the_exit_codes(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["check", "--help"])
    shown = capsys.readouterr().out

    assert "0 clean, 1 findings, 2 something could not be checked" in shown
    options = {
        name for name in vars(parser().parse_args(["check", "x"])) if name not in ("command", "version", "paths")
    }
    wanted = {"--format" if name == "form" else f"--{name.replace('_', '-')}" for name in options}
    assert {option for option in wanted if option not in shown} == set()


def test_paths_alone_mean_the_same_with_and_without_the_parser() -> None:
    assert check_options(["a", "b"]) == check_options(["a", "b", "--format", "full"]) == Options(paths=("a", "b"))


def test_a_command_line_that_means_nothing_is_an_error() -> None:
    with pytest.raises(UsageError):
        check_options(["--format"])


def test_a_report_goes_to_a_file_when_asked(run: Run, folder: Path) -> None:
    code, output, _ = run("check", "bare.bpmn", "--format", "json", "--output-file", "report.json")

    assert (code, output) == (1, "")
    assert json.loads((folder / "report.json").read_text())["findings"][0]["code"] == "HB215"


def test_a_folder_and_a_pattern_are_searched_once(run: Run) -> None:
    _, output, _ = run("check", ".", "*.bpmn", "bare.bpmn", "./bare.bpmn", "--format", "concise")

    assert [line.partition(":")[0] for line in output.splitlines()] == ["bare.bpmn", "broken.bpmn"]


def test_standard_input_is_a_file_with_a_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    given(BARE)
    code, output, _ = run("check", "-", "clean.bpmn", "--format", "concise")
    assert (code, output.partition(":")[0]) == (1, "<stdin>")
    given(BARE)
    assert run("check", "-", "--stdin-filename", "a.bpmn", "--format", "concise")[1].startswith("a.bpmn:10:29:")
    given(CLEAN)
    assert run("check", "-")[0] == 0
    given(b"")
    assert run("check", "-")[0] == 1
    given(BARE)
    assert "+      <conditionExpression>=orch_ready = true" in run("check", "-", "--diff")[1]


def test_statistics_follow_a_report_for_people_and_stay_out_of_others(run: Run) -> None:
    _, output, errors = run("check", "bare.bpmn", "--statistics")
    assert output.splitlines()[-1] == "     1  HB215  error    bare-flag"
    assert errors == ""

    _, output, errors = run("check", "bare.bpmn", "--statistics", "--format", "json")
    assert json.loads(output)
    assert errors.startswith("     1  HB215")


def test_settings_of_the_project_hold_and_the_command_line_wins(run: Run, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.verblint]\nengine = "8.6"\nselect = ["HB2"]\nmax-warnings = 1\nseverity = {HB215 = "warning"}\n'
    )

    assert run("check", "bare.bpmn")[0] == 0
    assert run("check", "bare.bpmn", "--max-warnings", "0")[0] == 1
    shown = run("check", "--show-settings", "--engine", "8.9", "--select", "HB3", "--policies", "p.yaml")[1]
    assert 'engine = "8.9"' in shown
    assert 'select = ["HB3"]' in shown
    assert "p.yaml" in shown


def test_an_unknown_setting_is_refused(run: Run, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.verblint]\nengin = "8.6"\n')

    code, _, errors = run("check", "clean.bpmn")

    assert code == 2
    assert "has no setting engin; did you mean engine?" in errors


def test_a_setting_with_an_invalid_pattern_is_refused_in_one_sentence(run: Run, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.verblint.per-file-ignores]\n"[z-a].bpmn" = ["HB601"]\n')

    assert run("check", "clean.bpmn") == (2, "", "verblint: per-file-ignores: [z-a].bpmn: this is not a pattern\n")


def test_a_problem_is_printed_once(run: Run) -> None:
    assert run("check", "clean.bpmn", "*.dmn", "*.dmn")[2] == "verblint: *.dmn: no file matches\n"


def test_another_file_of_settings_can_be_named(run: Run, folder: Path) -> None:
    (folder / "other.toml").write_text('[tool.verblint]\nignore = ["HB215"]\n')

    assert run("check", "bare.bpmn", "--config", "other.toml")[0] == 0


def test_contracts_are_compared_with_models(run: Run) -> None:
    code, output, _ = run("check", "clean.bpmn", "--verbs", CONTRACTS, "--format", "concise")

    assert code == 1
    assert "HB406" in output


def test_broken_contracts_are_named_place_by_place(run: Run, folder: Path) -> None:
    (folder / "verbs").mkdir()
    (folder / "verbs" / "a.yaml").write_text("verb: a.b\nversion: x\nwrits: []\n")

    code, output, errors = run("check", "clean.bpmn", "--verbs", "verbs")

    assert (code, output) == (2, "")
    assert "the verb contracts have 2 faults:" in errors
    assert "a.yaml:3:1: writs: unknown field; did you mean writes?" in errors


def test_a_baseline_is_written_and_then_forgives(run: Run, folder: Path) -> None:
    code, _, errors = run("check", "bare.bpmn", "--write-baseline", "known.json")
    assert (code, errors) == (0, "verblint: known.json: 1 written down\n")
    assert run("check", "bare.bpmn", "--baseline", "known.json")[0] == 0

    (folder / "bare.bpmn").write_bytes(model("=orch_ready or orch_late"))
    assert run("check", "bare.bpmn", "--baseline", "known.json")[0] == 1

    (folder / "bare.bpmn").write_bytes(CLEAN)
    code, _, errors = run("check", "bare.bpmn", "--baseline", "known.json")
    assert (code, errors) == (0, "verblint: known.json: 1 of its entries no longer occur; write it again\n")


def test_file_safety_is_not_written_down(run: Run) -> None:
    assert run("check", "broken.bpmn", "--write-baseline", "known.json")[0] == 1


def test_the_project_may_name_its_baseline(run: Run, folder: Path) -> None:
    run("check", "bare.bpmn", "--write-baseline", "known.json")
    (folder / "pyproject.toml").write_text('[tool.verblint]\nbaseline = "known.json"\n')

    assert run("check", "bare.bpmn")[0] == 0


def test_fixes_are_shown_or_written(run: Run, folder: Path) -> None:
    code, output, _ = run("check", "--diff", "bare.bpmn")
    assert (code, output.splitlines()[0]) == (1, "--- a/bare.bpmn")
    assert (folder / "bare.bpmn").read_bytes() == BARE
    assert run("check", "--diff", "clean.bpmn")[:2] == (0, "")

    code, _, errors = run("check", "--fix", "bare.bpmn")
    assert (code, errors) == (0, "verblint: bare.bpmn: 1 fixed\n")
    assert (folder / "bare.bpmn").read_bytes() == CLEAN


def test_a_fix_of_a_warning_is_a_change_too(run: Run, folder: Path) -> None:
    (folder / "unused.bpmn").write_bytes(SUPPRESSED.replace(b">=orch_ready<", b">=orch_ready = true<"))

    assert run("check", "--diff", "--max-warnings", "9", "unused.bpmn")[0] == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_processes_change_nothing_but_the_time(run: Run, jobs: str) -> None:
    code, output, _ = run("check", ".", "gone.bpmn", "--jobs", jobs, "--format", "concise")

    assert code == 2
    assert [line.partition(":")[0] for line in output.splitlines()] == ["bare.bpmn", "broken.bpmn"]


def test_much_work_is_shared_and_little_is_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []

    def share(linter: object, files: list[str], processes: int) -> object:
        from verblint.linter import Linter, lint_files

        shared.append(len(files))
        assert isinstance(linter, Linter)
        return lint_files(linter, files)

    monkeypatch.setattr("verblint.parallel.lint_in_parallel", share)
    monkeypatch.setattr("verblint.parallel.available_processes", lambda: 2)
    run("check", ".")
    assert shared == []

    monkeypatch.setattr("verblint.parallel._BYTES_WORTH_PROCESSES", 10)
    run("check", ".", "gone.bpmn")
    assert shared == [5]
    run("check", "clean.bpmn")
    assert shared == [5]


def test_explain_prints_the_page_of_a_rule(run: Run) -> None:
    code, output, _ = run("explain", "bare-flag")

    assert (code, output.splitlines()[0]) == (0, "HB215 bare-flag (error)")
    assert "Wrong:" in output
    assert "Right:" in output


def test_rules_are_listed_for_people_and_machines(run: Run) -> None:
    listed = json.loads(run("rules", "--format", "json")[1])

    assert len(listed) == len(rules()) + 1
    assert {"code": "HB215", "rule": "bare-flag", "severity": "error", "suppressible": True}.items() <= next(
        entry for entry in listed if entry["code"] == "HB215"
    ).items()
    assert len(run("rules")[1].splitlines()) == len(listed)
    assert run("rules", "--format", "markdown")[1].startswith("### HB0xx")


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version")[1].startswith("verblint 0.")


def test_an_output_that_cannot_show_a_character_gets_it_escaped(folder: Path) -> None:
    (folder / "bare.bpmn").write_bytes(model("=orch_ready", name="Prüfung"))
    done = subprocess.run(
        [sys.executable, "-m", "verblint", "check", "bare.bpmn"],
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )

    assert done.returncode == 1
    assert b"Pr\\xfcfung" in done.stdout


def test_the_process_ends_with_the_code(folder: Path) -> None:
    codes = [
        subprocess.run([sys.executable, "-m", "verblint", "check", name], capture_output=True, check=False).returncode
        for name in ("clean.bpmn", "bare.bpmn", "gone.bpmn")
    ]

    assert codes == [0, 1, 2]


def test_a_reader_who_leaves_is_no_crash(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "verblint", "check", "bare.bpmn"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 141
    assert errors == b""


def test_an_interrupt_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: Options) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("verblint.cli.check", interrupted)

    assert run("check", "clean.bpmn") == (130, "", "")


def test_a_terminal_gets_colour_unless_it_does_not_want_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in run("check", "bare.bpmn")[1]

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", "bare.bpmn")[1]


@pytest.mark.parametrize("words", [["check", "bare.bpmn"], ["rules"], ["--help"], ["draw", "bare.bpmn"]])
def test_a_pipe_that_its_reader_closed_is_quiet(words: list[str], folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run(
        [sys.executable, "-m", "verblint", *words], cwd=folder, stdout=writing, stderr=subprocess.PIPE, timeout=60
    )

    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_character_the_output_lacks_is_escaped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bare.bpmn").write_bytes(model("=orch_ready", name="Prüfung"))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))

    assert main(["check", "bare.bpmn"]) == 1
    assert b"Pr\\xfcfung" in written.getvalue()


def test_the_page_for_crashes_is_there_too(run: Run) -> None:
    assert run("explain", "HB099")[1].startswith("HB099 rule-crashed (error)")
