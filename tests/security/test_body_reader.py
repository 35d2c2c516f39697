"""Large bodies are read in a process beside: it may die, hang or take too much, and is never left behind."""

import asyncio
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.security.fuzz.ingress import allow_everything
from tests.support.apart import run_apart
from tests.support.ingress_process import ENGINE_ID, OTHER_KEY, IngressProcess, envelope, ingress_process, write_app
from tests.support.mail import deploy_model
from tests.support.shop import wait_until
from verbworker.background.body_reader import SMALL_BYTES, BodyReader
from verbworker.contract.message import Message, read
from verbworker.errors import BodyTooLarge, MessageInvalid, ServerBusy

pytestmark = pytest.mark.attack("payload")

BODY = b"x" * (SMALL_BYTES + 1)
CHILD = "verbworker.background.reader_process"


# What a child is made to do: it finds these functions by the name of this module.


def where(_body: bytes) -> int:
    return os.getpid()


def priority(_body: bytes) -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def secrets(_body: bytes) -> list[str]:
    return sorted(os.environ)


def hang(_body: bytes) -> None:
    time.sleep(600)


def compute(_body: bytes) -> None:
    # One call that never gives the interpreter back, as a parser in C would.
    pow(3, 10**9)


def die(_body: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hog(_body: bytes) -> int:
    return len(bytearray(4 * 1024**3))


def chatter(_body: bytes) -> str:
    print("not a part of the answer")
    return "answer"


def echo(body: bytes) -> bytes:
    return body


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def large_message() -> bytes:
    return json.dumps(envelope(payload={"a": [0.25] * 20_000})).encode()


async def test_small_bodies_are_read_here_and_large_ones_in_one_process_beside() -> None:
    async with BodyReader() as reader:
        assert await reader.call(where, b"small") == os.getpid()
        assert reader.pid is None

        first = await reader.call(where, BODY)
        assert first == reader.pid != os.getpid()
        assert await reader.call(where, BODY) == first
        assert await reader.call(priority, BODY) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
        assert await reader.call(chatter, BODY) == "answer"
        assert await reader.call(echo, BODY * 100) == BODY * 100

    assert not is_alive(first)


async def test_a_message_and_its_refusal_are_the_same_there_and_here() -> None:
    good, bad = large_message(), large_message().replace(b'"message_id"', b'"message-id"')
    async with BodyReader() as reader:
        message: Message = await reader.call(read, good)
        with pytest.raises(MessageInvalid) as refused:
            await reader.call(read, bad)

    with pytest.raises(MessageInvalid) as expected:
        read(bad)
    assert (message, message.body_hash) == (read(good), read(good).body_hash)
    assert (str(refused.value), refused.value.fields) == (str(expected.value), expected.value.fields)


async def test_the_loop_goes_on_while_a_body_is_read() -> None:
    """By the processor time of the loop's thread: the clock of a busy machine measures the machine."""
    content, worst = large_message(), 0.0
    async with BodyReader() as reader:
        await reader.call(read, content)

        async def tick() -> None:
            nonlocal worst
            while True:
                began = time.thread_time()
                await asyncio.sleep(0.001)
                worst = max(worst, time.thread_time() - began)

        ticks = asyncio.create_task(tick())
        for _ in range(10):
            await reader.call(read, content)
        ticks.cancel()

    assert worst < 0.05


async def test_it_has_none_of_our_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERBWORKER_DSN", "postgresql://who:secret@nowhere/x")
    async with BodyReader() as reader:
        names = await reader.call(secrets, BODY)

    # The last is set by this module's own imports.
    assert {*names} <= {"PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONHOME", "LC_CTYPE", "GRPC_ENABLE_FORK_SUPPORT"}


async def test_a_killed_process_is_a_refusal_and_starts_anew() -> None:
    async with BodyReader() as reader:
        first = await reader.call(where, BODY)
        with pytest.raises(ServerBusy, match="could not be read; send it again later"):
            await reader.call(die, BODY)
        second = await reader.call(where, BODY)
        os.kill(second, signal.SIGKILL)  # while nothing is read
        await asyncio.to_thread(wait_until, lambda: not is_alive(second), "it outlived a kill")
        await asyncio.sleep(0.1)
        third = await reader.call(where, BODY)

    assert len({first, second, third}) == 3
    assert not any(map(is_alive, (first, second, third)))


@pytest.mark.parametrize("stuck", [hang, compute])
async def test_a_process_that_hangs_is_killed_in_time(stuck: object) -> None:
    async with BodyReader(longest_s=60) as reader:  # a starved machine takes more than three seconds to start a process
        first = await reader.call(where, BODY)
        reader._longest_s = 3
        began = time.monotonic()
        with pytest.raises(ServerBusy, match="could not be read in time"):
            await reader.call(stuck, BODY)  # type: ignore[arg-type]
        assert time.monotonic() - began < 30
        assert not is_alive(first)
        reader._longest_s = 60
        assert await reader.call(where, BODY) != first


async def test_a_stopped_process_is_killed_in_time() -> None:
    async with BodyReader(longest_s=60) as reader:
        first = await reader.call(where, BODY)
        reader._longest_s = 3
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(ServerBusy):
            await reader.call(where, BODY * 100)
        assert not is_alive(first)


async def test_too_much_memory_is_a_refusal_and_the_process_goes_on() -> None:
    async with BodyReader() as reader:
        first = await reader.call(where, BODY)
        with pytest.raises(BodyTooLarge, match="needs more memory"):
            await reader.call(hog, BODY)
        assert await reader.call(where, BODY) == first


async def test_more_than_may_wait_are_refused_at_once() -> None:
    async with BodyReader(most_waiting=2) as reader:
        await reader.call(where, BODY)
        stuck = asyncio.create_task(reader.call(hang, BODY))
        waiting = asyncio.create_task(reader.call(where, BODY))
        await asyncio.sleep(0.1)
        refused = await _busy_words(reader, where)
        still = stuck.done(), waiting.done()
        stuck.cancel()

        assert (refused, still) == ("too many large bodies wait to be read; send it again later", (False, False))
        assert await waiting > 0


async def test_who_waits_too_long_for_a_turn_is_told_so() -> None:
    async with BodyReader(longest_s=1) as reader, reader._turn:
        assert await _busy_words(reader, where) == "large bodies are read slowly now; send it again later"


async def _busy_words(reader: BodyReader, function: object) -> str:
    try:
        await reader.call(function, BODY)  # type: ignore[arg-type]
    except ServerBusy as error:
        return str(error)
    return ""


async def test_a_call_that_is_given_up_leaves_pipes_in_step() -> None:
    async with BodyReader() as reader:
        await reader.call(where, BODY)
        slow = asyncio.create_task(reader.call(hang, BODY))
        await asyncio.sleep(0.2)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await reader.call(echo, BODY) == BODY


async def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, os, signal\n"
        "from tests.security.test_body_reader import BODY, where\n"
        "from verbworker.background.body_reader import BodyReader\n"
        "async def main():\n"
        "    reader = await BodyReader().__aenter__()\n"
        "    print(await reader.call(where, BODY), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, env=environment
    )
    said, _ = await parent.communicate()
    pid = int(said)

    await asyncio.to_thread(wait_until, lambda: not is_alive(pid), "the reader of bodies was left behind")


# ---- at a running ingress -------------------------------------------------------------------------------------------


def readers(ingress: IngressProcess) -> list[psutil.Process]:
    """The processes beside an ingress that read bodies."""
    listening = [one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr[1] == ingress.port]
    parents = [psutil.Process(pid) for pid in {pid for pid in listening if pid and pid != os.getpid()}]
    return [child for parent in parents for child in parent.children() if CHILD in child.cmdline()]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_an_ingress_leaves_none_behind(tmp_path: Path, dsn: str, end: signal.Signals) -> None:
    run_apart(deploy_model(dsn, ENGINE_ID))
    write_app(tmp_path)
    with ingress_process(tmp_path, dsn, VERBWORKER_ENGINE="embedded") as ingress:
        assert readers(ingress) == []
        assert ingress.post(large_message()).status == 202
        (child,) = readers(ingress)
        ingress.tell(end)
        ingress.exit_code()
        wait_until(lambda: not is_alive(child.pid), "the reader of bodies was left behind")


def test_an_ingress_outlives_its_reader_and_small_messages_do_not_wait(tmp_path: Path, dsn: str) -> None:
    run_apart(deploy_model(dsn, ENGINE_ID))
    write_app(tmp_path)
    allow_everything(tmp_path / "credentials.json")
    with ingress_process(tmp_path, dsn, VERBWORKER_ENGINE="embedded") as ingress, ThreadPoolExecutor() as senders:
        for path in ("/messages", "/v1/messages", "/api/workflow/message"):
            assert ingress.post(large_message(), path).status in (202, 422)
            (child,) = readers(ingress)
            child.suspend()
            try:
                large = senders.submit(ingress.post, large_message(), path)
                small = envelope(tenant_id="globex", message_id=f"m-{path}")
                assert ingress.post(small, key=OTHER_KEY).status == 202
                time.sleep(0.5)
                assert not large.done(), "it was not read by the process beside"
            finally:
                child.kill()
            # If it was on its way already, it is refused; else a new process reads it.
            assert large.result().status in (503, 202, 422)
            assert ingress.post(large_message()).status == 202
