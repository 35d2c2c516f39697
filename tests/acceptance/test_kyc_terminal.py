"""A KYC case by commands alone: a case worker, a customer's portal and a reviewer, each at a terminal."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import spawn
from tests.support.command import COMMAND, Said, environment, verbworker
from tests.support.databases import execute
from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from tests.support.kyc_provider import serve
from tests.support.shop import wait_until
from tests.support.zeebe import Broker
from verbs.kyc.screening import URL

ROOT = Path(__file__).parents[2]
ASKED = '(kyc.open-case :entity "Allianz GmbH" :case-type "periodic-review")'
SETTINGS = {"VERBWORKER_ENGINE_ID": "kyc-terminal", "VERBWORKER_HTTP_PORT": "0", "VERBWORKER_POLL_WAIT": "1"}


class Terminal:
    """Somebody at a terminal in the project's folder."""

    def __init__(self, dsn: str, address: str) -> None:
        self._dsn = dsn
        self._address = address

    def say(self, *words: str) -> Said:
        said = verbworker(*words, directory=ROOT, dsn=self._dsn, ZEEBE_ADDRESS=self._address, **SETTINGS)
        assert said.code == 0, said.err
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self.say(*words, "--json").out)

    def until_waiting(self, entry_id: str, reason: str) -> None:
        def look() -> bool:
            return reason in [wait["reason"] for wait in self.json("runbook", "show", entry_id)["waits"]]

        wait_until(look, f"it never said {reason!r}")


@contextmanager
def working(dsn: str, address: str, url: str, log: Path) -> Iterator[None]:
    settings = environment(dsn, ZEEBE_ADDRESS=address, **SETTINGS, **{URL: url})
    command = [str(COMMAND), "worker", "--app", "verbs:registry"]
    child = spawn(command, log=log, environment=settings, directory=ROOT)
    try:
        yield
    finally:
        assert child.end(signal.SIGTERM, timeout=60) == 0, log.read_text()


@pytest.mark.zeebe
@pytest.mark.req("REG-01", "WAIT-02", "EVT-13", "EVT-17", "COR-11")
async def test_a_case_goes_from_the_question_to_the_decision_without_a_word_of_the_model(
    dsn: str, tmp_path: Path
) -> None:
    await execute(dsn, TABLES.read_text())
    papers = json.dumps({"documents": [PASSPORT, EXTRACT]})
    with Broker() as broker, serve() as provider:
        terminal = Terminal(dsn, broker.address)
        terminal.say("deploy", "processes", "--app", "verbs:registry")
        with working(dsn, broker.address, provider.url, tmp_path / "worker.log"):
            entry_id = terminal.json("start", ASKED, "--app", "verbs:registry", "--by", "ann")["entry_id"]
            terminal.until_waiting(entry_id, "Awaiting documents")
            terminal.say("message", "send", "kyc.documents-received", "--key", entry_id, "--payload", papers)
            terminal.until_waiting(entry_id, "Awaiting reviewer")
            listed = terminal.say("runbook", "list").out
            terminal.say("gates", "decide", entry_id, "approve", "--by", "ada", "--reason", "all is in order")
            wait_until(lambda: terminal.json("runbook", "show", entry_id)["status"] == "completed", "it never ended")
        told = terminal.say("runbook", "events", entry_id).out
        verified = terminal.say("runbook", "verify").out

    assert "Open KYC case for Allianz GmbH" in listed
    assert "ada decided approve at review" in told
    assert ": 0 findings" in verified
    for word in ("bpmn", "gateway", "zeebe", "listener", "boundary", "token"):
        assert word not in (listed + told).lower()
