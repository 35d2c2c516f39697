"""The console as a process: what its pages show, what operators do there, its streams, and what happens in trouble."""

import asyncio
import http.client
import itertools
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from tests.support.apart import run_apart
from tests.support.command import verbworker
from tests.support.databases import execute, value
from tests.support.entries import StoredEntry
from tests.support.frames import ENGINE, INCIDENT, claimed, make_delivery, make_instance, make_job, working
from tests.support.mail import make_message, open_inbox
from tests.support.ports import LOOPBACK
from tests.support.proxy import proxied
from tests.support.site import KEYS, TENANT, Site, credentials, ended, parked, site
from verbworker.engine.protocol import EngineIncident
from verbworker.runbook.event import Wait
from verbworker.stores.cases.gates import HumanGate
from verbworker.stores.cases.incidents import Incidents
from verbworker.stores.database import Database

_jobs = itertools.count(900)  # apart from those of the gates


# ---- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.req("EVT-13", "EVT-15", "EVT-16", "EVT-18")
def test_an_entry_tells_what_it_waits_for_what_happened_and_where_to_look_further(
    opened: Site, gate: HumanGate
) -> None:
    text = opened.visitor("ann").get(f"/entries/{gate.entry_id}").text

    assert "<h1>Open a case</h1>" in text
    assert '<span id="progress">0 steps, awaiting reviewer</span>' in text
    for words in ("Awaiting reviewer", "Started", "sha256:", "instance key", "definition key", ENGINE):
        assert words in text


def test_a_task_shows_all_that_its_model_asks(opened: Site, shared: str) -> None:
    asked = {
        "groups": ["reviewers", "leads"],
        "users": ["ann"],
        "due": "2030-01-31T12:00Z",
        "follow_up": "2030-01-30T12:00Z",
        "priority": "70",
        "form": "review-form",
    }
    gate = parked(shared, element=next(_jobs), token={"detail": {"decisions": ["yes", "no"], **asked}})
    page = opened.visitor("ann").get(f"/gates/{gate.token_id}").text

    for words in ("reviewers, leads", "31 January 2030, 12:00 UTC", "30 January 2030, 12:00 UTC", "70", "review-form"):
        assert words in page


def test_an_entry_that_stands_still_says_so_with_what_to_do(opened: Site, shared: str) -> None:
    gate = parked(shared, element=next(_jobs), sentence="Open a still case")
    stall = (
        "INSERT INTO verbworker.stall (entry_id, kind, place, tenant_id, engine_id, since, seq, reason, remedy)"
        " VALUES ($1, 'timer', '', $2, $3, clock_timestamp() - interval '3 hours', 1, 'it was <due>', 'restart it')"
    )
    run_apart(execute(shared, stall, gate.entry_id, TENANT, ENGINE))
    ann = opened.visitor("ann")
    page, listed = ann.get(f"/entries/{gate.entry_id}").text, ann.get("/?q=a+still+case").text

    assert re.search(
        r'<p class="warn">Timer overdue for <time[^>]*>3 h</time>: it was &lt;due&gt;. What to do: restart it.</p>',
        page,
    )
    assert '<td data-name="Progress" class="warn">0 steps, awaiting reviewer, timer overdue</td>' in listed


def test_a_list_that_is_cut_tells_how_many_are_not_shown(tmp_path: Path, dsn: str) -> None:
    async def fill() -> None:
        async with Database(dsn, size=2) as database:
            book = await StoredEntry.open(database, tenant_id=TENANT)
            for number in range(1, 103):
                await book.park(book.token(number, Wait.INCIDENT, tenant_id=TENANT, job_key=number))
            letter = "INSERT INTO verbworker.dead_letter (tenant_id, code, reason, body, sent_by)"
            await database.execute(
                f"{letter} SELECT $1, 'invalid', 'r', at::text::bytea, 's' FROM generate_series(1, 103) AS at", TENANT
            )

    run_apart(fill())
    with site(tmp_path, dsn) as opened:
        ann = opened.visitor("ann")
        incidents, letters = (ann.get(path).text for path in ("/incidents", "/dead-letters"))

    assert "; 2 more not shown." in incidents
    assert "; 3 more not shown." in letters
    assert incidents.count("/incidents/one?id=") == 100


def test_of_a_payload_only_fields_that_somebody_allowed_are_shown(tmp_path: Path, dsn: str) -> None:
    gate = parked(dsn)
    envelope = {"schema": "kyc.open-case/v1", "data": {"entity": "Allianz", "secret": "P-1234567"}}
    content = json.dumps(envelope).encode()
    seal = "sha256:" + sha256(content).hexdigest()
    move = "UPDATE verbworker.payload_head SET content = $1, hash = sha256($1), version = version + 1, seal = $2"
    run_apart(execute(dsn, move, content, seal))
    known = "INSERT INTO verbworker.payload_version SELECT instance_uid, hash, version FROM verbworker.payload_head"
    run_apart(execute(dsn, known))
    path = f"/entries/{gate.entry_id}"
    with site(tmp_path, dsn) as closed:
        nothing = closed.visitor("ann").get(path).text
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_FIELDS='{"kyc.open-case/v1": ["entity"]}') as allowing:
        something = allowing.visitor("ann").get(path).text

    assert ("Allianz" in nothing, "P-1234567" in nothing) == (False, False)
    assert ("<dt>entity</dt><dd>Allianz</dd>" in something, "P-1234567" in something) == (True, False)


def entries(text: str) -> list[str]:
    return re.findall(r'<th scope="row" data-name="Case"><a href="/entries/([^"]+)"', text)


def test_the_list_is_paged_by_key_and_filtered(tmp_path: Path, dsn: str) -> None:
    async def fill() -> None:
        async with Database(dsn, size=4) as database:
            for number in range(60):
                await StoredEntry.open(database, sentence=f"Open case {number}", verb=f"kyc.verb-{number % 2}")

    run_apart(fill())
    gate = parked(dsn, sentence="Open 100% of_it")
    with site(tmp_path, dsn) as running:
        ann = running.visitor("ann")
        first = ann.get("/").text
        (older,) = re.findall(r'<a rel="next" href="([^"]+)"', first)
        second = ann.get(older.replace("&amp;", "&")).text
        by_status = entries(ann.get("/?status=parked").text)
        by_verb = entries(ann.get("/?verb=kyc.verb-1").text)
        by_text = entries(ann.get("/?q=100%25+OF_").text)
        by_id = entries(ann.get(f"/?q={gate.entry_id}").text)
        wild = entries(ann.get("/?q=%25").text)
        stuck = ann.get("/?stuck=1")
        odd = [ann.get(path).status for path in ("/?status=x&before=y", "/?before=9999~1", "/?q=%00%ff", "/?q=%27--")]

    assert (len(entries(first)), len(entries(second))) == (50, 11)
    assert not set(entries(first)) & set(entries(second))
    assert by_status == by_text == by_id == wild == [str(gate.entry_id)]
    assert len(by_verb) == 30
    assert (stuck.status, odd) == (200, [200] * 4)
    assert '<span class="badge is-executing">executing</span> <strong>60</strong>' in first


def test_the_verbs_are_shown_with_what_they_take_and_the_load_with_its_figures(opened: Site, gate: HumanGate) -> None:
    ann = opened.visitor("ann")
    verbs, load = ann.get("/verbs").text, ann.get("/load").text

    assert "Open KYC case for {entity}" in verbs
    assert "Who is the case about?" in verbs or "The customer&#39;s registered name" in verbs
    assert "<dt>gate review</dt><dd>approve, reject</dd>" in verbs
    assert ">task</th>" in load


def test_a_console_without_the_application_says_so(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as running:
        text = running.visitor("ann").get("/verbs").text

    assert "started without <code>--app</code>" in text


# ---- what operators do ----------------------------------------------------------------------------------------------


@pytest.mark.req("EVT-14")
def test_a_letter_is_redelivered_or_discarded_once(opened: Site, shared: str) -> None:
    async def bury(message_id: str) -> str:
        async with open_inbox(shared) as setup:
            await setup.put(make_message(tenant_id=TENANT, message_id=message_id, message_name="nobody-takes-it"))
            await setup.message_delivery.drain()
            found = await setup.letters.list(TENANT)
            return str(next(letter.letter_id for letter in found if letter.message_id == message_id))

    one, two = run_apart(bury("letter-1")), run_apart(bury("letter-2"))
    ann = opened.visitor("ann")
    bare = ann.fill("/dead-letters", f"/dead-letters/{one}/discard", {})
    gone = ann.fill("/dead-letters", f"/dead-letters/{one}/discard", {"reason": "a test"})
    again = ann.fill("/dead-letters", f"/dead-letters/{two}/redeliver", {"reason": "wrong key", "key": "right"})
    late = ann.send(f"/dead-letters/{one}/discard", {"reason": "again", "csrf": ann.get("/").csrf})
    settled = ann.get("/dead-letters?all=1").text

    assert [answer.status for answer in (bare, gone, again, late)] == [422, 303, 303, 409]
    assert late.sentence.startswith("The letter was discarded before, by ann at ")
    assert "discarded by <strong>ann</strong>" in settled
    key = "SELECT correlation_key FROM verbworker.inbox_message WHERE message_id = 'letter-2'"
    assert run_apart(value(shared, key)) == "right"


INCIDENT_ID = "SELECT token_id FROM verbworker.parked_token WHERE kind = 'incident' AND job_key = $1"


async def _held(dsn: str, job_key: int) -> str:
    async with Database(dsn, size=4) as database:
        stored = await StoredEntry.open(database, sentence="Open a case that stops")
        await stored.start(job_key)
        instance = make_instance(instance_uid=stored.instance_uid, entry_id=stored.entry_id)
        job = make_job(job_key, process_instance_key=job_key)
        async with working(database) as frames:
            await frames.boot(name="worker-7", host="a", pid=11)
            await frames.pop_incident(await claimed(frames, make_delivery(job, instance)), INCIDENT)
        return str(stored.entry_id)


@pytest.mark.req("EVT-14", "EVT-15")
def test_a_held_job_tells_its_story_and_is_released_with_a_reason(opened: Site, shared: str) -> None:
    job = next(_jobs)
    entry_id = run_apart(_held(shared, job))
    ann, page = opened.visitor("ann"), f"/incidents/one?id={job}"
    listed, story, entry = ann.get("/incidents").text, ann.get(page).text, ann.get(f"/entries/{entry_id}").text
    incident_id = run_apart(value(shared, INCIDENT_ID, job))
    form = {"id": str(incident_id), "reason": "it is mended", "retries": "7"}
    bare = ann.fill(page, "/incidents/resolve", {**form, "reason": ""})
    odd = ann.fill(page, "/incidents/resolve", {**form, "retries": "many"})
    resolved = ann.fill(page, "/incidents/resolve", form)
    gone = ann.get(f"/incidents/one?id={incident_id}")

    assert f"/incidents/one?id={incident_id}" in listed
    assert f"/incidents/one?id={incident_id}" in entry
    assert (INCIDENT.message in listed, entry_id in listed) == (True, True)
    assert "worker worker-7 (host a, pid 11)" in story
    assert "incident_key" not in story  # people never type one
    assert (bare.status, odd.status) == (422, 422)
    # No engine has this job, so the frame is released and the rest is said.
    assert resolved.status == 409
    assert resolved.sentence.startswith("The frame is released, but the engine did not get it:")
    detail = "SELECT detail FROM verbworker.frame_event WHERE kind = 'released' AND job_key = $1"
    told = json.loads(run_apart(value(shared, detail, job)))
    assert (told["by"], told["reason"], told["retries_left"]) == ("ann", "it is mended", 7)
    assert "ann let it continue after it had stopped" in ann.get(f"/entries/{entry_id}").text
    assert gone.status == 404


def test_an_incident_of_the_engine_shows_its_element_type_and_reason(opened: Site, shared: str) -> None:
    async def stop_at_gateway() -> str:
        async with Database(shared, size=2) as database:
            stored = await StoredEntry.open(database, sentence="Open a case without a way")
            key = next(_jobs)
            await stored.start(key)
            words = "no condition holds, and there is no default flow"
            incident = EngineIncident(key + 1, key, "which-way", key + 2, "CONDITION_ERROR", words)
            assert await Incidents(database, engine_id=ENGINE).record(incident)
            return str(stored.entry_id)

    entry_id = run_apart(stop_at_gateway())
    ann = opened.visitor("ann")
    incident_id = run_apart(value(shared, "SELECT token_id FROM verbworker.parked_token WHERE entry_id = $1", entry_id))
    runbook, listed, page = (ann.get(path).text for path in ("/", "/incidents", f"/incidents/one?id={incident_id}"))

    assert "aiting for an operator: which-way" in runbook
    for text in (listed, page):
        assert "CONDITION_ERROR: no condition holds, and there is no default flow" in text
        assert ("which-way" in text, "Open a case without a way" in text) == (True, True)
    assert 'name="retries"' not in page  # there is no job that could be tried again


def test_a_job_of_another_tenant_or_of_nobody_is_no_incident(opened: Site, shared: str) -> None:
    job = next(_jobs)
    run_apart(_held(shared, job))
    incident_id = run_apart(value(shared, INCIDENT_ID, job))
    eve = opened.visitor("eve")
    answers = [eve.get(f"/incidents/one?id={where}") for where in (incident_id, job, "x", 10**30)]

    assert [answer.status for answer in answers] == [404, 404, 404, 404]


@pytest.mark.req("EVT-09")
def test_an_entry_is_cancelled_with_a_reason_and_says_so(opened: Site, shared: str) -> None:
    async def open_one() -> str:
        async with Database(shared, size=2) as database:
            return str((await StoredEntry.open(database, sentence="Open a case by mistake")).entry_id)

    entry_id = run_apart(open_one())
    ann, page = opened.visitor("ann"), f"/entries/{entry_id}"
    bare = ann.fill(page, f"{page}/cancel", {"reason": ""})
    done = ann.fill(page, f"{page}/cancel", {"reason": "a mistake"})
    text = ann.get(page).text
    again = ann.send(f"{page}/cancel", {"reason": "a mistake", "csrf": ann.get("/").csrf})
    late = ann.send(f"{page}/cancel", {"reason": "another", "csrf": ann.get("/").csrf})

    assert (bare.status, done.status, again.status, late.status) == (422, 303, 303, 409)
    assert ("is-cancelled" in text, "ann requested cancellation: a mistake" in text) == (True, True)
    assert late.sentence.startswith("The entry has already ended: it is cancelled at ")


# ---- streams --------------------------------------------------------------------------------------------------------


class Listener:
    """A stream as a browser holds it open."""

    def __init__(self, site: Site, who: str, topic: str) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, site.port, timeout=30)
        cookies = "; ".join(f"{name}={text}" for name, text in site.visitor(who).cookies.items())
        headers = {"Cookie": cookies, "Accept": "text/event-stream"}
        self._connection.request("GET", f"/events?topic={topic}", None, headers)
        self.answer = self._connection.getresponse()
        self.until(b": hello")

    def until(self, words: bytes) -> bool:
        """Read until a line has the words; False when the stream ended before."""
        while line := self.answer.readline():
            if words in line:
                return True
        return False

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def listening(opened: Site) -> Iterator[Callable[[str], Listener]]:
    made: list[Listener] = []

    def listen(topic: str) -> Listener:
        made.append(Listener(opened, "ann", topic))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def test_whoever_looks_hears_that_something_changed(
    opened: Site, shared: str, gate: HumanGate, listening: Callable[[str], Listener]
) -> None:
    streams = [listening(topic) for topic in ("runbook", "gates", str(gate.entry_id))]
    opened.visitor("bob").fill("/gates", f"/gates/{gate.token_id}/decide", {"decision": "approve"})
    heard = [stream.until(b"event: changed") for stream in streams]
    ended(shared, gate.entry_id)

    assert heard == [True] * 3
    assert streams[2].until(b"event: changed")
    assert streams[0].answer.headers["content-type"].startswith("text/event-stream")


def test_who_may_not_hear_hears_nothing(opened: Site) -> None:
    stranger = opened.visitor().get("/events?topic=runbook", Accept="text/event-stream")
    wrong = opened.visitor("ann").get("/events?topic=everything")

    assert (stranger.status, wrong.status) == (401, 404)


def test_the_end_ends_every_stream_and_every_request(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as running:
        stream = Listener(running, "ann", "runbook")
        code = running.end(signal.SIGTERM)
        is_open = stream.until(b"event: changed")
        stream.close()

    assert (code, is_open) == (0, False)
    assert "Traceback" not in running.log.read_text()


def test_more_streams_than_allowed_are_refused_and_pages_go_on(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn, VERBWORKER_CONSOLE_STREAMS="1") as running:
        stream = Listener(running, "ann", "runbook")
        second = running.visitor("ann").get("/events?topic=runbook")
        page = running.visitor("ann").get("/")
        stream.close()

    assert (second.status, page.status) == (503, 200)


SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
TELL = "SELECT count(pg_notify('verbworker_runbook', gen_random_uuid()::text)) FROM generate_series(1, 20000)"


def test_many_pages_that_nobody_reads_cost_one_connection_and_no_memory(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as running:
        streams = [Listener(running, "ann", "runbook") for _ in range(60)]
        before = psutil.Process(running.pid).memory_info().rss
        for _ in range(5):
            run_apart(execute(dsn, TELL))
        heard = [stream.until(b"event: changed") for stream in streams]
        sessions = run_apart(value(dsn, SESSIONS))
        grown = psutil.Process(running.pid).memory_info().rss - before
        for stream in streams:
            stream.close()

    assert heard == [True] * 60
    assert sessions <= 7
    assert grown < 20_000_000


# ---- trouble --------------------------------------------------------------------------------------------------------


async def test_while_the_database_is_away_a_page_says_so_and_afterwards_all_is_well(tmp_path: Path, dsn: str) -> None:
    async with proxied(dsn) as proxy:
        running = site(tmp_path, proxy.dsn)
        opened = await asyncio.to_thread(running.__enter__)
        try:
            ann = await asyncio.to_thread(opened.visitor, "ann")
            before = await asyncio.to_thread(ann.get, "/")
            stream = await asyncio.to_thread(Listener, opened, "ann", "runbook")
            await asyncio.to_thread(stream.until, b"event: changed")
            proxy.go_away()
            during = await asyncio.to_thread(ann.get, "/")
            ready = await asyncio.to_thread(opened.ask, "GET", "/ready")
            live = await asyncio.to_thread(opened.ask, "GET", "/live")
            await proxy.come()
            after = await asyncio.to_thread(ann.get, "/")
            # The page that was open all the time hears that it should look again.
            is_told = await asyncio.to_thread(stream.until, b"event: changed")
            stream.close()
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)

    assert [before.status, during.status, after.status, is_told] == [200, 503, 200, True]
    assert during.sentence == "The database does not answer. Try again in a moment."
    assert (during.headers["retry-after"], ready.status, live.status) == ("5", 503, 200)


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ((), {}, "no logins are configured"),
        (("--host", "0.0.0.0"), {}, "no logins are configured"),
        (("--host", "0.0.0.0"), {"VERBWORKER_CONSOLE_CREDENTIALS": credentials()}, "VERBWORKER_CONSOLE_PUBLIC_URL"),
        (("--app", "nothing:registry"), {"VERBWORKER_CONSOLE_CREDENTIALS": credentials()}, "no module nothing"),
    ],
)
def test_a_console_that_cannot_run_says_why_in_one_sentence(
    tmp_path: Path, dsn: str, options: tuple[str, ...], settings: dict[str, str], words: str
) -> None:
    said = verbworker("console", *options, directory=tmp_path, dsn=dsn, **settings)

    assert (said.code, words in said.sentence()) == (2, True)


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path: Path, dsn: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        settings = {"VERBWORKER_CONSOLE_CREDENTIALS": credentials()}
        said = verbworker("console", "--port", port, directory=tmp_path, dsn=dsn, **settings)

    assert said.code == 2
    assert said.sentence().startswith(f"verbworker: cannot listen on {LOOPBACK} port {port}: ")


def test_the_log_never_holds_a_key_or_a_cookie(tmp_path: Path, dsn: str) -> None:
    with site(tmp_path, dsn) as running:
        visitor = running.visitor("ann")
        visitor.get("/nowhere")
        visitor.send("/login", {"key": "a-wrong-key"})
        running.end()
    log = running.log.read_text()

    assert "logged in" in log
    assert [text for text in (KEYS["ann"], "a-wrong-key", *visitor.cookies.values()) if text in log] == []
