"""`verbworker frames` as a person meets it: what it prints, what it asks, and its exit code."""

import json
import re
from pathlib import Path

import pytest

from tests.support.command import Said, verbworker
from tests.support.databases import empty_database, value
from tests.support.frames import ENGINE, INCIDENT, claimed, opened, working
from tests.support.ports import LOOPBACK, free_ports
from tests.support.postgres import ForeignPostgres, Postgres


@pytest.fixture
async def held(dsn: str) -> str:
    """A database with job 1 held and job 2 running."""
    async with opened(dsn) as place, working(place.database) as frames:
        await frames.boot(name="ann", host="a", pid=11)
        await frames.pop_incident(await claimed(frames, place.delivery(1)), INCIDENT)
        await claimed(frames, place.delivery(2))
    return dsn


def frames(*words: str, dsn: str, directory: Path, **settings: str) -> Said:
    """Run `verbworker frames`."""
    return verbworker("frames", *words, directory=directory, dsn=dsn, **{"VERBWORKER_ENGINE_ID": ENGINE, **settings})


def test_a_frame_is_shown_without_its_payload(held: str, tmp_path: Path) -> None:
    said = frames("show", "1", "--json", dsn=held, directory=tmp_path)
    frame = json.loads(said.out)

    assert (said.code, frame["job_key"], frame["state"], frame["fail_code"]) == (0, 1, "incident", INCIDENT.code)
    assert "output" not in frame


def test_in_a_pipe_a_frame_is_tab_separated(held: str, tmp_path: Path) -> None:
    said = frames("show", "2", dsn=held, directory=tmp_path)

    assert "state\tstarted" in said.out.splitlines()


def test_a_story_is_json_when_asked(held: str, tmp_path: Path) -> None:
    story = json.loads(frames("explain", "1", "--json", dsn=held, directory=tmp_path).out)

    assert [set(line) for line in story] == [{"at", "text"}] * 3
    (listed,) = json.loads(frames("list", "--json", dsn=held, directory=tmp_path).out)
    for at in (*(line["at"] for line in story), listed["since"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", at), "RFC 3339, as the HTTP API has it"
    assert "worker ann (host a, pid 11)" in story[0]["text"]


def test_only_frames_of_the_state_are_listed(held: str, tmp_path: Path) -> None:
    listed = frames("list", dsn=held, directory=tmp_path).out.splitlines()
    running = frames("list", "--state", "started", dsn=held, directory=tmp_path).out.splitlines()

    assert ([line.split("\t")[0] for line in listed], [line.split("\t")[0] for line in running]) == (
        ["job_key", "1"],
        ["job_key", "2"],
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "404"], f"verbworker: job 404 has no frame on engine {ENGINE}"),
        (["explain", "404"], f"verbworker: job 404 has no frame on engine {ENGINE}"),
        (["release", "404", "--reason", "x", "--frame-only"], f"verbworker: job 404 has no frame on engine {ENGINE}"),
        (["release", "2", "--reason", "x", "--frame-only"], "verbworker: job 2 is not held: its frame is started"),
    ],
)
def test_a_no_is_one_sentence_and_exit_code_one(words: list[str], sentence: str, held: str, tmp_path: Path) -> None:
    said = frames(*words, dsn=held, directory=tmp_path)

    assert (said.code, said.sentence()) == (1, sentence)


async def test_a_release_is_kept_with_the_user_and_the_reason(held: str, tmp_path: Path) -> None:
    said = frames("release", "1", "--reason", "it is mended", "--frame-only", dsn=held, directory=tmp_path, USER="eve")
    detail = json.loads(await value(held, "SELECT detail FROM verbworker.frame_event WHERE kind = 'released'"))

    assert (said.code, detail["reason"], detail["as_new"]) == (0, "it is mended", False)
    assert (detail["by"] == "eve", "resolve its incident in the engine" in said.out) == (True, True)


async def test_a_release_as_new_asks_first_and_silence_is_a_no(held: str, tmp_path: Path) -> None:
    said = frames("release", "1", "--reason", "x", "--as-new", "--frame-only", dsn=held, directory=tmp_path)

    assert said.code == 1
    assert await value(held, "SELECT state::text FROM verbworker.job_frame WHERE job_key = 1") == "incident"


async def test_a_release_as_new_has_another_idempotency_key(held: str, tmp_path: Path) -> None:
    key = "SELECT idempotency_key FROM verbworker.job_frame WHERE job_key = 1"
    before = await value(held, key)
    said = frames("release", "1", "--reason", "x", "--as-new", "--yes", "--frame-only", dsn=held, directory=tmp_path)

    assert said.code == 0
    assert await value(held, key) != before


async def test_a_release_needs_a_reason(held: str, tmp_path: Path) -> None:
    said = frames("release", "1", "--frame-only", dsn=held, directory=tmp_path)

    assert said.code == 2
    assert await value(held, "SELECT state::text FROM verbworker.job_frame WHERE job_key = 1") == "incident"


def test_an_engine_that_is_away_leaves_the_frame_released_and_says_so(held: str, tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    said = frames("release", "1", "--reason", "x", dsn=held, directory=tmp_path, ZEEBE_ADDRESS=f"{LOOPBACK}:{nobody}")

    assert said.code == 1
    assert "the frame is released, but the engine did not get it" in said.sentence()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"VERBWORKER_ENGINE_ID": ""}, "no engine id is set"),
        ({"VERBWORKER_DSN": "postgresql://u:p@127.0.0.1:1/x"}, "cannot be reached"),
    ],
)
def test_what_cannot_run_has_exit_code_two(settings: dict[str, str], words: str, held: str, tmp_path: Path) -> None:
    said = verbworker(
        "frames", "list", directory=tmp_path, **{"VERBWORKER_DSN": held, "VERBWORKER_ENGINE_ID": ENGINE, **settings}
    )

    assert (said.code, words in said.sentence()) == (2, True)


def test_an_unmigrated_database_is_one_sentence(postgres: Postgres | ForeignPostgres, tmp_path: Path) -> None:
    with empty_database(postgres.dsn) as dsn:
        said = frames("list", dsn=dsn, directory=tmp_path)

    assert (said.code, "verbworker db migrate" in said.sentence()) == (2, True)
