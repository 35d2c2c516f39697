"""The image and the compose file: there is no Docker here, so each is held to itself and to the files around it."""

import asyncio
import fnmatch
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic_settings import BaseSettings

from tests.support.cli_walk import misuse
from tests.support.dockerfile import Dockerfile
from tests.support.ports import free_ports
from verbworker.api.settings import IngressSettings
from verbworker.app.health import open_health
from verbworker.app.settings import Settings
from verbworker.console.settings import ConsoleSettings

ROOT = Path(__file__).parents[2]
IMAGE_EXTRAS = "verbworker[console,ingress,otel]"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("verbworker")}

# ---- the image ------------------------------------------------------------------------------------------------------


IMAGE = Dockerfile(ROOT / "Dockerfile")


def test_the_bases_are_plain_names_with_a_version() -> None:
    bases = [rest.split()[0] for name, rest in IMAGE.instructions if name == "FROM"]

    assert len(bases) == 2
    assert all(re.fullmatch(r"[a-z]+:\d+\.\d+-slim", base) for base in bases)


def test_the_image_runs_the_python_that_the_lock_was_made_for() -> None:
    made_for = re.search(r"PYTHON \?= python(3\.\d+)", (ROOT / "Makefile").read_text())

    assert made_for is not None
    assert {rest.split()[0] for name, rest in IMAGE.instructions if name == "FROM"} == {f"python:{made_for[1]}-slim"}


def test_nothing_unpinned_is_installed() -> None:
    ran = [step.split() for name, rest in IMAGE.instructions if name == "RUN" for step in rest.split("&&")]
    pips = [words for words in ran if "pip" in words]

    assert len(pips) == 4
    for words in pips:
        assert "--require-hashes" in words or {"--no-index", "--no-deps"} <= set(words), words
        assert ("--require-hashes" in words) == ("--only-binary" in words)


def test_the_image_is_nobodys_and_nothing_runs_in_its_last_stage() -> None:
    names = [name for name, _ in IMAGE.stages[-1]]

    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", IMAGE.last("USER"))
    assert "RUN" not in names
    assert not {"ADD", "ARG", "VOLUME", "ONBUILD"} & set(names)
    assert names.index("USER") > max(index for index, name in enumerate(names) if name == "COPY")


def test_no_shell_stands_between_docker_and_the_worker() -> None:
    entry, given = json.loads(IMAGE.last("ENTRYPOINT")), json.loads(IMAGE.last("CMD"))

    assert entry == ["verbworker"]
    assert misuse(given) is None


def test_what_is_copied_is_there_and_reaches_the_build() -> None:
    sources = {source for source, _ in IMAGE.copies}

    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert sources == IMAGE.kept


def test_nothing_else_reaches_the_build() -> None:
    patterns = IMAGE.ignored

    assert patterns[0] == "*"
    for private in (".env", ".git/config", ".venv/bin/python", "deploy/compose.env", "tests/conftest.py"):
        assert not any(fnmatch.fnmatch(private, f"{line[1:]}*") for line in patterns if line.startswith("!")), private


class Probed:
    """Somebody who is asked how they are."""

    def __init__(self, trouble: str | None) -> None:
        self._trouble = trouble

    def live(self) -> Mapping[str, str | None]:
        return {"loop": self._trouble}

    async def ready(self) -> Mapping[str, str | None]:
        return {}


@pytest.mark.parametrize(("trouble", "code"), [(None, 0), ("last tick 60 s ago", 1)])
async def test_the_health_check_believes_what_live_says(trouble: str | None, code: int) -> None:
    (port,) = free_ports(1)
    command = json.loads(IMAGE.last("HEALTHCHECK").partition("CMD")[2])
    words = [sys.executable, *(word.replace("8090", str(port)) for word in command[1:])]

    async with open_health("127.0.0.1", port, Probed(trouble)):
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, timeout=30, check=False)

    assert command[0] == "python"
    assert "http_proxy" not in " ".join(command)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("name", ["console", "ingress"])
@pytest.mark.parametrize(("trouble", "code"), [(None, 0), ("stuck", 1)])
async def test_the_health_checks_of_the_others_do_too(name: str, trouble: str | None, code: int) -> None:
    (port,) = free_ports(1)
    command = SERVICES[name]["healthcheck"]["test"]
    listens = str(SERVICES[name]["environment"][f"VERBWORKER_{name.upper()}_PROBE_PORT"])
    words = [sys.executable, *(word.replace(listens, str(port)) for word in command[2:])]

    async with open_health("127.0.0.1", port, Probed(trouble)):
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, timeout=30, check=False)

    assert command[:2] == ["CMD", "python"]
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(("trouble", "code"), [(None, 0), ("starting", 1)])
async def test_the_engines_health_check_reads_the_answer(trouble: str | None, code: int) -> None:
    (port,) = free_ports(1)
    command = [word.replace("$$", "$") for word in SERVICES["camunda"]["healthcheck"]["test"]]
    script = command[-1].replace("9600", str(port)).replace("/actuator/health/readiness", "/live")

    async with open_health("127.0.0.1", port, Probed(trouble)):
        done = await asyncio.to_thread(subprocess.run, [*command[1:-1], script], timeout=30, check=False)

    assert command[:3] == ["CMD", "bash", "-c"]
    assert done.returncode == code


# ---- its packages ---------------------------------------------------------------------------------------------------


def locked(path: str) -> dict[str, str]:
    """The blocks of a lock by the name of their package."""
    blocks = re.findall(r"^[A-Za-z0-9_.-]+==.*\n(?:    .*\n?)*", (ROOT / path).read_text(), re.MULTILINE)
    return {canonicalize_name(block.partition("==")[0]): block.strip() for block in blocks}


def needed(*asked: str) -> set[str]:
    """What an installation of these consists of, as the packages themselves say, here."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [Requirement(line) for line in asked]
    while todo:
        one = todo.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        for line in metadata.requires(one.name) or ():
            below = Requirement(line)
            if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                todo.append(below)
    return {name for name, _ in seen}


@pytest.mark.parametrize("path", ["deploy/requirements.lock", "deploy/build.lock"])
def test_a_lock_of_the_image_is_a_part_of_the_lock_that_is_tested(path: str) -> None:
    everything = locked("requirements.lock")

    part = locked(path)

    assert part
    assert {name for name, block in part.items() if everything.get(name) != block} == set()
    assert all("--hash=sha256:" in block for block in part.values())
    assert "://" not in (ROOT / path).read_text()


def test_the_image_has_what_it_runs_with_and_no_more() -> None:
    assert set(locked("deploy/requirements.lock")) == needed(IMAGE_EXTRAS) - {"verbworker", "verbworker-lint"}
    assert set(locked("deploy/build.lock")) == needed("hatchling", "editables", "pip", "setuptools")


# ---- compose --------------------------------------------------------------------------------------------------------

# The keys of the Compose specification that may be needed here.
KNOWN = {
    *("image", "build", "command", "environment", "depends_on", "ports", "volumes", "healthcheck", "restart", "init"),
    *("profiles", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "user"),
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def required() -> Iterator[tuple[str, str]]:
    """Every variable the file takes from outside, with what is done when it is missing."""
    for match in re.finditer(r"(?<!\$)\$\{(\w+)(:[?-][^}]*)?\}", (ROOT / "compose.yaml").read_text()):
        yield match[1], match[2] or ""


def test_every_key_is_one_that_compose_knows() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "volumes"}
    assert {name: set(service) - KNOWN for name, service in SERVICES.items() if set(service) - KNOWN} == {}
    for service in SERVICES.values():
        assert set(service.get("healthcheck", {})) <= {"test", "interval", "timeout", "retries", "disable"}


def test_whoever_is_waited_for_exists_and_can_be_waited_for() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] in CONDITIONS, name
            if how["condition"] == "service_healthy":
                assert "test" in SERVICES[other]["healthcheck"], other
            if how["condition"] == "service_completed_successfully":
                assert SERVICES[other]["restart"] in ("no", "on-failure:5"), other


def test_every_volume_is_declared_and_every_file_is_there() -> None:
    mounts = [mount.split(":") for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [mount for mount in mounts if mount[0].startswith("./")]

    assert {mount[0] for mount in mounts if not mount[0].startswith("./")} == set(COMPOSE["volumes"])
    assert [mount[0] for mount in files if not (ROOT / mount[0]).is_file()] == []
    assert {mount[2] for mount in files} == {"ro"}


def test_everything_listens_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(ports) == len(set(ports)) >= 7
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)


def test_our_containers_may_write_nothing_but_tmp() -> None:
    assert len(OURS) == 5
    for service in OURS.values():
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_no_password_is_written_down() -> None:
    secret = {name: rest for name, rest in required() if re.search("PASSWORD|SECRET|CREDENTIALS", name)}
    text = (ROOT / "compose.yaml").read_text()

    assert {name for name, rest in secret.items() if not rest.startswith(":?")} == {"VERBWORKER_INGRESS_CREDENTIALS"}
    assert re.findall(r"(?:PASSWORD|SECRET|CREDENTIALS): (?!\$\{)\S+", text) == []


def test_the_example_of_the_settings_has_every_variable_and_no_value() -> None:
    lines = [line for line in (ROOT / "deploy/compose.env").read_text().splitlines() if line and line[0] != "#"]

    assert all(line.endswith("=") for line in lines)
    assert {line[:-1] for line in lines} == {name for name, _ in required()} - {"VERBWORKER_ENGINE_ID"}


def test_the_images_have_a_version_and_come_from_the_usual_place() -> None:
    images = {service["image"] for service in SERVICES.values()}

    assert all(re.fullmatch(r"([a-z]+/)?[a-z]+:\d+(\.\d+)*", image) for image in images)
    assert images >= {"verbworker:0.1.0"}


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    words = OURS[name].get("command") or json.loads(IMAGE.last("CMD"))

    assert misuse(words) is None


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_given_settings_that_exist(name: str) -> None:
    kinds: dict[str, type[BaseSettings]] = {"": Settings, "CONSOLE_": ConsoleSettings, "INGRESS_": IngressSettings}
    known = {f"VERBWORKER_{prefix}{field.upper()}" for prefix, kind in kinds.items() for field in kind.model_fields}

    ours = {variable for variable in OURS[name]["environment"] if variable.startswith("VERBWORKER_")}

    assert ours <= known


def test_a_worker_has_time_to_drain() -> None:
    grace = Settings.model_fields["grace"].default.total_seconds()

    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) >= grace + 20
