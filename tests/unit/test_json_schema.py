"""The published JSON Schemas say of a contract file what the linter says, before anything is run."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.schema_validator import SchemaValidator
from verblint.contracts.contract_files import ContractError, read_policies, read_verbs
from verblint.contracts.field_texts import POLICY_TEXTS, VERB_TEXTS
from verblint.contracts.json_schema import FOLDER, SCHEMAS, policy_schema, schema_files, verb_schema

ROOT = Path(__file__).parents[2]
VERBS = SchemaValidator(verb_schema())
POLICIES = SchemaValidator(policy_schema())
SHIPPED = [
    *(ROOT / "verbworker/dev/init/files").rglob("*.in"),
    *(ROOT / "verbworker/profile/verify/files").rglob("*.in"),
]
OURS = sorted(
    file
    for folder in ("verbs", "tests/lint", "processes", "bench", "tests/faults", "tests/support")
    for file in (ROOT / folder).rglob("*.yaml")
)
# What only the linter knows: how fields of one verb fit together, and how files do.
BETWEEN_FIELDS = (
    "is not in sub_verbs",
    "is not declared in",
    "is both a value and an object",
    "a required argument has no default",
    "must be of type",
    "must be one of",
    "is listed twice",
    "a value is listed twice",
    "is reserved",
    "must not be less than",
    "is beyond",
    "is a workflow verb",
    "already belongs to",
    "is declared twice",
    # JSON Schema cannot tell 1.0 from 1.
    "must be an integer",
    "must be 1",
)


def document(text: str) -> Any:
    return yaml.safe_load(text)


def is_contract(content: Any) -> bool:
    return isinstance(content, dict) and bool({"verb", "verbs", "policies"} & content.keys()) and "jobs" not in content


def validator_of(content: Any) -> SchemaValidator:
    return POLICIES if "policies" in content and "verb" not in content else VERBS


def accepted(folder: Path, content: Any) -> str | None:
    """What the linter says against a document, or None when it takes it."""
    is_policy = validator_of(content) is POLICIES
    file = folder / ("policies.yaml" if is_policy else "verbs.yaml")
    file.write_text(json.dumps(content, indent=1))  # YAML reads JSON
    try:
        if is_policy:
            read_policies([file])
        else:
            read_verbs(folder)
    except ContractError as error:
        return str(error)
    finally:
        file.unlink()
    return None


CONTRACTS = [file for file in OURS if is_contract(document(file.read_text()))]


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_is_valid_itself(schema: Any) -> None:
    assert SchemaValidator(schema()).problems([]) != []
    assert json.loads(json.dumps(schema())) == schema()


@pytest.mark.parametrize("file", CONTRACTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_schema_and_linter_agree_on_every_contract_of_ours(tmp_path: Path, file: Path) -> None:
    content = document(file.read_text())

    said = accepted(tmp_path, content)
    found = validator_of(content).problems(content)

    if said is None:
        assert found == []
    else:
        assert found or any(words in said for words in BETWEEN_FIELDS), said


def test_there_are_contracts_to_check() -> None:
    assert len(CONTRACTS) >= 9


@pytest.mark.parametrize(
    "file", [file for file in SHIPPED if ".yaml" in file.name and "github" not in str(file)], ids=str
)
def test_what_we_write_for_users_fits(file: Path) -> None:
    text = file.read_text().replace("@name@", "parcel-return").replace("@title@", "Parcel return")
    content = document(text.replace("@package@", "parcel_return"))

    if is_contract(content):
        assert validator_of(content).problems(content) == []


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key of a document."""
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from places(content[key])


def wrongs(content: Any) -> Iterator[Any]:
    """The document with one thing changed, for every thing in it and every way to get it wrong."""
    for index in range(sum(1 for _ in places(content))):
        for wrong in (None, True, -1, 2.5, "", "no such thing!", "Ä" * 2000, ["x"], {"x": 1}):
            changed = copy.deepcopy(content)
            holder, key = list(places(changed))[index]
            holder[key] = wrong
            yield changed
        changed = copy.deepcopy(content)
        holder, key = list(places(changed))[index]
        if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        else:
            del holder[key]
        yield changed


SEEDS = ["verbs/document.yaml", "tests/lint/contracts/policies.yaml", "tests/lint/contracts/kyc/open-case.yaml"]


@pytest.mark.parametrize("name", SEEDS)
def test_a_wrong_field_is_refused_by_both_or_by_none(tmp_path: Path, name: str) -> None:
    content = document((ROOT / name).read_text())
    missed, strict = [], []

    for changed in wrongs(content):
        if not is_contract(changed):
            continue
        said = accepted(tmp_path, changed)
        fits = not validator_of(changed).problems(changed)
        if fits and said is not None and not any(words in said for words in BETWEEN_FIELDS):
            missed.append(said)
        if not fits and said is None:
            strict.append(changed)

    assert missed == []
    assert strict == []


def paths(schema: Any, path: str = "") -> Iterator[str]:
    """Every field of a schema."""
    for inner in schema.get("anyOf", []):
        yield from paths(inner, path)
    below = f"{path}." if path else ""
    for name, inner in schema.get("properties", {}).items():
        yield f"{below}{name}"
        yield from paths(inner, f"{below}{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            if key == "additionalProperties":
                yield f"{below}*"
            yield from paths(schema[key], f"{below}*")


def test_every_field_is_explained() -> None:
    definitions = verb_schema()["definitions"]
    verbs = {*paths(definitions["workflow"]), *paths(definitions["direct"])}

    assert sorted(verbs - VERB_TEXTS.keys()) == []
    assert sorted(VERB_TEXTS.keys() - verbs - {"sub_verbs.*"}) == []
    assert sorted(set(paths(policy_schema())) - POLICY_TEXTS.keys()) == []
    assert sorted(POLICY_TEXTS.keys() - set(paths(policy_schema())) - {"policies.*"}) == []


def test_a_project_keeps_every_schema_in_one_folder() -> None:
    files = schema_files()

    assert set(files) == {f"{FOLDER}/{name}" for name in SCHEMAS}
    assert all(json.loads(text) for text in files.values())
