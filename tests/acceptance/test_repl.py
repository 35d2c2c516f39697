"""`verbworker repl` as people meet it: in a real terminal beside a real worker, and at the end of a pipe."""

import asyncio
import json
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.children import spawn
from tests.support.command import COMMAND, Said, environment, verbworker
from tests.support.databases import execute, value
from tests.support.eventually import eventually
from tests.support.kyc import EXTRACT, PASSPORT, TABLES
from tests.support.kyc_provider import serve
from tests.support.proxy import proxied
from tests.support.screen import CTRL_C, CTRL_D, TAB, Seat, seated
from tests.support.shop import make_shop
from verbs.kyc.screening import URL

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "verbs" / "document.sql"
SETTINGS = {"VERBWORKER_ENGINE": "embedded", "VERBWORKER_HTTP_PORT": "0", "VERBWORKER_POLL_WAIT": "1"}
PROMPT = "verbs>"
SOLICIT = '(document.solicit :client "Ann" :document "passport")'
MODEL = ("bpmn", "process", "instance", "token", "job", "element", "task", "gateway", "zeebe", "listener", "boundary")


@contextmanager
def worker(dsn: str, log: Path) -> Iterator[None]:
    """A worker of the example with its models deployed, and the provider it asks."""
    deployed = verbworker("deploy", "processes", "--app", "verbs:registry", directory=ROOT, dsn=dsn, **SETTINGS)
    assert deployed.code == 0, deployed.err
    with serve() as provider:
        settings = environment(dsn, **SETTINGS, **{URL: provider.url})
        command = [str(COMMAND), "worker", "--app", "verbs:registry"]
        child = spawn(command, log=log, environment=settings, directory=ROOT)
        try:
            yield
        finally:
            assert child.end(signal.SIGTERM, timeout=60) == 0, log.read_text()


def repl(dsn: str, state: Path, **settings: str) -> AbstractContextManager[Seat]:
    return seated("repl", "--by", "ada", directory=ROOT, state=state, dsn=dsn, **{**SETTINGS, **settings})


def piped(lines: str | bytes, *options: str, dsn: str | None, **settings: str) -> Said:
    done = subprocess.run(
        [COMMAND, "repl", *options],
        cwd=ROOT,
        env=environment(dsn, **{**SETTINGS, **settings}),
        input=lines.encode() if isinstance(lines, str) else lines,
        capture_output=True,
        timeout=60,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.req("REG-01", "REG-03", "REG-16", "WAIT-02", "WAIT-04", "WAIT-07", "EVT-12", "EVT-17", "EVT-18", "NOT-02")
async def test_a_case_is_asked_for_by_answers_decided_at_its_gate_and_seen_to_end(dsn: str, tmp_path: Path) -> None:
    await execute(dsn, TABLES.read_text())
    with worker(dsn, tmp_path / "worker.log"), repl(dsn, tmp_path) as seat:
        seat.until("Type a verb or help. Tab completes, Ctrl-D leaves.")
        seat.until_prompted(PROMPT)
        seat.enter("(kyc.open-case)")
        seat.until("Who is the case about?")
        seat.enter("Allianz GmbH")
        seat.until("Why is the case opened? (onboarding | periodic-review | event-driven)")
        seat.enter("curiosity")
        seat.until("case-type must be one of onboarding, periodic-review, event-driven. Why is the case opened?")
        seat.enter("periodic-review")
        seat.until("You are about to: Open KYC case for Allianz GmbH (case-type periodic-review).")
        seat.enter("")
        seat.until("1 is running: Open KYC case for Allianz GmbH")
        seat.until_below("awaiting documents")
        seat.enter("runbook 1")
        seat.until("id: ")
        (entry_id,) = set(re.findall(r"id: (\S+)", seat.screen.text))
        papers = json.dumps({"documents": [PASSPORT, EXTRACT]})
        sending = ("message", "send", "kyc.documents-received", "--key", entry_id, "--payload", papers)
        assert verbworker(*sending, directory=ROOT, dsn=dsn, **SETTINGS).code == 0
        seat.until_below("parked: 1  |  1: 5 of 7, awaiting reviewer")
        seat.enter("gates")
        seat.until("Awaiting reviewer  takes approve | reject")
        seat.enter("decide 1 approve all is in order")
        seat.until("decide approve at review of 1, Open KYC case for Allianz GmbH, because: all is in order.")
        seat.enter("yes")
        seat.until("ada decided approve at review of 1; it continues.")
        seat.until_below("parked: 0  |  1: 7 of 7, completed")
        seat.enter("decide 1 reject")
        seat.until("is decided: ada said 'approve'")
        seat.enter("events 1")
        seat.until("Completed")
        seat.enter("quit")
        code = seat.exit_code()

    assert code == 0
    assert "Traceback" not in seat.screen.text
    assert [word for word in MODEL if re.search(rf"\b{word}s?\b", seat.screen.text, re.IGNORECASE)] == []


def test_tab_completes_verbs_arguments_and_values_and_the_bottom_tells_what_fits(dsn: str, tmp_path: Path) -> None:
    with repl(dsn, tmp_path) as seat:
        seat.until_prompted(PROMPT)
        seat.press("(kyc.o" + TAB)
        seat.until("(kyc.open-case")
        seat.until(
            ":entity text  :case-type onboarding | periodic-review | event-driven  :review-within text (optional)"
        )
        seat.press(" :case" + TAB)
        seat.until("(kyc.open-case :case-type")
        seat.press(" per" + TAB)
        seat.until("(kyc.open-case :case-type periodic-review")
        seat.press(" :" + TAB)
        seat.until("text, required: The customer's registered name")

    assert "Traceback" not in seat.screen.text


async def test_keys_do_what_people_expect_of_them(dsn: str, tmp_path: Path) -> None:
    with repl(dsn, tmp_path) as seat:
        seat.until_below("parked: 0")
        seat.enter("(kyc.open-case")
        seat.until("...>")
        seat.press(CTRL_C)
        seat.until_prompted(PROMPT)
        seat.enter("(kyc.open-case")
        seat.enter(")")
        seat.until_prompted("entity>")
        seat.press(CTRL_C)
        seat.until("Nothing was done.")
        seat.enter("kyc.open-case :entity Acme :case-type onboarding")
        seat.until("You are about to: Open KYC case for Acme (case-type onboarding).")
        seat.enter("no")
        seat.until("Nothing was done.", times=2)
        seat.enter("nonsense")
        seat.until("'nonsense' is neither a verb nor a command; type help for a list")
        seat.until_prompted(PROMPT)
        seat.press(CTRL_D)
        code = seat.exit_code()

    assert code == 0
    assert await value(dsn, "SELECT count(*) FROM verbworker.runbook_entry") == 0


def test_what_was_typed_is_there_in_the_next_session(dsn: str, tmp_path: Path) -> None:
    with repl(dsn, tmp_path) as seat:
        seat.until_prompted(PROMPT)
        seat.enter("(no.such-verb")
        seat.enter(":entity 1)")
        seat.until("there is no verb no.such-verb")
        seat.enter("quit")
        seat.exit_code()
    with repl(dsn, tmp_path) as again:
        again.until_prompted(PROMPT)
        again.enter("history")
        again.until("(no.such-verb\\n:entity 1)")
        again.enter("quit")
        again.exit_code()

    file = tmp_path / "verbworker" / "repl-history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_database_that_goes_away_is_told_and_comes_back(dsn: str, tmp_path: Path) -> None:
    async with proxied(dsn) as proxy:
        with repl(proxy.dsn, tmp_path) as seat:
            await asyncio.to_thread(seat.until_below, "parked: 0")
            proxy.go_away()
            await asyncio.to_thread(seat.until_below, "database unavailable")
            seat.enter("gates")
            await asyncio.to_thread(seat.until, "check the runbook before repeating anything")
            await proxy.come()
            await asyncio.to_thread(seat.until_below, "parked: 0")
            seat.enter("gates")
            await asyncio.to_thread(seat.until, "Nothing waits for a person.")
            seat.enter("quit")
            code = await asyncio.to_thread(seat.exit_code)

    assert code == 0


def test_a_terminal_without_the_extra_is_told_what_to_install(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['prompt_toolkit'] = None\n")
    with repl(dsn, tmp_path, PYTHONPATH=str(tmp_path / "site")) as seat:
        code = seat.exit_code()

    assert code == 2
    assert seat.screen.text.split("\n") == [
        "verbworker: the terminal is not installed; run: pip install 'verbworker[repl]'"
    ]


@pytest.mark.req("REG-16")
async def test_lines_from_a_pipe_run_when_that_is_agreed_to(dsn: str) -> None:
    await execute(dsn, DOCUMENTS.read_text())

    said = piped(f"{SOLICIT}\nrunbook\n", "--yes", dsn=dsn)

    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("1 is done: ")
    assert await value(dsn, "SELECT client FROM document_request") == "Ann"


async def test_what_somebody_typed_cannot_steer_the_terminal_that_shows_it(dsn: str) -> None:
    await execute(dsn, DOCUMENTS.read_text())

    said = piped('(document.solicit :client "\\u001b[31mAnn" :document x)\nrunbook 1\nevents 1\n', "--yes", dsn=dsn)

    assert said.code == 0
    assert "\x1b" not in said.out + said.err
    assert "client      \\x1b[31mAnn" in said.out


async def test_lines_from_a_pipe_are_only_played_back_when_nobody_agreed(dsn: str) -> None:
    await execute(dsn, DOCUMENTS.read_text())

    said = piped(SOLICIT, dsn=dsn)

    assert said.code == 1
    assert said.out.startswith("You are about to: ")
    assert said.sentence() == (
        "verbworker: a pipe cannot confirm, so nothing was done; pass --yes to run without confirmation"
    )
    assert await value(dsn, "SELECT count(*) FROM document_request") == 0


REFUSED = {
    b"(kyc.open-case)": "entity is missing, and a pipe cannot answer: Who is the case about? (text)",
    b"(kyc.opencase)": "there is no verb kyc.opencase; did you mean kyc.open-case?",
    b"(kyc.open-case :entity": "invocation, character 23: a value follows :entity",
    b"(kyc.open-case :colour red)": "kyc.open-case has no argument 'colour'; for a list: verbs kyc.open-case",
    b"decide 1 approve": "there is no entry 1; for the numbers: runbook or gates",
    b"decide": "which gate? decide <number> <decision> [reason]; for the numbers: gates",
    b"\xff\xfe": "this line has characters that cannot be stored",
    b"\x1b[2J": "'\\x1b[2j' is neither a verb nor a command; type help for a list",
}


def test_each_line_that_is_refused_is_told_in_one_sentence_and_the_next_one_runs(dsn: str) -> None:
    said = piped(b"\n\n".join([*REFUSED, b"gates"]), "--yes", dsn=dsn)

    assert (said.code, said.out) == (1, "Nothing waits for a person.\n")
    assert said.err.splitlines() == [f"verbworker: {sentence}" for sentence in REFUSED.values()]


def test_a_database_that_is_lost_on_the_way_is_more_than_a_no(dsn: str) -> None:
    # The table the verb writes to is not there: the database refuses, and the verb ends badly.
    refused = piped(SOLICIT, "--yes", dsn=dsn)
    missing = piped(SOLICIT, "--yes", dsn=None)
    unreachable = piped(SOLICIT, "--yes", dsn="postgresql://nobody@127.0.0.1:9/none")

    assert (refused.code, missing.code, unreachable.code) == (1, 2, 2)
    assert missing.sentence() == "verbworker: no database is set; set VERBWORKER_DSN or pass --dsn"
    assert "cannot be reached" in unreachable.sentence()


def test_ctrl_c_ends_a_pipe_that_has_nothing_to_say(dsn: str) -> None:
    running = subprocess.Popen(
        [COMMAND, "repl"],
        cwd=ROOT,
        env=environment(dsn, **SETTINGS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    with running:
        running.stdin.write(b"gates\n")
        said = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        code = running.wait(30)

    assert (said, code) == (b"Nothing waits for a person.\n", -signal.SIGINT)


def test_a_registry_that_is_not_there_is_told(dsn: str) -> None:
    said = piped("help", "--app", "nothing:registry", dsn=dsn)

    assert said.code == 2
    assert said.sentence().startswith("verbworker: --app nothing:registry: there is no module nothing")


async def test_ctrl_c_ends_the_wait_for_a_verb_and_not_the_session(dsn: str, tmp_path: Path) -> None:
    shop = make_shop(tmp_path, "slow")
    shop.put("hold")
    asked = ("repl", "--app", "shop:registry")
    with seated(*asked, directory=tmp_path, state=tmp_path / "state", dsn=dsn, **SETTINGS) as seat:
        seat.until_prompted(PROMPT)
        seat.enter(f'({shop.verb} :item "a ring")')
        seat.until("Go on? [Y/n]")
        seat.enter("")
        await eventually(lambda: asyncio.to_thread(shop.has_begun))
        seat.press(CTRL_C)
        seat.until("You stopped waiting; it may still run. Check the runbook.")
        seat.enter("runbook")
        seat.until("1  executing  Charge an order")
        seat.enter("quit")
        code = seat.exit_code()

    assert code == 0
    assert "Traceback" not in seat.screen.text
