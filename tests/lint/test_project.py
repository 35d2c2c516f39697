"""Settings of a project: found upwards, checked word by word."""

from pathlib import Path
from tomllib import loads

import pytest

from verblint.report import Severity
from verblint.rules.index import FAMILIES, Selection
from verblint.settings import Project, SettingError, Settings, find_project, read_project
from verblint.settings_dump import settings_text
from verblint.startup.value import fields

FULL = """
[tool.verblint]
engine = "8.10"
verbs = "verbs"
policies = ["a.yaml"]
select = ["HB"]
ignore = ["HB601"]
max-warnings = 3
baseline = "known.json"
service-tasks = 20
profile = "strict-v1"
allow-identity-mappings = true
[tool.verblint.severity]
HB601 = "error"
[tool.verblint.per-file-ignores]
"old/*.bpmn" = ["HB2"]
[tool.verblint.limits]
size = 1000
"""


def written(folder: Path, text: str) -> str:
    file = folder / "pyproject.toml"
    file.write_text(text)
    return str(file)


def test_every_setting_is_read(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, FULL))

    assert project.settings.engine == "8.10"
    assert project.settings.profile == "strict-v1"
    assert (project.settings.service_tasks, project.settings.allow_identity_mappings) == (20, True)
    assert (project.settings.limits.size, project.settings.limits.depth) == (1000, 100)
    assert (project.verbs, project.policies) == ("verbs", ("a.yaml",))
    assert (project.select, project.ignore, project.severity) == (("HB",), ("HB601",), {"HB601": Severity.ERROR})
    assert project.per_file_ignores == {"old/*.bpmn": ("HB2",)}
    assert (project.max_warnings, project.baseline) == (3, "known.json")


def test_paths_start_at_the_file_they_stand_in(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, FULL))

    assert Path(project.path(project.verbs)).resolve() == tmp_path / "verbs"


def test_paths_of_the_current_folder_stay_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, FULL)

    assert (find_project().folder, find_project().path("verbs")) == ("", "verbs")


def test_the_nearest_file_with_settings_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    written(tmp_path, FULL)
    written(tmp_path / "a", '[project]\nname = "verblint-user"\n')
    written(inner, '[project]\nname = "x"\n')

    assert find_project(str(inner)).settings.engine == "8.10"


def test_without_a_file_the_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.isfile", lambda _: False)

    assert find_project() == Project()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('engin = "8.8"', "no setting engin; did you mean engine?"),
        ("zzz = 1", "no setting zzz; it has allow-identity-mappings"),
        ('engine = "9.0"', "engine in .* must be one of 8.6, 8.7, 8.8, 8.9, 8.10"),
        ('profile = "strict"', "profile in .* must be one of hollow, strict-v1"),
        ("strict-v1 = true", "no setting strict-v1"),
        ("engine = 8.8", "engine in .* must be a text"),
        ('verbs = ""', "verbs in .* must be a text"),
        ('select = "HB"', "select in .* must be a list of texts"),
        ("ignore = [1]", "ignore in .* must be a list of texts"),
        ("max-warnings = -1", "max-warnings in .* must be a number of 0 or more"),
        ("service-tasks = true", "service-tasks in .* must be a number of 0 or more"),
        ("allow-identity-mappings = 1", "must be true or false"),
        ("limits = 3", "limits in .* must be a table"),
        ("limits = {size = 0}", "size in .* must be a number of 1 or more"),
        ("limits = {sise = 1}", "no setting limits.sise; did you mean size?"),
        ('severity = {HB601 = "fatal"}', "severity.HB601 in .* must be error or warning"),
        ("severity = 1", "severity in .* must be a table"),
        ('per-file-ignores = {"*" = "HB2"}', "must be a list of texts"),
        ("folder = 'x'", "no setting folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        read_project(written(tmp_path, f"[tool.verblint]\n{text}\n"))


@pytest.mark.parametrize("text", ["[tool.verblint", "[tool]\nverblint = 3", "[tool.verblint]\nx = '\x00'"])
def test_a_file_that_is_not_in_order_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingError, match=r"pyproject\.toml: "):
        read_project(written(tmp_path, text))


def test_a_file_that_is_named_must_have_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no"):
        read_project(written(tmp_path, "[project]\n"))
    with pytest.raises(SettingError, match="No such file"):
        read_project(str(tmp_path / "other.toml"))


def test_shown_settings_can_be_read_again(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, FULL))
    shown = settings_text(project)

    assert shown.startswith(f"# {project.file}\n")
    assert read_project(written(tmp_path, shown)) == project


@pytest.mark.parametrize("text", ["größe", "²", "٣", "𝄞.bpmn", "a\x7fb\t\n\x00\u2028", 'a"b\\', "a b", "", "-", "日本"])
def test_any_text_is_shown_as_toml(text: str) -> None:
    project = Project(
        verbs=text, select=(text, "HB"), severity={text: Severity.ERROR}, per_file_ignores={text: (text,)}
    )

    shown = loads(settings_text(project))["tool"]["verblint"]

    assert shown.get("verbs", "") == text
    assert shown["select"] == [text, "HB"]
    assert shown["severity"] == {text: "error"}
    assert shown["per-file-ignores"] == {text: [text]}


def test_shown_settings_are_ascii_so_that_no_terminal_changes_them() -> None:
    assert settings_text(Project(verbs="größe/𝄞", file="größe\n[x]/pyproject.toml")).isascii()


@pytest.mark.parametrize("file", ["a\nb/pyproject.toml", "a\rb/pyproject.toml", "\x7f\x00", "\udcff/pyproject.toml"])
def test_the_name_of_the_file_stays_a_comment(file: str) -> None:
    assert loads(settings_text(Project(file=file))) == loads(settings_text(Project()))


def test_a_name_that_is_not_unicode_is_shown_as_a_comment() -> None:
    # Arguments of the command line may hold such bytes; TOML has no way to write them.
    shown = settings_text(Project(verbs="a\udcff", select=("HB", "\udcff")))

    assert '# verbs = "a\\udcff"\n' in shown
    assert loads(shown) == loads(settings_text(Project()))


def test_shown_defaults_name_every_setting() -> None:
    shown = settings_text(Project())

    assert "the defaults hold" in shown
    assert all(name.replace("_", "-") in shown for name in fields(Settings))


def codes(**choices: tuple[str, ...]) -> set[str]:
    choose = Selection(Project(**choices)).of("a.bpmn")  # type: ignore[arg-type]  # the fields differ in type
    return {rule.code for rule in choose(FAMILIES)}


def test_all_rules_run_by_default() -> None:
    assert {"HB001", "HB215", "HB601", "AM701", "HB901"} <= codes()


@pytest.mark.parametrize("name", ["HB215", "hb215", "bare-flag"])
def test_a_rule_can_be_selected_alone_and_file_safety_stays(name: str) -> None:
    assert {code for code in codes(select=(name,)) if not code.startswith("HB0")} == {"HB215"}
    assert "HB001" in codes(select=(name,))


def test_a_family_is_selected_by_its_beginning() -> None:
    assert {code[:3] for code in codes(select=("HB2",))} == {"HB0", "HB2"}
    assert codes(select=("all",)) == codes()


def test_what_is_ignored_does_not_run() -> None:
    assert codes() - codes(ignore=("HB2", "too-many-service-tasks")) >= {"HB215", "HB601"}
    assert {code for code in codes(ignore=("HB",)) if code.startswith("HB")} == {
        code for code in codes() if code.startswith("HB0")
    }


@pytest.mark.parametrize(
    ("project", "words"),
    [
        (Project(select=("HB999",)), "HB999: no rule has this code"),
        (Project(ignore=("nothing",)), "nothing: no rule has this code"),
        (Project(ignore=("HB001",)), "file safety"),
        (Project(ignore=("over-limit",)), "file safety"),
        (Project(severity={"HB0": Severity.WARNING}), "file safety"),
        (Project(per_file_ignores={"*": ("HB002",)}), "file safety"),
        (Project(per_file_ignores={"[z-a].bpmn": ("HB2",)}), r"per-file-ignores: \[z-a\]\.bpmn: this is not a pattern"),
        (Project(per_file_ignores={"*": ("HB2",), "old/[!].bpmn": ()}), r"old/\[!\]\.bpmn: this is not a pattern"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(project: Project, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Selection(project)
