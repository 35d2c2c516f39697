"""The index of rules: a family that is not loaded would have found nothing."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import verblint
from tests.support.fixture_models import FixtureModel, fixture_models
from tests.support.model_source import ModelSource
from verblint.contracts.contract import Contracts
from verblint.linter import inspect
from verblint.rules import index
from verblint.rules.index import FAMILIES, HUNDREDS, family, rules
from verblint.settings import PROFILES, Settings
from verblint.startup.value import replace

UNCONDITIONAL = tuple(replace(rule, on=(), words=()) for rule in rules())
MODELS = fixture_models("rules")


def test_every_module_of_the_folder_is_a_family_of_rules() -> None:
    modules = {path.stem for path in Path(index.__file__).parent.glob("*.py")}

    assert modules - {"__init__", "index"} == set(FAMILIES)
    assert all(family(name) for name in FAMILIES)


def test_a_selection_by_codes_finds_the_families_that_have_them() -> None:
    pairs = {(rule.code[:3], name) for name in FAMILIES for rule in family(name)}

    assert pairs == {(hundred, name) for hundred, names in HUNDREDS.items() for name in names}
    assert not [rule.slug for rule in rules() if rule.slug[:3].upper() in HUNDREDS]


@pytest.mark.parametrize("name", [name for name, marks in FAMILIES.items() if marks])
def test_a_family_with_marks_has_no_rule_that_needs_none_of_them(name: str) -> None:
    wanted = {mark for rule in family(name) for mark in rule.on}

    assert wanted == set(FAMILIES[name])
    assert [rule.slug for rule in family(name) if rule.words or not rule.on] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_what_is_skipped_would_have_found_nothing(model: FixtureModel) -> None:
    assert model.findings() == model.findings(UNCONDITIONAL)


def test_what_is_skipped_would_have_found_nothing_in_damaged_models_either() -> None:
    random = Random(20261116)
    contents = [model.content for model in MODELS] + list(ModelSource(3).sized(20))
    for _ in range(600):
        content = bytearray(random.choice(contents))
        for _ in range(random.randint(1, 3)):
            _exchange_words(content, random)
        settings = Settings(engine=random.choice(("8.6", "8.8", "8.10")), profile=random.choice(PROFILES))
        found = inspect(bytes(content), "x", settings)

        assert found == inspect(bytes(content), "x", settings, Contracts(), lambda _: UNCONDITIONAL)


def _exchange_words(content: bytearray, random: Random) -> None:
    """Put one name of a model in the place of another: elements become others, attributes too."""
    words = bytes(content).replace(b"<", b" ").replace(b">", b" ").replace(b"/", b" ").replace(b'"', b" ").split()
    old, new = random.choice(words), random.choice(words)
    content[:] = bytes(content).replace(old, new)


# What a clean model needs none of; each takes longer to load than a rule to run.
IDLE = (
    *("typing", "dataclasses", "importlib", "argparse", "pathlib", "json", "bisect", "math", "unicodedata", "pickle"),
    *("xml.parsers.expat", "yaml", "tomllib"),
    *("verblint.contracts.profiles", "verblint.feel.syntax_errors", "verblint.fixes.insertions"),
    *("verblint.parallel", "verblint.suppression", "verblint.draw", "verblint.draw_files"),
)


def test_a_clean_model_is_checked_without_what_takes_long_to_load(tmp_path: Path) -> None:
    (tmp_path / "one.bpmn").write_bytes(ModelSource(3).model(11))
    folder = Path(verblint.__file__).parents[1]
    program = f"import sys; sys.path.append({str(folder)!r}); from verblint.cli import main; " + (
        f"code = main(['check', 'one.bpmn']); print([name for name in {IDLE!r} if name in sys.modules])"
    )
    # Without the folders of site-packages, whose start-up files load what they like.
    command = [sys.executable, "-I", "-S", "-c", program]
    # Twice: the first start of a fresh checkout compiles, and compiling loads what it likes too.
    _, done = (subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True) for _ in range(2))

    assert done.stdout.splitlines() == ["1 file checked: nothing found", "[]"]


def test_a_small_model_loads_only_some_families() -> None:
    program = (
        "import sys, verblint; "
        "verblint.lint(b'<definitions xmlns=\"http://www.omg.org/spec/BPMN/20100524/MODEL\"/>'); "
        "print(*(name for name in sys.modules if name.startswith('verblint.rules.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = {name.removeprefix("verblint.rules.") for name in done.stdout.split()}
    assert loaded - {"index"} == {name for name, marks in FAMILIES.items() if not marks}
