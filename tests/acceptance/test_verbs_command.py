"""`verbworker verbs`: what there is to ask for, and what modellers drop on their canvas."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import Said, verbworker
from tests.support.schema_validator import SchemaValidator
from tests.support.template_validator import judge
from verblint.contracts.json_schema import SCHEMAS

ROOT = Path(__file__).parents[2]
APP = ("--app", "verbs:registry")
FILE = Path("verbworker.json")


def verbs(*words: str) -> Said:
    return verbworker("verbs", *words, *APP, directory=ROOT)


def listed(*words: str) -> dict[str, dict[str, Any]]:
    return {card["verb"]: card for card in json.loads(verbs("list", *words, "--json").out)}


@pytest.mark.req("REG-12", "REG-23")
def test_every_verb_is_listed_with_its_kind_and_what_it_takes() -> None:
    cards = listed()

    assert list(cards) == sorted(cards)
    assert cards["kyc.open-case"]["kind"] == "workflow"
    assert cards["kyc.screen-sanctions"]["kind"] == "external"
    assert cards["document.solicit"]["kind"] == "transactional"
    assert cards["kyc.open-case"]["sentence"] == "Open KYC case for {entity}"
    assert cards["kyc.open-case"]["arguments"][1] == {
        "name": "case-type",
        "type": "onboarding|periodic-review|event-driven",
        "is_required": True,
    }
    assert {field["name"] for field in cards["document.solicit"]["arguments"]} >= {"client", "document"}


def test_a_verb_is_listed_with_the_policy_its_workflow_gives_it() -> None:
    cards = listed()

    assert cards["kyc.screen-sanctions"]["policy"] == "patient"
    assert cards["kyc.escalate"]["policy"] == "standard"


def test_with_models_a_verb_is_listed_with_the_elements_that_use_it() -> None:
    cards = listed("processes")

    (use,) = cards["kyc.screen-sanctions"]["uses"]
    assert (use["process_id"], use["element_id"]) == ("kyc-open-case", "screen")
    assert use["resource"] == "processes/kyc-open-case/process.bpmn"
    assert cards["kyc.open-case"]["models"] == ["processes/kyc-open-case/process.bpmn"]


def test_a_pipe_gets_one_line_for_each_verb() -> None:
    header, *rows = [line.split("\t") for line in verbs("list", "processes").out.splitlines()]

    assert header == ["verb", "kind", "sentence", "arguments", "policy", "used_by", "errors"]
    assert {len(row) for row in rows} == {7}
    by_name = {row[0]: row for row in rows}
    assert [by_name[f"kyc.{verb}"][6] for verb in ("screen-sanctions", "request-documents", "escalate")] == [
        "SANCTIONS_HIT",
        "none",
        "",
    ]
    assert by_name["kyc.create-case-record"][5] == "kyc-open-case/create"
    assert by_name["document.collect"][3] == "client: string, document: string"
    assert by_name["kyc.escalate"][3].endswith(", and 8 that may be left out")


def test_a_verb_is_listed_with_the_codes_it_declares() -> None:
    cards = listed()

    assert cards["kyc.screen-sanctions"]["errors"] == ["SANCTIONS_HIT"]
    assert cards["kyc.request-documents"]["errors"] == []
    assert cards["kyc.escalate"]["errors"] is None


def test_without_models_a_verb_is_listed_with_the_verbs_that_may_call_it() -> None:
    by_name = {row.split("\t")[0]: row.split("\t") for row in verbs("list").out.splitlines()}

    assert by_name["kyc.escalate"][5] == "kyc.open-case"


def test_a_model_that_is_none_is_a_no_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.bpmn").write_text("<definitions>")

    said = verbs("list", str(tmp_path))

    assert said.code == 1
    assert "broken.bpmn cannot be read" in said.sentence()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "element-templates"


def written(folder: Path) -> list[dict[str, Any]]:
    said = verbs("templates", "--out", str(folder))
    assert said.code == 0, said.err
    found: list[dict[str, Any]] = json.loads((folder / FILE).read_text())
    return found


def test_there_is_a_template_for_every_verb_gate_and_wait(folder: Path) -> None:
    ids = [template["id"] for template in written(folder)]

    direct = [name for name, card in listed().items() if card["kind"] != "workflow"]
    assert [found for found in ids if ".verb." in found] == [f"io.verbworker.verb.{name}" for name in direct]
    assert "io.verbworker.gate.kyc.open-case.review" in ids
    for short in ("catch", "boundary", "receive"):
        assert f"io.verbworker.wait.{short}.kyc.documents-received.corr_documents" in ids
    assert [found for found in ids if ".orch_" in found] == [
        "io.verbworker.wait.deadline.orch_review_deadline",
        "io.verbworker.wait.timer.orch_review_deadline",
    ]
    assert "io.verbworker.undo" in ids


def test_a_template_has_what_the_modelers_ask_for(folder: Path) -> None:
    for template in written(folder):
        assert {"$schema", "name", "id", "version", "appliesTo", "elementType", "properties"} <= template.keys()
        assert template["$schema"].endswith("/@camunda/zeebe-element-templates-json-schema/resources/schema.json")
        assert isinstance(template["version"], int)
        assert template["elementType"]["value"] == template["appliesTo"][0]
        for field in template["properties"]:
            assert field["binding"]["type"] in {
                *("property", "zeebe:taskDefinition", "bpmn:Message#property", "bpmn:TimerEventDefinition#property"),
                "bpmn:Message#zeebe:subscription#property",
            }
        if any(field["binding"]["type"].startswith("bpmn:Message") for field in template["properties"]):
            kind = template["elementType"]
            assert kind["value"] == "bpmn:ReceiveTask" or kind["eventDefinition"] == "bpmn:MessageEventDefinition"


def test_camunda_modelers_own_validator_takes_every_template(folder: Path) -> None:
    told = judge(written(folder))

    assert (told["faults"], told["valid"]) == ([], True)


def test_camunda_modelers_own_validator_would_see_a_fault(folder: Path) -> None:
    (first, *_) = written(folder)

    told = judge([{**first, "properties": [{"type": "Hidden", "binding": {"type": "zeebe:nonsense"}}]}])

    assert not told["valid"]


def test_the_same_registry_gives_the_same_bytes(folder: Path) -> None:
    written(folder)
    first = (folder / FILE).read_bytes()
    written(folder)

    assert (folder / FILE).read_bytes() == first
    shown = json.loads(verbs("templates", "--json").out)
    assert shown == json.loads(first)
    (screening,) = [template for template in shown if template["name"] == "kyc.screen-sanctions"]
    assert screening["description"].endswith(" It may end with the error SANCTIONS_HIT.")


def test_check_tells_a_file_that_is_not_what_the_registry_says(folder: Path) -> None:
    missing = verbs("templates", "--out", str(folder), "--check")
    written(folder)
    same = verbs("templates", "--out", str(folder), "--check")
    (folder / FILE).write_text((folder / FILE).read_text().replace("kyc.escalate", "kyc.eskalate"))
    other = verbs("templates", "--out", str(folder), "--check")

    assert (missing.code, same.code, other.code) == (1, 0, 1)
    assert "does not match the registry; run: verbworker verbs templates" in other.sentence()
    assert "kyc.eskalate" in (folder / FILE).read_text()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    said = verbs("templates", "--out", str(tmp_path / "file" / "below"))

    assert said.code == 2
    assert "--out" in said.sentence()


LINKED = 'zeebe:modelerTemplate="{}" zeebe:modelerTemplateVersion="1"'


@pytest.mark.req("LNT-05")
def test_a_model_made_with_the_templates_is_still_hollow(tmp_path: Path) -> None:
    model = (ROOT / "processes" / "kyc-open-case" / "process.bpmn").read_text()
    verb, wait = "io.verbworker.verb.kyc.escalate", "io.verbworker.wait.catch.kyc.documents-received.corr_documents"
    model = model.replace('<bpmn:serviceTask id="escalate"', f'<bpmn:serviceTask id="escalate" {LINKED.format(verb)}')
    model = model.replace("<bpmn:message ", f"<bpmn:message {LINKED.format(wait)} ", 1)
    (tmp_path / "own.bpmn").write_text(model)
    (tmp_path / "foreign.bpmn").write_text(model.replace(verb, "io.camunda.connectors.HttpJson.v2"))

    own = verbworker("lint", str(tmp_path / "own.bpmn"), directory=ROOT)
    foreign = verbworker("lint", str(tmp_path / "foreign.bpmn"), directory=ROOT)

    assert model.count("io.verbworker.") == 2
    assert (own.code, own.err) == (0, "")
    assert foreign.code == 1
    assert "HB104" in foreign.out


# ---- schemas for editors ---------------------------------------------------------------------------------------------


def test_the_schemas_are_written_and_found_to_be_current(tmp_path: Path) -> None:
    written = verbworker("verbs", "schemas", directory=tmp_path)
    checked = verbworker("verbs", "schemas", "--check", directory=tmp_path)

    assert (written.code, checked.code) == (0, 0), written.err + checked.err
    assert sorted(path.name for path in (tmp_path / ".schemas").iterdir()) == sorted(SCHEMAS)
    assert json.loads((tmp_path / ".schemas/verbs.schema.json").read_text()) == SCHEMAS["verbs.schema.json"]()


def test_a_schema_of_another_version_is_told(tmp_path: Path) -> None:
    verbworker("verbs", "schemas", directory=tmp_path)
    (tmp_path / ".schemas/verbs.schema.json").write_text("{}")

    said = verbworker("verbs", "schemas", "--check", directory=tmp_path)

    assert said.code == 1
    assert "verbs.schema.json is not the schema of this version; run: verbworker verbs schemas" in said.err


@pytest.mark.parametrize("maker", [("init", ".", "--name", "my-app"), ("scaffold", "parcel-return")])
def test_every_contract_of_a_new_project_names_a_schema_that_is_there_and_fits(
    tmp_path: Path, maker: tuple[str, ...]
) -> None:
    said = verbworker(*maker, directory=tmp_path)

    assert said.code == 0, said.err
    contracts = [*(tmp_path / "verbs").rglob("*.yaml"), *(tmp_path / "processes").rglob("policies.yaml")]
    assert len(contracts) == 2
    for file in contracts:
        first, _, content = file.read_text().partition("\n")
        named = file.parent / first.removeprefix("# yaml-language-server: $schema=")
        assert SchemaValidator(json.loads(named.read_text())).problems(yaml.safe_load(content)) == []
