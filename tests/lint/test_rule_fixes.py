"""The fixes that rules offer: each takes its finding away, and leaves the rest of the file as it was."""

import pytest

from tests.support.bpmn import conditional_flow, document, process
from tests.support.fixture_models import FixtureModel, fixture_models
from verblint.fixes.edits import apply, compatible
from verblint.linter import inspect
from verblint.report import Severity
from verblint.rule import Rule
from verblint.rules.index import find, rules

FIXED_BY = {
    "HB127": "form-attribute",
    "HB215": "bare-flag",
    "HB303": "input-shadows",
    "HB308": "mapping-forbidden",
    "HB309": "literal-required",
    "HB402": "dynamic-job-type",
    "HB507": "timer-form",
    "HB509": "job-based-user-task",
    "HB510": "native-user-task",
    "HB515": "fleans-subscription",
}
FIXABLE = [
    (rule, model)
    for rule in rules()
    for model in fixture_models(f"rules/{rule.slug}")
    if any(finding.fix for finding in model.findings([rule]))
]


def _name(value: object) -> str:
    return value.path.stem if isinstance(value, FixtureModel) else value.slug if isinstance(value, Rule) else ""


def _rule(code: str) -> Rule:
    rule = find(code)
    assert rule is not None
    return rule


def _fixed(content: bytes, code: str) -> bytes:
    return apply(content, compatible(inspect(content, choose=lambda _: [_rule(code)]).findings))


def test_these_rules_have_fixes() -> None:
    assert {rule.code: rule.slug for rule, _ in FIXABLE} == FIXED_BY


@pytest.mark.parametrize(("rule", "model"), FIXABLE, ids=_name)
def test_a_fix_takes_its_finding_away(rule: Rule, model: FixtureModel) -> None:
    before = model.findings([rule])
    content = apply(model.content, compatible(before))

    after = inspect(content, model.name, model.settings, model.contracts, lambda _: [rule]).findings

    assert [finding.message for finding in after] == [finding.message for finding in before if finding.fix is None]


@pytest.mark.parametrize(("rule", "model"), FIXABLE, ids=_name)
def test_a_fix_brings_no_error_that_was_not_there(rule: Rule, model: FixtureModel) -> None:
    content = apply(model.content, compatible(model.findings([rule])))

    after = inspect(content, model.name, model.settings, model.contracts).findings

    errors = {finding.code for finding in after if finding.severity is Severity.ERROR}
    assert errors <= {finding.code for finding in model.errors()}


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("=orch_f", "=orch_f = true"),
        ("=not(orch_f) and orch_n > 3", "=not(orch_f = true) and orch_n &gt; 3"),
        (" \n =orch_f\n", " \n =orch_f = true\n"),
        ("=orch_f<![CDATA[ ]]>", "=orch_f = true<![CDATA[ ]]>"),
        ("=orch_&#102;", "=orch_&#102; = true"),
    ],
)
def test_a_bare_flag_is_compared_with_true(written: str, fixed: str) -> None:
    model = document(process(conditional_flow(written.replace(">", "&gt;") if "CDATA" not in written else written)))

    assert _fixed(model, "HB215") == document(process(conditional_flow(fixed)))


INPUT = '<zeebe:input source="=domain_payload" target="domain_payload"/>'


def _task(extensions: str) -> bytes:
    return document(process(f'<serviceTask id="ask">{extensions}</serviceTask>'))


def test_the_last_mapping_takes_the_empty_extension_elements_with_it() -> None:
    model = _task(f"\n  <extensionElements>\n    <zeebe:ioMapping>{INPUT}</zeebe:ioMapping>\n  </extensionElements>\n")

    assert _fixed(model, "HB303") == _task("\n")


def test_a_mapping_goes_with_its_line() -> None:
    kept = '<zeebe:taskDefinition type="a"/>'
    model = _task(f"<extensionElements>{kept}<zeebe:ioMapping>\n  {INPUT}\n</zeebe:ioMapping></extensionElements>")

    assert _fixed(model, "HB303") == _task(f"<extensionElements>{kept}</extensionElements>")


def test_a_mapping_in_a_line_with_others_goes_alone() -> None:
    kept = '<zeebe:input source="=x" target="y"/>'
    model = _task(f"<extensionElements><zeebe:ioMapping>{INPUT}{kept}</zeebe:ioMapping></extensionElements>")

    assert _fixed(model, "HB303") == _task(
        f"<extensionElements><zeebe:ioMapping>{kept}</zeebe:ioMapping></extensionElements>"
    )


def test_windows_line_ends_go_with_the_line() -> None:
    kept = '<zeebe:input source="=x" target="y"/>'
    model = _task(
        f"<extensionElements><zeebe:ioMapping>\r\n  {INPUT}\r\n  {kept}\r\n</zeebe:ioMapping></extensionElements>"
    )

    assert _fixed(model, "HB303") == _task(
        f"<extensionElements><zeebe:ioMapping>\r\n  {kept}\r\n</zeebe:ioMapping></extensionElements>"
    )


def test_an_element_stays_even_if_only_the_mapping_is_in_it() -> None:
    # Without an id and empty, it looks like something that the mapping leaves behind.
    extensions = f"<extensionElements><zeebe:ioMapping>{INPUT}</zeebe:ioMapping></extensionElements>"
    model = document(process(f"<serviceTask>{extensions}</serviceTask>"))

    assert _fixed(model, "HB303") == document(process("<serviceTask></serviceTask>"))


@pytest.mark.parametrize("kept", ["<!-- why -->", "text", "<?modeler note?>"])
def test_what_is_beside_the_last_mapping_stays(kept: str) -> None:
    model = _task(f"<extensionElements>{kept}<zeebe:ioMapping>{INPUT}</zeebe:ioMapping></extensionElements>")

    assert _fixed(model, "HB303") == _task(f"<extensionElements>{kept}</extensionElements>")


def test_a_lone_carriage_return_does_not_end_the_line_that_goes() -> None:
    kept = '<zeebe:input source="=x" target="y"/>'
    model = _task(f"<extensionElements><zeebe:ioMapping>\n  {INPUT}\r  {kept}\n</zeebe:ioMapping></extensionElements>")

    assert kept.encode() in _fixed(model, "HB303")


def test_a_quoted_literal_loses_its_equals_sign() -> None:
    timer = '<timerEventDefinition><timeDuration> ="P5D" </timeDuration></timerEventDefinition>'
    model = document(process(f'<intermediateCatchEvent id="w">{timer}</intermediateCatchEvent>'))

    assert b"<timeDuration> P5D </timeDuration>" in _fixed(model, "HB507")
