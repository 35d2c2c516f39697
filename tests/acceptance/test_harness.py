"""The harness itself: isolated databases, servers that crash on demand, and nothing left behind."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import grpc
import psutil
import pytest

from tests.support import ports
from tests.support.client import connected
from tests.support.models import one_task
from tests.support.ports import free_ports
from tests.support.postgres import Postgres, Template
from tests.support.sealed import INSIDE, leave_behind
from tests.support.zeebe import Broker, prepare

ROOT = Path(__file__).parents[2]
TIMEOUT = 120.0
_HOLDS_SERVERS = """
import pathlib, threading

def test_holds_servers(postgres, broker):
    note = pathlib.Path(__file__).with_name("note")
    note.with_suffix(".part").write_text(f"{postgres.directory} {broker.data}")
    note.with_suffix(".part").rename(note)
    threading.Event().wait()
"""


@pytest.fixture
def zeebe_installed() -> None:
    prepare()


def nested(test: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """Another pytest on one file outside the tree, with this tree's fixtures."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERBWORKER_TEST_")}
    kept.pop("CI", None)
    options = ("-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml", *options)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, str(test)],
        cwd=ROOT,
        env={**kept, "TMPDIR": str(test.parent), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    """A shell lets what it runs in the background ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(happened: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not happened():
        if run.poll() is not None or time.monotonic() > deadline:
            run.kill()
            pytest.fail(f"the nested run ended early: {run.communicate()[0]}")
        time.sleep(0.05)


@pytest.fixture
def holding_run(tmp_path: Path, zeebe_installed: None) -> Iterator[subprocess.Popen[str]]:
    """A pytest run in the middle of a test that has a Postgres and a broker."""
    test = tmp_path / "test_holds_servers.py"
    test.write_text(_HOLDS_SERVERS)
    run = nested(test)
    wait_until((tmp_path / "note").exists, run)
    yield run
    if run.poll() is None:
        run.kill()
    run.communicate()


@pytest.mark.zeebe
@pytest.mark.parametrize(
    ("ending", "code"),
    [(signal.SIGINT, pytest.ExitCode.INTERRUPTED), (signal.SIGTERM, -15), (signal.SIGKILL, -9)],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_run_ended_by_a_signal_leaves_nothing_behind(
    holding_run: subprocess.Popen[str], ending: signal.Signals, code: int, tmp_path: Path
) -> None:
    started = psutil.Process(holding_run.pid).children(recursive=True)
    names = {process.name() for process in started}
    holding_run.send_signal(ending)
    holding_run.wait(TIMEOUT)
    _, alive = psutil.wait_procs(started, timeout=TIMEOUT)
    directories = [Path(name) for name in (tmp_path / "note").read_text().split()]

    assert {"java", "postgres"} <= names
    assert holding_run.returncode == code
    assert alive == []
    assert [place for place in directories if place.exists()] == []


_USES_SERVERS = """
import os, signal

def test_uses_servers(postgres, broker):
    assert postgres.pid and broker.pid
    {last_words}
"""
_PYTEST = ("-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml")


@pytest.mark.zeebe
@pytest.mark.parametrize(
    ("last_words", "code"),
    [("", 0), ("os.kill(os.getpid(), signal.SIGKILL)", 137)],
    ids=["in order", "killed"],
)
def test_a_run_leaves_no_temporary_file(tmp_path: Path, zeebe_installed: None, last_words: str, code: int) -> None:
    (tmp_path / "test_uses_servers.py").write_text(_USES_SERVERS.format(last_words=last_words))
    run = (sys.executable, "-m", "pytest", *_PYTEST, INSIDE / "test_uses_servers.py")
    ended, output, left = leave_behind(tmp_path, run, directory=ROOT)

    assert ended == code, output
    assert left == []


@pytest.mark.zeebe
def test_a_command_beside_a_broker_leaves_no_temporary_file(tmp_path: Path, zeebe_installed: None) -> None:
    run = (sys.executable, "-m", "tests.support.with_zeebe", "true")
    ended, output, left = leave_behind(tmp_path, run, directory=ROOT)

    assert ended == 0, output
    assert left == []


@pytest.mark.parametrize(("ci", "verdict"), [("", "1 skipped"), ("true", "1 error")])
def test_a_missing_java_skips_with_the_reason_and_fails_in_ci(tmp_path: Path, ci: str, verdict: str) -> None:
    test = tmp_path / "test_needs_zeebe.py"
    test.write_text("def test_needs_zeebe(broker): assert broker.address\n")
    run = nested(test, JAVA_HOME="/nowhere", CI=ci)
    output, _ = run.communicate(timeout=TIMEOUT)

    assert verdict in output
    assert "JAVA_HOME is /nowhere, and no Java is there" in output


def foreground(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The broker command, as a person starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.zeebe", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_missing_java_is_one_sentence_and_code_2() -> None:
    command = foreground("--port", str(free_ports(1)[0]), JAVA_HOME="/nowhere")
    output, errors = command.communicate(timeout=TIMEOUT)

    assert (command.returncode, output) == (2, "")
    assert errors == "JAVA_HOME is /nowhere, and no Java is there: unset it or name a JDK 21+\n"


def test_a_port_in_use_is_one_sentence_and_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        command = foreground("--port", str(port))
        output, errors = command.communicate(timeout=TIMEOUT)

    assert (command.returncode, output) == (2, "")
    assert errors == f"port {port} on 127.0.0.1 is in use\n"


@pytest.mark.zeebe
def test_the_command_runs_a_broker_until_it_is_told_to_stop(zeebe_installed: None) -> None:
    port = free_ports(1)[0]
    command = foreground("--port", str(port))
    ready = command.stdout.readline() if command.stdout else ""
    started = psutil.Process(command.pid).children(recursive=True)
    command.terminate()
    _, errors = command.communicate(timeout=TIMEOUT)

    assert f"gRPC 127.0.0.1:{port}" in ready, errors
    assert command.returncode == 0
    assert psutil.wait_procs(started, timeout=TIMEOUT)[1] == []


@pytest.fixture(scope="module")
def spare_broker() -> Iterator[Broker]:
    """A broker whose faults disturb nobody else."""
    with Broker() as broker:
        yield broker


@pytest.mark.zeebe
async def test_a_crashed_broker_comes_back_with_its_instances(spare_broker: Broker) -> None:
    async with connected(spare_broker.address) as client:
        await client.deploy("crash", one_task("crash", "crash"))
        instance = await client.start("crash")
    before = spare_broker.pid
    await asyncio.to_thread(spare_broker.restart)
    async with connected(spare_broker.address) as client:
        (job,) = await client.activate("crash")

    assert spare_broker.pid != before
    assert job.processInstanceKey == instance


@pytest.mark.zeebe
async def test_a_paused_broker_refuses_commands_until_it_goes_on(spare_broker: Broker) -> None:
    async with connected(spare_broker.address) as client:
        await client.deploy("pause", one_task("pause", "pause"))
        await asyncio.to_thread(spare_broker.pause)
        with pytest.raises(grpc.aio.AioRpcError, match="Processing paused"):
            await client.start("pause")
        await asyncio.to_thread(spare_broker.resume)
        instance = await client.start("pause")

    assert instance > 0


async def test_each_test_has_a_migrated_database_of_its_own(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        migrated = await connection.fetchval("SELECT to_regnamespace('verbworker') IS NOT NULL")
        here = await connection.fetchval("SELECT current_database()")
    finally:
        await connection.close()

    assert migrated
    assert dsn.endswith(f"/{here}")


async def test_a_database_is_dropped_even_while_somebody_is_connected(database_template: Template) -> None:
    with database_template.clone() as address:
        connection = await asyncpg.connect(address)

    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(address)
    connection.terminate()


async def test_a_crashed_postgres_keeps_what_was_committed() -> None:
    with Postgres() as server:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        before = server.pid
        await asyncio.to_thread(server.restart_immediate)
        connection.terminate()
        connection = await asyncpg.connect(server.dsn)
        answer = await connection.fetchval("SELECT answer FROM kept")
        await connection.close()

        assert server.pid != before
        assert answer == 42


async def test_postgres_takes_settings_over_its_defaults() -> None:
    with Postgres({"fsync": "off"}) as server:
        connection = await asyncpg.connect(server.dsn)
        chosen = await connection.fetchval("SHOW fsync")
        default = await connection.fetchval("SHOW synchronous_commit")
        await connection.close()

    assert (chosen, default) == ("off", "on")


_KILLS_POSTGRES = """
import os, signal

def test_kills_postgres(postgres):
    os.kill(postgres.pid, signal.SIGKILL)
"""


def test_a_postgres_that_is_killed_leaves_no_shared_memory(tmp_path: Path) -> None:
    (tmp_path / "test_kills_postgres.py").write_text(_KILLS_POSTGRES)
    run = (sys.executable, "-m", "pytest", *_PYTEST, INSIDE / "test_kills_postgres.py")
    ended, output, left = leave_behind(tmp_path, run, directory=ROOT)

    assert ended == 0, output
    assert left == []


@pytest.mark.skipif(sys.platform != "linux", reason="ports are reserved between processes on Linux only")
def test_ports_are_given_to_one_process_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PORTS", range(31_990, 32_000))
    taken = free_ports(3)
    question = "from tests.support import ports; ports._PORTS = range(31_990, 32_000); print(*ports.free_ports(5))"

    answer = subprocess.run([sys.executable, "-c", question], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not set(taken) & {int(port) for port in answer.stdout.split()}
