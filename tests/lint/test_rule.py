"""Rules and findings: what a rule is given, what it says, and how a finding is known again."""

from collections.abc import Iterator

import pytest

from tests.support.bpmn import conditional_flow, document, process
from verblint.bpmn.reader import read
from verblint.contracts.contract import Contracts
from verblint.report import Edit, Finding, Fix, Severity
from verblint.rule import Context, Rule, rule
from verblint.settings import Settings

CONTENT = document(
    process(
        '\n<serviceTask id="ask" name="Ask for it"><extensionElements>\n  <zeebe:header key="k" value="=x"/>'
        "</extensionElements></serviceTask>",
        conditional_flow("=orch_f"),
    )
)


@rule("HB999", severity=Severity.WARNING)
def no_header(context: Context) -> Iterator[Finding]:
    """A header is one too many.

    Wrong:  any
    """
    for header in context.root.walk("header", "http://camunda.org/schema/zeebe/1.0"):
        value = header.attribute("value")
        assert value is not None
        fix = Fix("remove it", (Edit(header.start, header.end, b""),))
        yield context.at(value.place, "a header", hint="none", detail="k", fix=fix)


def context(content: bytes = CONTENT) -> Context:
    return Context.of(read(content, "case.bpmn"), Settings(), Contracts())


def found(content: bytes = CONTENT) -> Finding:
    (finding,) = no_header.run(context(content))
    return finding


def test_the_decorator_makes_a_rule_of_a_generator_and_of_its_name() -> None:
    assert isinstance(no_header, Rule)
    assert (no_header.code, no_header.slug, no_header.severity) == ("HB999", "no-header", Severity.WARNING)


def test_the_docstring_is_the_page() -> None:
    assert no_header.summary == "A header is one too many."
    assert no_header.page == "A header is one too many.\n\nWrong:  any"


def test_a_rule_without_words_has_an_empty_page() -> None:
    silent = rule("HB998")(lambda context: iter(()))

    assert (silent.page, silent.summary) == ("", "")


@pytest.mark.parametrize(("code", "suppressible"), [("HB002", False), ("HB203", True), ("AM701", True)])
def test_file_safety_cannot_be_suppressed(code: str, suppressible: bool) -> None:
    assert rule(code)(lambda context: iter(())).is_suppressible is suppressible


@pytest.mark.req("LNT-07")
def test_a_finding_says_where_and_whose_it_is() -> None:
    finding = found()

    assert (finding.code, finding.slug, finding.severity) == ("HB999", "no-header", "warning")
    assert (finding.message, finding.hint, finding.file) == ("a header", "none", "case.bpmn")
    assert (finding.line, finding.column, finding.end_line, finding.end_column) == (3, 32, 3, 34)
    assert (finding.element_id, finding.element_name, finding.element_type) == ("ask", "Ask for it", "serviceTask")
    assert finding.process_id == "case"


def test_a_fix_is_a_list_of_byte_edits() -> None:
    fix = found().fix

    assert fix is not None
    (edit,) = fix.edits
    assert CONTENT[edit.start : edit.end] == b'<zeebe:header key="k" value="=x"/>'


def test_a_finding_points_at_a_place_an_element_or_an_expression() -> None:
    bound = Context.of(read(CONTENT, "case.bpmn"), Settings(), Contracts())
    (branch,) = bound.branches
    at_condition = rule("HB200")(lambda c: iter([c.at(branch.condition, "here")]))
    at_flow = rule("HB200")(lambda c: iter([c.at(branch.flow.element, "here")]))

    (condition,) = at_condition.run(bound)
    (flow,) = at_flow.run(bound)
    assert condition.element_id == flow.element_id == "yes"
    assert condition.end_column - condition.column == len("=orch_f")
    assert flow.column < condition.column


def test_an_element_without_ids_around_it_owns_its_findings() -> None:
    nameless = read(b"<a><b/></a>", "x.bpmn")
    here = rule("HB200")(lambda c: iter([c.at(nameless.children[0], "here")]))

    (finding,) = here.run(Context.of(nameless, Settings(), Contracts()))
    assert (finding.element_id, finding.element_type, finding.process_id) == ("", "b", "")


def test_a_fingerprint_survives_a_new_layout() -> None:
    moved = CONTENT.replace(b"\n", b"\n\n\n   ")

    assert found(moved).line != found().line
    assert found(moved).fingerprint == found().fingerprint


@pytest.mark.parametrize("change", ["code", "process_id", "element_id", "detail"])
def test_a_fingerprint_tells_findings_apart(change: str) -> None:
    facts = {"code": "HB1", "process_id": "p", "element_id": "e", "detail": "d"}

    def fingerprint(**changed: str) -> str:
        return Finding(
            **(facts | changed),  # type: ignore[arg-type]  # a dictionary of texts for the fields that are texts
            slug="s",
            severity=Severity.ERROR,
            message="m",
            file="f",
            line=1,
            column=1,
            end_line=1,
            end_column=2,
        ).fingerprint

    assert fingerprint(**{change: "other"}) != fingerprint()
    assert len(fingerprint()) == 32


def test_engines_are_ordered_by_number() -> None:
    assert Settings(engine="8.10").engine_version > Settings(engine="8.9").engine_version
    assert Settings().engine_version == (8, 8)
