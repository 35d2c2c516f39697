"""A worker with a bug in a background service: it gives its jobs back, says one sentence and exits with 3."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.command import verbworker
from tests.support.shop import make_shop

_APP = """
from shop import registry as registry
from verbworker.work.starts.dispatcher import Dispatcher


async def drain(self):
    return {}["no such key"]


Dispatcher.drain = drain
"""


def test_a_bug_in_a_service_is_one_sentence_and_exit_code_three(tmp_path: Path, dsn: str) -> None:
    make_shop(tmp_path, "x")
    (tmp_path / "buggy.py").write_text(_APP)

    said = verbworker(
        "worker", "--app", "buggy:registry", "--engine", "embedded", "--http-port", "0", directory=tmp_path, dsn=dsn
    )

    *lines, sentence = said.err.splitlines()
    logged = [json.loads(line) for line in lines]
    (bug,) = [line for line in logged if line["level"] == "error"]
    words = [line["message"] for line in logged]
    assert said.code == 3
    assert sentence == (
        "verbworker: a bug ended the service starts: KeyError in buggy.py, line 7; the log has its traceback"
    )
    assert bug["message"] == "service ended by a bug"
    assert (bug["service"], bug["error"], bug["file"], bug["line"]) == ("starts", "KeyError", "buggy.py", 7)
    assert words.index(bug["message"]) < words.index("draining")


def test_a_verb_that_exits_in_a_callback_ends_neither_the_worker_nor_its_end(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(_LOOP)

    done = subprocess.run([sys.executable, "loop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout.splitlines()) == (0, ["goes on"])
    assert "a verb tried to end the process" in done.stderr
    assert "shop.end" in done.stderr


_LOOP = """
import asyncio
import sys
import threading

from verbworker.app import logging as log
from verbworker.cli.operate import worker
from verbworker.job.current_verb import performing


async def main():
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, threading.Event().wait)  # a thread that never ends
    with performing("shop.end"):
        loop.call_soon(sys.exit, 5)
    await asyncio.sleep(0.2)
    print("goes on", flush=True)


log.set_up(as_json=True, level="info")
worker._CLOSE_WITHIN = 0.5
worker.run_beside_verbs(main())
"""
