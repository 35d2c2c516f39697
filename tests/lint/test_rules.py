from collections import Counter
from collections.abc import Iterator
from re import fullmatch

import pytest

from tests.support.fixture_models import FOLDER, FixtureModel, fixture_models
from verblint.bpmn.element import Element
from verblint.bpmn.reader import read
from verblint.contracts.contract import Contracts
from verblint.linter import inspect
from verblint.report import Finding, Severity
from verblint.rule import CRASHED, Context, Rule
from verblint.rules.index import find, rules
from verblint.settings import Settings
from verblint.startup.value import replace

MODELS = {rule.slug: fixture_models(f"rules/{rule.slug}") for rule in rules()}
VALID = [(rule, model) for rule in rules() for model in MODELS[rule.slug] if model.path.stem.startswith("valid")]
INVALID = [(rule, model) for rule in rules() for model in MODELS[rule.slug] if model.path.stem.startswith("invalid")]


# What each rule does for the requirements.
PROVES = {
    "HB020": ("PRX-19",),
    "HB029": ("PRX-30",),
    "HB101": ("LNT-01", "REG-22", "NOT-01"),
    "HB102": ("LNT-05", "REG-22", "ORC-05"),
    "HB103": ("LNT-05",),
    "HB105": ("LNT-10",),
    "HB118": ("PRX-13",),
    "HB121": ("PRX-05",),
    "HB203": ("LNT-03", "ORC-04"),
    "HB204": ("LNT-11",),
    "HB205": ("LNT-09", "REG-22", "NOT-01", "ORC-05"),
    "HB208": ("LNT-02", "LNT-03", "ORC-04"),
    "HB301": ("LNT-02",),
    "HB302": ("LNT-08", "ORC-10", "REG-22", "NOT-01"),
    "HB303": ("LNT-08", "ORC-10"),
    "HB304": ("LNT-08", "ORC-10"),
    "HB401": ("LNT-04",),
    "HB403": ("POL-06", "POL-08"),
    "HB405": ("LNT-12", "CMP-05"),
    "HB409": ("PRX-20",),
    "HB502": ("LNT-13", "NOT-04"),
    "HB503": ("LNT-13", "PRX-28"),
    "HB504": ("PRX-20", "PRX-30"),
    "HB513": ("LNT-14",),
    "HB515": ("EMC-21",),
    "HB601": ("LNT-06",),
    "AM701": ("PRX-12", "PRX-13"),
    "AM702": ("PRX-11",),
    "AM703": ("PRX-12", "PRX-23", "PRX-24", "PRX-36"),
    "AM704": ("PRX-05", "PRX-36"),
    "AM705": ("PRX-21", "PRX-36"),
    "AM706": ("PRX-20", "PRX-36"),
    "AM707": ("PRX-20", "PRX-28", "PRX-36"),
    "AM708": ("PRX-28",),
    "AM709": ("PRX-07", "PRX-36", "TPL-03"),
    "AM710": ("PRX-22", "TPL-07"),
    "AM712": ("PRX-27", "TPL-07"),
    "AM715": ("POL-04",),
    "AM716": ("PRX-26",),
    "AM717": ("PRX-04", "PRX-05", "PRX-09", "PRX-21"),
    "AM718": ("PRX-29",),
    "AM719": ("PRX-16", "PRX-17"),
    "AM720": ("PRX-16",),
    "AM721": ("PRX-16",),
    "AM722": ("PRX-35",),
    "AM723": ("PRX-25", "JOB-17"),
    "AM724": ("PRX-33",),
    "AM725": ("PRX-12", "PRX-13"),
    "AM751": ("PRX-15", "PRX-18", "X-25"),
    "AM752": ("X-26",),
    "AM753": ("PRX-14", "PRX-16"),
}
PROVING = [
    pytest.param(rule, model, marks=[pytest.mark.req(*PROVES[rule.code])] if rule.code in PROVES else [])
    for rule, model in INVALID
]

# What a person may want; everything else keeps a model from being deployed.
WARNINGS = {
    "HB515",
    *("AM720", "AM721", "AM722", "HB114", "HB404", "HB405", "HB407", "HB411", "HB414", "HB415"),
    *("HB511", "HB512", "HB513", "HB514", "HB601", "HB602", "HB901"),
}


def _name(value: object) -> str:
    return value.path.stem if isinstance(value, FixtureModel) else value.slug if isinstance(value, Rule) else ""


def test_no_two_rules_share_a_code_or_a_slug() -> None:
    names = Counter(name for rule in (*rules(), CRASHED) for name in (rule.code, rule.slug))

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.req("LNT-07")
def test_every_other_rule_is_an_error() -> None:
    assert {rule.code for rule in rules() if rule.severity is not Severity.ERROR} == WARNINGS


@pytest.mark.parametrize("rule", rules(), ids=_name)
def test_a_code_is_two_letters_and_three_digits(rule: Rule) -> None:
    assert fullmatch("(?:HB|AM)[0-9]{3}", rule.code)


@pytest.mark.parametrize("rule", [*rules(), CRASHED], ids=_name)
def test_a_page_says_what_and_why_and_shows_wrong_and_right(rule: Rule) -> None:
    summary, blank, *rest = rule.page.splitlines()

    assert summary.endswith(".")
    assert blank == ""
    assert any(line.startswith("Wrong:  ") for line in rest)
    assert any(line.startswith("Right:  ") for line in rest)
    assert not rest[0].startswith(("Wrong:", "Right:"))


@pytest.mark.req("TST-09")
@pytest.mark.parametrize("rule", rules(), ids=_name)
def test_a_rule_has_a_valid_and_an_invalid_model(rule: Rule) -> None:
    names = {model.path.stem.split("-")[0] for model in MODELS[rule.slug]}

    assert names == {"valid", "invalid"}


def test_every_folder_of_models_belongs_to_a_rule() -> None:
    folders = {path.name for path in (FOLDER / "rules").iterdir()}

    assert folders == {rule.slug for rule in rules()}


@pytest.mark.req("TST-09")
@pytest.mark.parametrize(("rule", "model"), PROVING, ids=_name)
def test_an_invalid_model_is_found_by_its_rule(rule: Rule, model: FixtureModel) -> None:
    assert rule.code in {finding.code for finding in model.findings()}


@pytest.mark.parametrize(("rule", "model"), VALID, ids=_name)
def test_a_valid_model_is_not_found_by_its_rule(rule: Rule, model: FixtureModel) -> None:
    assert rule.code not in {finding.code for finding in model.findings()}


@pytest.mark.parametrize(("rule", "model"), VALID, ids=_name)
def test_a_valid_model_has_no_error_of_any_rule(rule: Rule, model: FixtureModel) -> None:
    assert [(finding.code, finding.element_id, finding.message) for finding in model.errors()] == []


@pytest.mark.parametrize(("rule", "model"), INVALID, ids=_name)
def test_a_finding_has_a_place_an_element_and_a_way_out(rule: Rule, model: FixtureModel) -> None:
    lines = model.content.count(b"\n") + 1
    for finding in model.findings([rule]):
        assert 1 <= finding.line <= finding.end_line <= lines
        assert (finding.line, finding.column) < (finding.end_line, finding.end_column)
        assert finding.element_id or rule.code < "HB010"
        assert finding.hint or rule.code < "HB010"


@pytest.mark.parametrize(("rule", "model"), INVALID, ids=_name)
def test_two_findings_of_one_rule_in_one_file_have_different_fingerprints(rule: Rule, model: FixtureModel) -> None:
    prints = Counter(finding.fingerprint for finding in model.findings([rule]))

    assert [count for count in prints.values() if count > 1] == []


def _raises(context: Context) -> Iterator[Finding]:
    yield context.at(context.root, "found before the crash")
    raise KeyError("nobody thought of this")


def test_a_rule_that_crashes_becomes_a_finding_and_keeps_what_it_found() -> None:
    root: Element = read(b'<definitions id="d"/>')
    rule = Rule("HB999", "crashes", Severity.WARNING, _raises)

    found = list(rule.run(Context.of(root, Settings(), Contracts())))

    assert [(finding.code, finding.severity) for finding in found] == [("HB999", "warning"), ("HB099", "error")]
    assert "crashes stopped with KeyError" in found[1].message


def test_the_page_of_the_rule_for_crashes_finds_nothing_itself() -> None:
    context = Context.of(read(b"<definitions/>"), Settings(), Contracts())

    assert list(CRASHED.check(replace(context, rule=CRASHED))) == []


@pytest.mark.parametrize("name", ["HB215", "hb215", "bare-flag"])
def test_a_rule_is_found_by_code_or_slug(name: str) -> None:
    rule = find(name)

    assert rule is not None
    assert rule.code == "HB215"


def test_nothing_is_found_under_an_unknown_name() -> None:
    assert find("HB998") is None


def test_findings_come_in_the_order_of_their_places() -> None:
    model = next(model for model in MODELS["bare-flag"] if model.path.stem == "invalid-not")
    found = [(finding.line, finding.column) for finding in inspect(model.content).findings]

    assert found == sorted(found)
