"""`verbworker consume` as a process: what is acknowledged, when, and what becomes of everything else."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.children import Child, spawn
from tests.support.command import COMMAND, Said, environment, verbworker
from tests.support.databases import execute, value
from tests.support.ingress_process import ENGINE_ID, envelope
from tests.support.logins import as_role
from tests.support.mail import TENANT
from tests.support.proxy import proxied
from tests.support.shop import wait_until
from verbworker.contract.message import LARGEST

KEPT = "SELECT coalesce(string_agg(message_id, ',' ORDER BY queued_at), '') FROM verbworker.inbox_message"
LETTERS = (
    "SELECT coalesce(string_agg(code || ' of ' || tenant_id, ',' ORDER BY created_at), '') FROM verbworker.dead_letter"
)
QUEUED = "SELECT count(*) FROM verbworker.envelope_queue"
QUEUE = "INSERT INTO verbworker.envelope_queue (tenant_id, envelope) VALUES ($1, $2)"
GIVEN = {"VERBWORKER_ENGINE_ID": ENGINE_ID, "VERBWORKER_TENANT": TENANT}

# A bus of files: what is acknowledged is unlinked, and what is not is delivered again.
BUS = """
import asyncio
import os
import signal
from pathlib import Path

from verbworker import Delivery

SPOOL = Path("spool")


async def files():
    while True:
        for file in sorted(SPOOL.iterdir()):
            async def acknowledge(file=file):
                file.unlink()
            yield Delivery(file.read_bytes(), acknowledge)
        await asyncio.sleep(0.02)


async def dies_before_it_acknowledges():
    async for delivery in files():
        async def die():
            os.kill(os.getpid(), signal.SIGKILL)
        yield Delivery(delivery.body, die)


async def acknowledges_slowly():
    async for delivery in files():
        async def acknowledge(delivery=delivery):
            Path("asked").touch()
            await asyncio.sleep(1)
            await delivery.acknowledge()
        yield Delivery(delivery.body, acknowledge)


async def loses_its_connection():
    path = Path("tries")
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    if len(path.read_text()) < 3:
        raise ConnectionResetError("the bus is away")
    async for delivery in files():
        yield delivery


async def cannot_acknowledge():
    if Path("tried").exists():
        async for delivery in files():
            yield delivery
    async for delivery in files():
        async def fail():
            Path("tried").touch()
            raise TimeoutError("the bus did not answer")
        yield Delivery(delivery.body, fail)


async def breaks_when_it_has_worked():
    async for delivery in files():
        yield delivery
        if not Path("broken").exists():
            Path("broken").touch()
            raise KeyError("a library's own error")


async def is_broken():
    raise KeyError("broker")
    yield


async def yields_text():
    yield "text"


async def cannot_acknowledge_ever():
    async def fail():
        raise ValueError("no such delivery")
    async for delivery in files():
        yield Delivery(delivery.body, fail)


nothing = 7
"""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """The folder of the bus; the module of its consumers is beside it."""
    (tmp_path / "bus.py").write_text(dedent(BUS))
    spool = tmp_path / "spool"
    spool.mkdir()
    return spool


def put(spool: Path, *ids: str) -> None:
    for message_id in ids:
        draft = spool.parent / "draft"
        draft.write_text(json.dumps(envelope(message_id=message_id)))
        draft.rename(spool / message_id)


def lines(*given: object) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in given)


def consume_lines(folder: Path, dsn: str, content: bytes, *options: str) -> Said:
    done = subprocess.run(
        [COMMAND, "consume", "--from", "stdin", *options],
        cwd=folder,
        env=environment(dsn, VERBWORKER_LOG_LEVEL="error", **GIVEN),
        input=content,
        capture_output=True,
        timeout=60,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def consuming(folder: Path, dsn: str, place: str, *options: str) -> Iterator[Child]:
    """A running consumer, ended in any case; its log is in `consume.log`."""
    child = spawn(
        [COMMAND, "consume", "--from", place, *options],
        log=folder / "consume.log",
        environment=environment(dsn, **GIVEN),
        directory=folder,
    )
    try:
        yield child
    finally:
        child.end(signal.SIGKILL)


def until_empty(spool: Path) -> None:
    wait_until(lambda: not any(spool.iterdir()), "the bus never became empty")


# ---- standard input ----------------------------------------------------------------------------------------------


@pytest.mark.req("ING-07", "ING-06", "X-27")
async def test_each_line_is_a_message_or_a_dead_letter_and_the_next_one_follows(tmp_path: Path, dsn: str) -> None:
    long = json.dumps(envelope(message_id="long", payload={"text": "x" * LARGEST})).encode()
    content = lines(
        envelope(message_id="m-1"),
        b"garbage",
        b"   ",
        {**envelope(message_id="m-2"), "messageName": "x"},
        long,
        envelope(message_id="m-1", payload={"pages": 4}),
        envelope(message_id="m-1"),
    )
    said = await asyncio.to_thread(
        consume_lines, tmp_path, dsn, content + json.dumps(envelope(message_id="m-3")).encode()
    )

    assert (said.code, said.out.split(), said.err) == (0, ["1", "2", "4", "5", "6", "7", "8"], "")
    assert await value(dsn, KEPT) == "m-1,m-3"
    assert await value(dsn, LETTERS) == ",".join([f"invalid of {TENANT}"] * 4)


@pytest.mark.req("ING-06", "ING-07")
@pytest.mark.parametrize("bad", ["invalid", "conflict"])
async def test_with_strict_the_first_refused_envelope_ends_the_process(tmp_path: Path, dsn: str, bad: str) -> None:
    wrong = {"message_id": "m-2"} if bad == "invalid" else envelope(message_id="m-1", payload={"pages": 4})
    content = lines(envelope(message_id="m-1"), wrong, envelope(message_id="m-3"))
    said = await asyncio.to_thread(consume_lines, tmp_path, dsn, content, "--strict")

    assert (said.code, said.out) == (1, "1\n")
    assert ("the message does not fit" if bad == "invalid" else "was used before") in said.sentence()
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == ("m-1", f"invalid of {TENANT}")


async def test_one_tenant_only_is_accepted_if_that_is_wanted(tmp_path: Path, dsn: str) -> None:
    content = lines(envelope(message_id="m-1", tenant_id="globex"), envelope(message_id="m-2"))
    said = await asyncio.to_thread(consume_lines, tmp_path, dsn, content, "--tenant", "globex")

    assert (said.code, said.out.split()) == (0, ["1", "2"])
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == ("m-1", "invalid of globex")


async def test_a_role_without_rights_of_other_tenants_consumes_for_all(tmp_path: Path, dsn: str) -> None:
    content = lines(envelope(message_id="m-1", tenant_id="globex"), envelope(message_id="m-2"), b"garbage")
    said = await asyncio.to_thread(consume_lines, tmp_path, as_role(dsn, "ingress"), content)

    assert (said.code, said.out.split()) == (0, ["1", "2", "3"])
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == ("m-1,m-2", f"invalid of {TENANT}")


@asynccontextmanager
async def consuming_lines(
    directory: Path, dsn: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamWriter, asyncio.StreamReader]]:
    """Run a consumer of lines; yield it with its input and its output."""
    running = await asyncio.create_subprocess_exec(
        *(COMMAND, "consume", "--from", "stdin"),
        cwd=directory,
        env=environment(dsn, **GIVEN),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        yield running, running.stdin, running.stdout
    finally:
        if running.returncode is None:
            running.kill()


@pytest.mark.req("ING-07", "X-27")
async def test_while_the_database_is_away_nothing_is_acknowledged_and_the_process_goes_on(
    tmp_path: Path, dsn: str
) -> None:
    async with proxied(dsn) as proxy, consuming_lines(tmp_path, proxy.dsn) as (running, given, printed):
        given.write(lines(envelope(message_id="m-1")))
        first = await asyncio.wait_for(printed.readline(), 30)
        proxy.go_away()
        given.write(lines(envelope(message_id="m-2"), b"garbage"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(printed.readline(), 2)
        still_runs = running.returncode is None
        await proxy.come()
        rest = [await asyncio.wait_for(printed.readline(), 30) for _ in range(2)]
        given.close()
        code = await asyncio.wait_for(running.wait(), 30)

    assert (first, still_runs, rest, code) == (b"1\n", True, [b"2\n", b"3\n"], 0)
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == ("m-1,m-2", f"invalid of {TENANT}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_consumer_that_waits_for_input(tmp_path: Path, dsn: str, number: signal.Signals) -> None:
    async with consuming_lines(tmp_path, dsn) as (running, given, printed):
        given.write(lines(envelope()))
        await asyncio.wait_for(printed.readline(), 30)
        running.send_signal(number)
        code = await asyncio.wait_for(running.wait(), 10)

    assert code == 0


# ---- the queue table ---------------------------------------------------------------------------------------------


@pytest.mark.req("ING-07")
async def test_what_a_transaction_leaves_in_the_queue_table_becomes_a_message(tmp_path: Path, dsn: str) -> None:
    for number in range(20):
        await execute(dsn, QUEUE, TENANT, json.dumps(envelope(message_id=f"m-{number:02}")).encode())
    await execute(dsn, QUEUE, "globex", json.dumps(envelope(message_id="stolen")).encode())
    await execute(dsn, QUEUE, "globex", b"garbage")

    def run() -> list[int]:
        with consuming(tmp_path, dsn, "postgres") as one, consuming(tmp_path, dsn, "postgres") as other:
            wait_until(lambda: asyncio.run(value(dsn, QUEUED)) == 0, "the queue never became empty")
            return [one.end(signal.SIGTERM), other.end(signal.SIGTERM)]

    assert await asyncio.to_thread(run) == [0, 0]
    assert sorted((await value(dsn, KEPT)).split(",")) == [f"m-{number:02}" for number in range(20)]
    assert await value(dsn, LETTERS) == "invalid of globex,invalid of globex"


QUEUE_THAT_KILLS = """
import os
import signal

from verbworker import Delivery
from verbworker.stores.database import Database
from verbworker.stores.messages.envelope_queue import EnvelopeQueue


async def dies_before_it_acknowledges():
    async def die():
        os.kill(os.getpid(), signal.SIGKILL)
    async with Database(os.environ["VERBWORKER_DSN"], size=1) as database:
        async for delivery in EnvelopeQueue(database).consume():
            yield Delivery(delivery.body, die, delivery.tenant_id)
"""


@pytest.mark.req("ING-05", "ING-07")
async def test_a_consumer_killed_before_it_acknowledges_leaves_the_row_and_the_next_one_takes_it_once(
    tmp_path: Path, dsn: str
) -> None:
    (tmp_path / "killed.py").write_text(QUEUE_THAT_KILLS)
    await execute(dsn, QUEUE, TENANT, json.dumps(envelope()).encode())

    def run(place: str, number: int) -> int:
        with consuming(tmp_path, dsn, place) as child:
            if number == signal.SIGKILL:
                return child.wait(30)
            wait_until(lambda: asyncio.run(value(dsn, QUEUED)) == 0, "the queue never became empty")
            return child.end(number)

    killed = await asyncio.to_thread(run, "killed:dies_before_it_acknowledges", signal.SIGKILL)
    between = await value(dsn, KEPT), await value(dsn, QUEUED)
    ended = await asyncio.to_thread(run, "postgres", signal.SIGTERM)

    assert (killed, between, ended) == (-signal.SIGKILL, ("m-1", 1), 0)
    assert (await value(dsn, KEPT), await value(dsn, LETTERS)) == ("m-1", "")


# ---- a consumer of one's own --------------------------------------------------------------------------------------


@pytest.mark.req("ING-05", "ING-07")
async def test_what_was_stored_and_not_acknowledged_is_delivered_again_and_kept_once(
    tmp_path: Path, dsn: str, spool: Path
) -> None:
    put(spool, "m-1", "m-2")

    def run() -> tuple[int, list[str], int]:
        with consuming(tmp_path, dsn, "bus:dies_before_it_acknowledges") as child:
            killed = child.wait(30)
        left = sorted(file.name for file in spool.iterdir())
        with consuming(tmp_path, dsn, "bus:files") as child:
            until_empty(spool)
            return killed, left, child.end(signal.SIGTERM)

    assert await asyncio.to_thread(run) == (-signal.SIGKILL, ["m-1", "m-2"], 0)
    assert await value(dsn, KEPT) == "m-1,m-2"


@pytest.mark.req("ING-07")
async def test_a_signal_lets_the_message_in_hand_be_acknowledged_and_takes_no_other(
    tmp_path: Path, dsn: str, spool: Path
) -> None:
    put(spool, "m-1", "m-2")

    def run() -> tuple[int, list[str]]:
        with consuming(tmp_path, dsn, "bus:acknowledges_slowly") as child:
            wait_until((tmp_path / "asked").exists, "it never acknowledged")
            return child.end(signal.SIGTERM), sorted(file.name for file in spool.iterdir())

    assert await asyncio.to_thread(run) == (0, ["m-2"])
    assert await value(dsn, KEPT) == "m-1"


@pytest.mark.parametrize("consumer", ["loses_its_connection", "cannot_acknowledge", "breaks_when_it_has_worked"])
async def test_a_consumer_whose_bus_is_away_is_opened_again(
    tmp_path: Path, dsn: str, spool: Path, consumer: str
) -> None:
    put(spool, "m-1", "m-2")

    def run() -> int:
        with consuming(tmp_path, dsn, f"bus:{consumer}") as child:
            until_empty(spool)
            return child.end(signal.SIGTERM)

    assert await asyncio.to_thread(run) == 0
    assert await value(dsn, KEPT) == "m-1,m-2"
    assert f"The consumer bus:{consumer} does not answer" in (tmp_path / "consume.log").read_text()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("bus:is_broken", "the consumer bus:is_broken raised KeyError; run with --debug to see where"),
        ("bus:yields_text", "the consumer bus:yields_text yields a str, not a verbworker.Delivery"),
        ("bus:cannot_acknowledge_ever", "the consumer bus:cannot_acknowledge_ever raised ValueError"),
        ("bus:nothing", "--from bus:nothing: nothing is of type int, not an async generator function"),
        ("bus:nobody", "--from bus:nobody: the module bus has no nobody"),
        ("nowhere:bus", "--from nowhere:bus: there is no module nowhere"),
        ("bus", "--from 'bus': write it as module:attribute, for example bus:documents"),
        ("builtins:dict", "the consumer builtins:dict raised TypeError"),
    ],
)
def test_a_consumer_that_cannot_run_is_said_in_one_sentence(
    tmp_path: Path, dsn: str, spool: Path, place: str, words: str
) -> None:
    put(spool, "m-1")
    said = verbworker(*("consume", "--from", place), directory=tmp_path, dsn=dsn, VERBWORKER_LOG_LEVEL="error", **GIVEN)

    assert (said.code, words in said.sentence()) == (2, True)
    assert [file.name for file in spool.iterdir()] == ["m-1"]


def test_a_consumer_needs_the_name_of_its_engine(tmp_path: Path, dsn: str) -> None:
    said = verbworker("consume", "--from", "stdin", directory=tmp_path, dsn=dsn)

    assert (said.code, "VERBWORKER_ENGINE_ID" in said.sentence()) == (2, True)
