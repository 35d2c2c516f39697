"""Suppressions: what a vw:ignore covers, and what it does not."""

import pytest

from tests.support.lint_models import BARE, IGNORE, model
from verblint.linter import inspect
from verblint.suppression import current_date


def codes(content: bytes, today: str = "2026-11-16") -> list[str]:
    return [finding.code for finding in inspect(content, today=today).findings]


def on_process(content: bytes, ignore: str) -> bytes:
    start = b'<startEvent id="start"/>'
    return content.replace(start, f"<extensionElements>{ignore}</extensionElements>".encode() + start)


def test_a_suppression_covers_the_finding_of_its_rule_at_its_element() -> None:
    assert codes(model("=orch_ready", ignore=IGNORE)) == []


@pytest.mark.parametrize("name", ["HB215", "hb215", "bare-flag", "Bare-Flag"])
def test_a_rule_is_named_by_code_or_slug(name: str) -> None:
    assert codes(model("=orch_ready", ignore=IGNORE.replace("HB215", name))) == []


def test_a_suppression_of_another_rule_covers_nothing_and_is_unused() -> None:
    assert sorted(codes(model("=orch_ready", ignore=IGNORE.replace("HB215", "HB222")))) == ["HB215", "HB901"]


def test_a_suppression_on_the_process_does_not_cover_what_is_inside() -> None:
    assert sorted(codes(on_process(BARE, IGNORE))) == ["HB215", "HB901"]


def test_a_suppression_on_the_process_covers_the_process() -> None:
    unexecutable = model().replace(b'isExecutable="true"', b'isExecutable="false"')
    executable = unexecutable.replace(
        b"</definitions>", b'<process id="other" isExecutable="true"></process></definitions>'
    )
    ignore = '<vw:ignore rule="process-not-executable" reason="a draft"/>'

    assert "HB602" in codes(executable)
    assert "HB602" not in codes(on_process(executable, ignore))


def test_one_suppression_covers_every_finding_of_its_rule_there() -> None:
    inspection = inspect(model("=orch_ready or orch_done", ignore=IGNORE), today="2026-11-16")

    assert inspection.findings == ()
    assert len(inspection.suppressed) == 2


def test_a_suppression_holds_on_its_last_day_and_not_after() -> None:
    content = model("=orch_ready", ignore=IGNORE.replace("reason", 'until="2026-11-16" reason'))

    assert codes(content, "2026-11-16") == []
    assert sorted(codes(content, "2026-11-17")) == ["HB215", "HB902"]


@pytest.mark.parametrize(
    ("ignore", "found"),
    [
        ('<vw:ignore rule="HB215"/>', ["HB215", "HB903"]),
        ('<vw:ignore rule="HB215" reason=" "/>', ["HB215", "HB903"]),
        ('<vw:ignore rule="HB215" reason="x" until="31.12.2030"/>', ["HB215", "HB904"]),
        ('<vw:ignore reason="x"/>', ["HB215", "HB904"]),
        ('<vw:ignore rule="HB999" reason="x"/>', ["HB215", "HB904"]),
        ('<vw:ignore rule="HB001" reason="x"/>', ["HB215", "HB904"]),
        ('<vw:ignore rule="HB901" reason="x"/>', ["HB215", "HB904"]),
        ('<vw:ignore rule="HB215" reason="x" because="y"/>', ["HB215", "HB904"]),
        ('<vw:forgive rule="HB215"/>', ["HB215", "HB904"]),
    ],
)
def test_a_suppression_that_is_not_sound_is_a_finding(ignore: str, found: list[str]) -> None:
    assert sorted(codes(model("=orch_ready", ignore=ignore))) == found


def test_a_suppression_outside_extension_elements_covers_nothing() -> None:
    content = model("=orch_ready").replace(b"<conditionExpression>", IGNORE.encode() + b"<conditionExpression>")

    assert {"HB215", "HB904"} <= set(codes(content))


def test_file_safety_cannot_be_suppressed() -> None:
    content = model(ignore='<vw:ignore rule="HB009" reason="x"/>').replace(b'id="no"', b'id="yes"')

    assert {"HB009", "HB904"} <= set(codes(content))


def test_a_suppression_of_a_rule_that_did_not_run_is_not_unused() -> None:
    from verblint.rules.index import find

    unused, other = find("HB901"), find("HB903")
    assert unused is not None
    assert other is not None
    content = model(ignore=IGNORE)

    assert [finding.code for finding in inspect(content, choose=lambda _: [unused, other]).findings] == []
    assert codes(content) == ["HB901"]


KEPT = '<x:kept xmlns:x="urn:x"/>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"\n      <extensionElements>{IGNORE}</extensionElements>", ""),
        (f"<extensionElements>\n  {IGNORE}\n</extensionElements>", ""),
        (
            f"<extensionElements>\n  {KEPT}\n  {IGNORE}\n</extensionElements>",
            f"<extensionElements>\n  {KEPT}\n</extensionElements>",
        ),
        (
            f"<extensionElements>\r\n\t{IGNORE}\r\n\t{KEPT}\r\n</extensionElements>",
            f"<extensionElements>\r\n\t{KEPT}\r\n</extensionElements>",
        ),
        (
            f"<extensionElements>{IGNORE}<!-- why --></extensionElements>",
            "<extensionElements><!-- why --></extensionElements>",
        ),
    ],
)
def test_the_fix_of_an_unused_suppression_removes_it_with_its_line(before: str, after: str) -> None:
    content = model().replace(b'targetRef="left">', b'targetRef="left">' + before.encode())
    (finding,) = inspect(content).findings
    assert finding.fix is not None
    (edit,) = finding.fix.edits

    assert content[: edit.start] + edit.replacement + content[edit.end :] == content.replace(
        before.encode(), after.encode()
    )


def test_today_is_a_day() -> None:
    assert len(current_date()) == len("2026-11-16")
