"""Every program that a guide shows is run: services get a request, workers a job, and what needs more is installed."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pyzeebe import ZeebeClient, create_insecure_channel

from tests.support.children import spawn
from tests.support.command import environment
from tests.support.databases import value
from tests.support.docs_pages import page, pages
from tests.support.engines import Gateway
from tests.support.eventually import eventually
from tests.support.http import ask
from tests.support.ports import free_ports
from tests.support.proxy import proxied

ROOT = Path(__file__).parents[2]
SERVICES = "how-to/start-a-case.md"
HELLO = "explanation/hello-world.md"
# Where each program of the guides is run; the tutorial's are typed by test_tutorial.
RUN = {
    "ask.py": "test_docs_commands",
    "bus.py": "test_consume_nats",
    "fastapi_service.py": "here",
    "django_views.py": "here",
    "hello.py": "test_docs_commands",
    "hello_pyzeebe.py": "here",
    "hello_dbos.py": "here",
    "orders.py": "here",
    "verbs/greeting.py": "test_docs_commands",
    "verbs/__init__.py": "test_docs_commands",
    "conftest.py": "test_docs",
    "test_verbs.py": "test_docs",
    "test_process.py": "test_docs",
    "verbs/letter.py": "test_docs",
    "tests/test_letter.py": "test_docs",
}
DJANGO = """
import sys

import django
from django.conf import settings
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"], SECRET_KEY="a test")
django.setup()
import django_views
from django.test import Client

urlpatterns = [path("documents/<name>/<document>", django_views.collect)]
for _ in range(2):
    answer = Client().post("/documents/Ann/passport")
    print(answer.status_code, answer.json()["entry"])
print(Client().post(f"/documents/Ann/{'s' * 3000}").status_code)
print("now", flush=True)
sys.stdin.readline()
answer = Client().post("/documents/Ann/visa")
print(answer.status_code, answer.headers["Retry-After"])
"""


def test_every_program_of_the_guides_is_run_somewhere() -> None:
    shown = {
        block.title.partition(" (")[0]
        for one in pages()
        if not one.name.startswith("tutorial/")
        for block in one.blocks
        if block.language == "python" and block.is_file
    }

    assert shown == RUN.keys()


def write(name: str, folder: Path, *titles: str) -> None:
    """Write files of a page into a folder."""
    (blocks,) = [{block.title: block for block in page(name).blocks if block.is_file}]
    for title in titles:
        blocks[title].write(folder)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A folder with the application that the guides start cases of."""
    shutil.copytree(ROOT / "verbs", tmp_path / "verbs")
    return tmp_path


def run(folder: Path, *command: str, **settings: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        command, cwd=folder, env=environment(**settings), capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, *command: str, **settings: str) -> Iterator[Path]:
    """A program that runs until the end of the block, and its log."""
    log = folder / "program.log"
    child = spawn(list(command), log=log, environment=environment(**settings), directory=folder)
    try:
        yield log
    finally:
        child.end(timeout=30)


def install(folder: Path, *names: str) -> dict[str, str]:
    """Install packages that verbworker does not need into a folder; return the variable that finds them."""
    place = folder / "installed"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if done.returncode and "CI" not in os.environ:
        pytest.skip(f"pip cannot install {' '.join(names)} from here")
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": os.pathsep.join((str(place), str(folder)))}


def settings_of(dsn: str) -> dict[str, str]:
    return {"VERBWORKER_DSN": dsn, "VERBWORKER_ENGINE": "embedded"}


async def test_the_service_with_fastapi_starts_a_case_once_in_the_name_of_its_user(application: Path, dsn: str) -> None:
    write(SERVICES, application, "fastapi_service.py")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/documents/Ann/passport"

    def post(url: str = url) -> tuple[int, str]:
        request = urllib.request.Request(url, method="POST", headers={"X-User": "eve"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())["entry"]

    async def is_up() -> bool:
        return "running on" in log.read_text()

    command = (sys.executable, "-m", "uvicorn", "fastapi_service:app", "--port", str(port))
    async with proxied(dsn) as proxy:
        with running(application, *command, **settings_of(proxy.dsn)) as log:
            await eventually(is_up)
            answers = [await asyncio.to_thread(post) for _ in range(2)]
            with pytest.raises(urllib.error.HTTPError) as refused:
                await asyncio.to_thread(post, url + "s" * 3000)
            proxy.go_away()
            with pytest.raises(urllib.error.HTTPError) as away:
                await asyncio.to_thread(post)

    assert (away.value.status, away.value.headers["retry-after"]) == (503, "1")
    assert "send it again" in json.loads(away.value.read())["detail"]
    assert refused.value.status == 422
    assert "request key" in json.loads(refused.value.read())["detail"]
    stored = await value(dsn, "SELECT concat(asked_by, ' ', entry_id) FROM verbworker.runbook_entry")
    assert answers == [(202, stored.removeprefix("eve "))] * 2


async def test_the_service_of_the_tutorial_answers_503_while_postgres_is_away(application: Path, dsn: str) -> None:
    write("tutorial/service.md", application, "service.py")
    (port,) = free_ports(1)

    async def read() -> int:
        status, _ = await asyncio.to_thread(ask, "GET", f"127.0.0.1:{port}", f"/claims/{uuid4()}")
        return status

    async def is_up() -> bool:
        return "running on" in log.read_text()

    command = (sys.executable, "-m", "uvicorn", "service:app", "--port", str(port))
    async with proxied(dsn) as proxy:
        with running(application, *command, **settings_of(proxy.dsn)) as log:
            await eventually(is_up)
            unknown = await read()
            proxy.go_away()
            away = await read()

    assert (unknown, away) == (404, 503)


@pytest.mark.timeout(400)
async def test_the_view_of_django_starts_a_case_once(application: Path, dsn: str) -> None:
    write(SERVICES, application, "django_views.py")
    (application / "site_of_a_test.py").write_text(DJANGO)
    found = install(application, "django>=5,<6")

    async with proxied(dsn) as proxy:
        given = environment(**settings_of(proxy.dsn), **found)
        site = await asyncio.create_subprocess_exec(
            *(sys.executable, "site_of_a_test.py"), cwd=application, env=given, stdin=PIPE, stdout=PIPE, stderr=STDOUT
        )
        assert site.stdin is not None
        assert site.stdout is not None
        before = (await site.stdout.readuntil(b"now\n")).decode().splitlines()
        proxy.go_away()
        site.stdin.write(b"\n")
        after, _ = await site.communicate()

    stored = await value(dsn, "SELECT concat('202 ', entry_id) FROM verbworker.runbook_entry")
    assert before == [stored, stored, "422", "now"]
    assert after.decode().splitlines()[-1] == "503 1", after.decode()


@pytest.mark.zeebe
@pytest.mark.timeout(400)
async def test_hello_world_with_pyzeebe_greets_on_a_real_broker(tmp_path: Path, broker: Gateway) -> None:
    write(HELLO, tmp_path, "hello_pyzeebe.py", "hello.bpmn")
    channel = create_insecure_channel(broker.address)

    async def greeting() -> str:
        try:
            done = await ZeebeClient(channel).run_process_with_result("hello", {"name": "Ada"}, timeout=20_000)
        except Exception as error:  # not deployed yet
            print(repr(error))
            return ""
        return str(done.variables["greeting"])

    with running(tmp_path, sys.executable, "hello_pyzeebe.py", ZEEBE_ADDRESS=broker.address):
        assert await eventually(greeting, timeout=90) == "Hello, Ada"
    await channel.close()


@pytest.mark.timeout(400)
def test_hello_world_with_dbos_greets(tmp_path: Path) -> None:
    write(HELLO, tmp_path, "hello_dbos.py")
    found = install(tmp_path, "dbos>=2")

    assert "Hello, Ada" in run(tmp_path, sys.executable, "hello_dbos.py", **found)


def test_the_tasks_of_the_migration_run_as_they_are(tmp_path: Path) -> None:
    write("how-to/migrate-from-pyzeebe.md", tmp_path, "orders.py")
    calls = "import orders; print(orders.price(100), orders.price(100, 'FR'), sorted(orders.registry.tasks))"

    assert run(tmp_path, sys.executable, "-c", calls) == "119.0 100.0 ['price', 'ship']\n"
