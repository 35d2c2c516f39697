"""A worker with a bug in a background service: it gives its jobs back, says one sentence and exits with 3."""

import json
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
