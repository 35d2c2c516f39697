"""What README and documentation show is what works: their Python runs, their contracts fit, their commands exist."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from docs.generate import included, settings
from docs.generate.pages import generated_files
from tests.support.cli_walk import commands_in, misuse
from tests.support.docs_pages import DOCS, ROOT, SHORT, Page, pages
from tests.support.postgres import ForeignPostgres, Postgres
from tests.support.schema_validator import SchemaValidator
from tests.surface import surface
from verblint.contracts.fields import DIRECT, WORKFLOW
from verblint.contracts.json_schema import SCHEMAS
from verblint.rules.index import rules
from verbworker import Registry
from verbworker.contract.workflow import load_verbs, workflow_verbs
from verbworker.engine.zeebe import connection
from verbworker.profile.verify.rules import RULES

README = Page("README.md", (ROOT / "README.md").read_text())
GENERATED = generated_files()
INCLUDED = [Page(name, GENERATED[name]) for name in included.INCLUDED]
PAGES = [README, *pages(), *INCLUDED]
MARKDOWN = [
    file.relative_to(ROOT)
    for folder in ("docs", "deploy", "lint", "verbworker", "tests", "bench", "sql", "processes")
    for file in sorted((ROOT / folder).rglob("*.md"))
] + [file.relative_to(ROOT) for file in sorted(ROOT.glob("*.md"))]
LANGUAGES = {"", "dockerfile", "json", "python", "sh", "sql", "text", "toml", "typescript", "xml", "yaml"}
_NAMESPACES = (
    'xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
)


def by_name(page: Page) -> str:
    return page.name


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240, env={**os.environ, **environment}
    )


# ---- blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_block_has_a_language_that_is_tried(page: Page) -> None:
    assert {block.language for block in page.blocks} <= LANGUAGES, "write ```sh for commands, so that they are tried"


@pytest.mark.parametrize("page", [page for page in PAGES if not page.name.startswith("tutorial/")], ids=by_name)
def test_the_python_of_a_page_runs(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for block in page.blocks:
        if block.language == "python" and not block.is_file:
            exec(compile(block.text, page.name, "exec"), names)

    assert names or not any(block.language == "python" and not block.is_file for block in page.blocks)


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_the_data_of_a_page_can_be_read(page: Page) -> None:
    for block in page.blocks:
        match block.language:
            case "json":
                json.loads(block.text)
            case "xml" if page not in INCLUDED:  # the linter's page shows parts of elements
                declared = block.text if block.text.startswith("<?xml") else f"<x {_NAMESPACES}>{block.text}</x>"
                ElementTree.fromstring(declared.encode())
            case "yaml":
                content = yaml.safe_load(block.text)
                name = next(
                    (name for name in ("policies", "verbs") if isinstance(content, dict) and name in content), ""
                )
                if name:
                    assert SchemaValidator(SCHEMAS[f"{name}.schema.json"]()).problems(content) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_command_of_a_page_exists(page: Page) -> None:
    typed = [shlex.split(line, comments=True)[1:] for line in page.lines if line.startswith("verbworker ")]
    problems = {" ".join(words): misuse(words) for words in commands_in(page.text) if words != ["--version"]}

    # A command that is only named may lack what it needs.
    wrong = {words: problem for words, problem in problems.items() if problem and "Missing" not in problem}
    assert wrong | {" ".join(words): misuse(words) for words in typed if words != ["--version"] and misuse(words)} == {}


def test_a_setting_that_is_named_is_one() -> None:
    known = set(re.findall(r"VERBWORKER_[A-Z_]+[A-Z]", GENERATED["reference/settings.md"]))
    # Settings of the test kit and of a case, and prefixes.
    known |= {"VERBWORKER_TEST_DSN", "VERBWORKER_CONSOLE", "VERBWORKER_INGRESS"}
    named = {name for page in PAGES for name in re.findall(r"VERBWORKER_[A-Z_]+[A-Z]", page.text)}

    assert named <= known


# ---- a verb and a process -------------------------------------------------------------------------------------------


def test_the_contract_of_the_guide_fits_its_verb(tmp_path: Path) -> None:
    guide = next(page for page in PAGES if page.name == "how-to/write-a-verb.md")
    names: dict[str, object] = {}
    python, contract, model = (
        next(block.text for block in guide.blocks if block.language == language)
        for language in ("python", "yaml", "xml")
    )
    exec(python, names)
    verbs = names["verbs"]
    assert isinstance(verbs, Registry)
    (tmp_path / "invoice.yaml").write_text(contract)

    (workflow,) = workflow_verbs(load_verbs(tmp_path))

    assert verbs.declare(workflow).check().find("invoice.book") is not None
    assert f'type="{workflow.sub_verbs[0]}"' in model
    assert f"={next(iter(workflow.flag_contract.flags))} = true" in model


@pytest.mark.req("TST-15")
def test_the_tests_of_the_guide_pass_for_every_crash_point(
    tmp_path: Path, postgres: Postgres | ForeignPostgres
) -> None:
    guide = next(page for page in PAGES if page.name == "how-to/test.md")
    for name in ("verbs", "processes/document-collect"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nverbs = "verbs"\n')
    for block in guide.blocks:
        if block.is_file:
            block.write(tmp_path)

    done = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=tmp_path,
        VERBWORKER_TEST_DSN=postgres.dsn,
        PYTHONPATH=str(tmp_path),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_the_hooks_headers_and_timeouts_of_the_guide_work(tmp_path: Path, postgres: Postgres | ForeignPostgres) -> None:
    guide = next(page for page in PAGES if page.name == "how-to/hooks.md")
    (tmp_path / "pyproject.toml").write_text('[tool.verblint]\nverbs = "verbs"\n')
    for block in guide.blocks:
        block.write(tmp_path)
    (tmp_path / "verbs" / "__init__.py").touch()

    done = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=tmp_path,
        VERBWORKER_TEST_DSN=postgres.dsn,
        PYTHONPATH=str(tmp_path),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


# ---- README ---------------------------------------------------------------------------------------------------------


def test_the_readme_is_one_screen() -> None:
    assert len(README.text.splitlines()) <= 70


def prose(file: Path) -> str:
    return re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)


def is_there(file: Path, target: str) -> bool:
    """Whether a link leads to a file and, if it names one, to a heading, as a forge shows the repository."""
    path, _, anchor = target.partition("#")
    place = file.parent / path if path else file
    if not anchor or place.suffix != ".md":
        return place.exists()
    headings = re.findall(r"^#+ (.*)$", prose(place), flags=re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", MARKDOWN, ids=str)
def test_every_link_leads_somewhere_on_the_page_of_the_repository(file: Path) -> None:
    targets = [target for target in re.findall(r"\]\(([^)\s]+)", prose(ROOT / file)) if "://" not in target]

    assert [target for target in targets if not is_there(ROOT / file, target)] == []


def test_what_is_generated_has_a_short_page_or_its_picture_in_the_repository() -> None:
    for name, text in GENERATED.items():
        if name.endswith(".md"):
            assert SHORT in (DOCS / name).read_text()
        elif name.endswith(".svg"):
            assert (DOCS / name).read_text() == text, f"write it again: docs/{name}"


def test_the_make_targets_of_the_pages_exist() -> None:
    lines = [line for page in PAGES for line in page.lines if line.startswith("make ")]
    targets = {shlex.split(line, comments=True)[1] for line in lines}

    assert {"demo", "dist"} <= targets
    assert run("make", "--dry-run", *sorted(targets), cwd=ROOT).returncode == 0


# ---- the reference is complete --------------------------------------------------------------------------------------


def test_the_reference_has_every_field_of_a_contract() -> None:
    shown = GENERATED["reference/contract.md"]
    fields = {*WORKFLOW.schema()["properties"], *DIRECT.schema()["properties"]}

    assert [name for name in fields if f"| `{name}` |" not in shown] == []


def test_the_reference_has_every_command_with_its_options() -> None:
    shown = GENERATED["reference/commands.md"]
    commands = {words: parts for words, parts in surface()["commands"].items() if "dev-hand" not in words}
    options = {part.split()[0] for parts in commands.values() for part in parts if "hidden" not in part}

    assert [words for words in commands if words != "verbworker" and f"# {words}\n" not in shown] == []
    named = {option for option in options if option.startswith("--")} - {"--version", "--install-completion"}
    assert sorted(option for option in named - {"--show-completion"} if f"`{option}`" not in shown) == []


def test_the_reference_has_every_setting_and_metric() -> None:
    promised = surface()

    settings_page, metrics_page = GENERATED["reference/settings.md"], GENERATED["reference/metrics.md"]
    assert [name for name in promised["settings"] if f"`VERBWORKER_{name.upper()}`" not in settings_page] == []
    assert [name for name in promised["metrics"] if f"`{name}" not in metrics_page] == []


def test_the_reference_has_every_variable_of_the_engine() -> None:
    source = Path(str(connection.__file__)).read_text()
    read = set(re.findall(r'"((?:CAMUNDA|ZEEBE)_[A-Z_]+)"', source)) | set(re.findall(r"'(CAMUNDA_[A-Z_]+)'", source))
    listed = {name for names in settings.ENGINE_VARIABLES for name in names.split(", ")}

    assert listed == read


def test_the_reference_has_every_rule_and_every_public_name() -> None:
    pages = GENERATED["reference/rules.md"], GENERATED["reference/python.md"]

    assert [rule.code for rule in (*rules(), *RULES) if f"{{ #{rule.code.lower()} }}" not in pages[0]] == []
    assert [name for name in surface()["verbworker"] if f"::: verbworker.{name}\n" not in pages[1]] == []
    for name in re.findall(r"^::: ([\w.]+)$", pages[1], re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        assert getattr(getattr(import_module(module), attribute), "__doc__", ""), f"{name} has no docstring"


def test_every_page_is_in_the_navigation() -> None:
    listed = {page.name for page in pages()} | {name for name in GENERATED if name.endswith(".md")}

    assert {str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")} == listed


# ---- hello world, counted -------------------------------------------------------------------------------------------

PLAIN = ("hello.py", "hello.bpmn", "pyproject.toml")
VERB = ("verbs/greeting.py", "verbs/greeting.yaml", "verbs/__init__.py", "processes/greeting-send/process.bpmn")
COUNTED = {
    "a-plain-job": (PLAIN, 25, 7),
    "the-same-job-with-pyzeebe": (("hello_pyzeebe.py", "hello.bpmn"), 99, 99),
    "a-verb-in-a-process": (VERB, 45, 99),
    "a-workflow-with-dbos": (("hello_dbos.py",), 99, 99),
}


@pytest.mark.parametrize("anchor", COUNTED)
def test_the_lines_and_concepts_of_hello_world_are_those_of_the_table(anchor: str) -> None:
    page = next(page for page in PAGES if page.name == "explanation/hello-world.md")
    files, most_lines, most_concepts = COUNTED[anchor]
    texts = {block.title: block.text for block in page.blocks}
    lines = [line for name in files for line in texts[name].splitlines() if line.strip() and line.strip()[0] != "#"]
    title = anchor.replace("-", " ")
    section = re.split(r"^## ", page.text, flags=re.MULTILINE)
    (own,) = (part for part in section if part.lower().startswith(title))
    concepts = re.findall(r"^\d+\. ", own, re.MULTILINE)

    row = re.search(rf"\(#{anchor}\)[^|]*\| (\d+) \| (\d+) \|", page.text)
    assert row is not None
    assert (int(row[1]), int(row[2])) == (len(lines), len(concepts))
    assert len(lines) <= most_lines
    assert len(concepts) <= most_concepts
