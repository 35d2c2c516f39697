"""The formats of a report: what each reader needs, and nothing a model could smuggle in."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.lint_models import BARE, BROKEN, CLEAN, SUPPRESSED, model
from verblint.linter import Linter, lint
from verblint.report import FORMATS, Problem, Report, Severity, printable, render, statistics, subject
from verblint.settings import Project

NASTY = model("=orch_ready", name="&#10;::error::owned&#10;&lt;b&gt;\u009b31m, 100% &amp; &quot;q&quot;")


def whole() -> Report:
    """A report with an error, a warning, a suppressed finding, a refusal and a problem."""
    softened = Linter(Project(severity={"HB215": Severity.WARNING}))
    return Report.of(
        [
            lint(BARE, name="bare.bpmn"),
            softened.lint(NASTY, "soft.bpmn"),
            lint(CLEAN, name="clean.bpmn"),
            lint(SUPPRESSED, name="ok.bpmn"),
            lint(BROKEN, name="broken.bpmn"),
            Report(problems=(Problem("gone.bpmn", "No such file or directory"),)),
        ]
    )


def parsed(form: str) -> Any:
    return json.loads(render(whole(), form))


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_report_has_every_format(form: str) -> None:
    assert render(Report(files=("a.bpmn",)), form) is not None


def test_concise_is_one_line_for_each_finding() -> None:
    lines = render(whole(), "concise").splitlines()

    assert len(lines) == 3
    assert lines[0].startswith("bare.bpmn:10:29: HB215 the flag orch_ready is used alone")
    assert lines[0].endswith(" [yes]")
    assert lines[2].startswith("broken.bpmn:1:14: HB001 not well-formed XML")


def test_full_shows_the_line_with_a_caret_and_what_to_write() -> None:
    block = render(lint(BARE, name="bare.bpmn"), "full").splitlines()

    assert block[0] == "bare.bpmn:10:29: error HB215 bare-flag"
    assert block[2] == "  10 |       <conditionExpression>=orch_ready</conditionExpression>"
    assert block[3] == "     |                             ^^^^^^^^^^"
    assert block[4:7] == [
        "  help: Write: orch_ready = true",
        "  fix:  compare the flag with true (verblint check --fix)",
        '  at:   sequenceFlow yes "yes" of case',
    ]
    assert block[-1] == "1 file checked: 1 error"


def test_full_sums_up() -> None:
    summary = render(whole(), "full").splitlines()[-1]

    assert summary == "5 files checked: 2 errors, 1 warning, 1 suppressed, 1 could not be checked"
    assert render(lint(CLEAN), "full") == "1 file checked: nothing found\n"


def test_full_has_colour_only_when_asked() -> None:
    assert "\x1b[1;31merror\x1b[0m" in render(whole(), "full", colour=True)
    assert "\x1b" not in render(whole(), "full")


def test_full_cuts_a_long_line_around_the_place() -> None:
    flat = BARE.replace(b"\n", b" ")
    block = render(lint(flat), "full").splitlines()

    assert all(len(line) < 140 for line in block)
    assert block[2][block[3].index("^") :].startswith("orch_ready<")


def test_full_marks_a_place_of_several_lines_to_the_end_of_the_first() -> None:
    content = CLEAN.replace(b'<endEvent id="left" name="Left"/>', b'<endEvents\n id="left"/>')
    found = next(finding for finding in lint(content).findings if finding.code == "HB005")
    block = render(Report(files=("x",), findings=(found,), sources={found.file: content}), "full").splitlines()

    assert block[2].endswith("<endEvents")
    assert block[3].endswith("^" * len("<endEvents"))


def test_full_works_without_the_source() -> None:
    report = Report(files=("x",), findings=lint(BARE).findings)

    assert "|" not in render(report, "full")


def test_full_keeps_the_caret_in_place_behind_tabs_and_strange_characters() -> None:
    content = BARE.replace(b"      <conditionExpression>=", b"\t\t<conditionExpression>=\xe2\x80\x8b")
    block = render(lint(content), "full").splitlines()

    assert "\u200b" not in "\n".join(block)
    assert block[3].index("^") == block[2].index("\N{REPLACEMENT CHARACTER}")


def test_json_says_everything() -> None:
    document = parsed("json")

    assert document["layout"] == 1
    assert document["files"] == ["bare.bpmn", "soft.bpmn", "clean.bpmn", "ok.bpmn", "broken.bpmn"]
    assert document["statistics"] == {"HB001": 1, "HB215": 2}
    assert document["problems"] == [{"subject": "gone.bpmn", "message": "No such file or directory"}]
    assert [(entry["code"], entry["reason"], entry["by"]) for entry in document["suppressed"]] == [
        ("HB215", "it is set at the start", "model")
    ]
    first = document["findings"][0]
    assert first["element"] == {"id": "yes", "name": "yes", "type": "sequenceFlow"}
    assert first["fix"]["edits"][0]["replacement"] == " = true"
    assert {"code", "rule", "severity", "message", "hint", "file", "line", "column", "end_line", "end_column"} <= {
        *first
    }
    assert document["findings"][2]["fix"] is None


def test_github_names_the_place_and_lets_no_model_speak_for_itself() -> None:
    lines = render(whole(), "github").splitlines()

    assert lines[0].startswith("::error file=bare.bpmn,line=10,endLine=10,col=29,endColumn=39,title=HB215 bare-flag::")
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::error", "::error"]
    assert lines[3] == "::error file=gone.bpmn,title=could not be checked::gone.bpmn: No such file or directory"


def test_github_escapes_what_its_syntax_uses() -> None:
    report = Report(problems=(Problem("a,b:c%.bpmn", "one\r\ntwo"),))

    assert render(report, "github") == (
        "::error file=a%2Cb%3Ac%25.bpmn,title=could not be checked::a,b:c%25.bpmn: one%0D%0Atwo\n"
    )


def test_gitlab_entries_have_what_it_needs_and_differ() -> None:
    entries = json.loads(render(Report.of([whole(), lint(BARE, name="bare.bpmn")]), "gitlab"))

    assert [entry["severity"] for entry in entries] == ["major", "minor", "major", "major", "blocker"]
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    assert entries[0]["location"] == {"path": "bare.bpmn", "lines": {"begin": 10}}
    assert all({"description", "check_name"} <= {*entry} for entry in entries)


def test_junit_is_xml_with_a_case_for_everything() -> None:
    suite = ElementTree.fromstring(render(whole(), "junit"))[0]
    outcomes = [[child.tag for child in case] for case in suite]

    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7",
        "failures": "3",
        "errors": "1",
        "skipped": "1",
    }
    assert outcomes == [[], [], ["failure"], ["failure"], ["failure"], ["skipped"], ["error"]]
    assert suite[0].get("classname") == "clean.bpmn"


def test_text_from_a_model_cannot_move_a_cursor_or_end_a_line() -> None:
    assert printable("a\x1b[2J\nb\u202ec\u009b") == "a\\x1b[2J\\nb\\u202ec\\x9b"
    for form in ("full", "concise"):
        text = render(lint(NASTY), form)
        assert not any(sign in text for sign in "\x1b\u009b\r")
        assert not any(line.startswith("::") for line in text.splitlines())


def test_a_name_that_is_no_text_does_not_stop_a_report() -> None:
    report = Report.of([lint(BARE, name="a\udcff.bpmn"), Report(problems=(Problem("b\udcff.bpmn", "gone"),))])

    for form in FORMATS:
        assert render(report, form).encode("utf-8", "backslashreplace")


def test_statistics_count_most_frequent_first() -> None:
    assert statistics(whole()).splitlines() == [
        "     1  HB001  error    not-well-formed",
        "     1  HB215  error    bare-flag",
        "     1  HB215  warning  bare-flag",
    ]


def test_a_subject_leaves_out_what_is_not_known() -> None:
    bare, refused = lint(BARE).findings[0], lint(BROKEN).findings[0]

    assert subject(bare) == 'sequenceFlow yes "yes" of case'
    assert subject(refused) == ""
