"""The doctor's judgement, where no clock can be moved and no engine of that age is at hand."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from verbworker.app.selfcheck import greet
from verbworker.app.settings import Settings
from verbworker.doctor import checks as checks_module
from verbworker.doctor import subject as subject_module
from verbworker.doctor.check_result import CheckResult, CheckVerdict, ok, unknown, warn, wrong
from verbworker.doctor.checks import CHECKS, run_checks, worst
from verbworker.doctor.database import judge_clock
from verbworker.doctor.engine import version
from verbworker.doctor.subject import Subject
from verbworker.engine.known_faults import overdue_remedy, stall_remedy
from verbworker.engine.protocol import EngineFacts
from verbworker.testing import InlineEngine

LEASE = timedelta(seconds=30)


@pytest.mark.parametrize(
    ("ahead", "doubt", "verdict"),
    [
        (0.1, 0.01, "ok"),
        (1.9, 0.0, "ok"),
        (2.5, 0.1, "warn"),
        (-2.5, 0.1, "warn"),
        (2.5, 1.0, "ok"),  # the way there and back took too long to say
        (31.0, 0.1, "wrong"),
        (-31.0, 0.1, "wrong"),
    ],
)
def test_a_clock_is_judged_by_what_it_is_surely_off(ahead: float, doubt: float, verdict: str) -> None:
    found = judge_clock("clock", "the database's", timedelta(seconds=ahead), timedelta(seconds=doubt), LEASE)

    assert found.verdict == verdict
    assert bool(found.fix) == (verdict != "ok")


def test_a_clock_is_told_with_its_direction() -> None:
    behind = judge_clock("clock", "the database's", timedelta(seconds=-40), timedelta(0), LEASE)

    assert behind.found == "the database's clock is 40.00 s behind this machine's"


class OldEngine(InlineEngine):
    """The engine in memory, under the version of another."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self._version = version

    async def facts(self) -> EngineFacts:
        return EngineFacts(self._version, brokers=1, partitions=1)


class PatientOf(Subject):
    """A subject whose engine answers."""

    def __init__(self, engine: OldEngine) -> None:
        super().__init__(Settings.model_validate({"engine_id": "old"}), app=None, models=())
        self._engine = engine


async def look(said: str) -> Sequence[CheckResult]:
    return await version(PatientOf(OldEngine(said)))


@pytest.mark.parametrize(
    ("said", "verdict", "words"),
    [
        ("8.5.9", "wrong", "no execution listeners"),
        ("8.6.0", "warn", "not maintained since 14 April 2026"),
        ("8.7.37", "warn", "not maintained since 13 October 2026"),
        ("8.8.36", "ok", "cancel listeners no"),
        ("8.9.17", "ok", "execution listeners yes"),
        ("8.10.0-alpha4", "ok", "cancel listeners yes"),
        ("9.0.0", "ok", "cancel listeners yes"),
        ("development", "warn", "unknown version"),
    ],
)
async def test_an_engine_is_judged_by_its_version(said: str, verdict: str, words: str) -> None:
    found, *_ = await look(said)

    assert (found.verdict, words in found.found) == (verdict, True)
    assert bool(found.fix) == (verdict != "ok")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("8.6.0", "warn"),
        ("8.6.12", "warn"),
        ("8.6.13", None),
        ("8.7.0", "ok"),
        ("8.7.37", "ok"),
        ("8.8.0", None),
        ("embedded 0.1.0", None),
        ("development", None),
    ],
)
async def test_an_engine_that_loses_timeouts_is_named(said: str, verdict: str | None) -> None:
    lines = {finding.check: finding for finding in await look(said)}

    assert ("engine timeouts" in lines) == (verdict is not None)
    if verdict is not None:
        line = lines["engine timeouts"]
        assert (line.verdict, "camunda #" in line.found) == (verdict, True)
        assert "restart" in line.found + line.fix


@pytest.mark.parametrize(
    ("said", "level"), [("8.6.0", "WARNING"), ("8.7.3", "INFO"), ("8.8.1", None), ("embedded 0.1.0", None)]
)
async def test_a_worker_says_at_its_start_that_the_engine_loses_timeouts(
    said: str, level: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    await greet(OldEngine(said), Settings.model_validate({"engine_id": "old"}))

    told = [record for record in caplog.records if record.message == "the engine has a known fault"]
    assert [record.levelname for record in told] == ([] if level is None else [level])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("8.6.0", "restart the broker that leads partition 2: it then hands its jobs out again; upgrade to 8.6.13"),
        ("8.7.5", "restart the broker that leads partition 2"),
        ("8.8.0", "search for the jobs of the instance 4503599627370500 (POST /v2/jobs/search) and fail"),
        ("embedded 0.1.0", "look for the job in the engine"),
    ],
)
def test_what_frees_a_lost_job_depends_on_the_version(said: str, words: str) -> None:
    assert stall_remedy(said, (2 << 51) + 4).startswith(words)


def test_what_helps_an_overdue_timer_depends_on_the_engine() -> None:
    assert "partition 3" in overdue_remedy("8.6.0", 3 << 51)
    assert "worker" in overdue_remedy("embedded 0.1.0", 1)


def test_one_wrong_line_makes_the_whole_wrong() -> None:
    lines = [ok("a", "x"), wrong("b", "y", "z"), warn("c", "x", "y"), unknown("d", "x", "y")]

    assert worst(lines) is CheckVerdict.WRONG
    assert worst([lines[0], lines[2]]) is CheckVerdict.WARN
    assert worst([]) is CheckVerdict.OK


def test_what_a_check_stands_on_is_looked_at_before() -> None:
    seen: list[str] = []
    for check in CHECKS:
        assert set(check.needs) <= set(seen), check.name
        assert check.fix
        seen.append(check.name)


async def test_the_engines_client_is_loaded_before_the_first_check(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def choose(*_: object, **__: object) -> InlineEngine:
        order.append("loaded")
        return InlineEngine("here")

    monkeypatch.setattr(subject_module, "choose_engine", choose)
    monkeypatch.setattr(checks_module, "CHECKS", [check for check in CHECKS if check.name == "engine"])
    async with Subject(Settings(engine="zeebe", engine_id="here"), app=None, models=()) as subject:
        results = await run_checks(subject, timeout=30.0, tell=order.append)

    assert order == ["loaded", "checking engine"]
    assert [result.verdict for result in results] == ["ok"]


async def test_an_engine_that_cannot_be_chosen_is_a_finding() -> None:
    async with Subject(Settings(engine="zeebe"), app=None, models=()) as subject:
        results = await run_checks(subject, timeout=30.0, tell=lambda _: None)

    assert [result.check for result in results if result.verdict == "wrong"] == ["database", "engine id"]
