"""`verbworker message` and `verbworker dead-letters`: what a person sends, and what they decide about the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.apart import run_apart
from tests.support.command import Said, verbworker
from tests.support.databases import execute, value
from tests.support.ingress_process import ENGINE_ID
from tests.support.mail import TENANT, deploy_model, make_message, open_inbox

SETTINGS = {"VERBWORKER_ENGINE_ID": ENGINE_ID, "VERBWORKER_TENANT": TENANT}


def send(folder: Path, dsn: str, *options: str, name: str = "documents-received") -> Said:
    return verbworker("message", "send", name, "--key", "case-1", *options, directory=folder, dsn=dsn, **SETTINGS)


@pytest.fixture(autouse=True)
def _deployed(dsn: str) -> None:
    run_apart(deploy_model(dsn, ENGINE_ID))


@pytest.mark.req("COR-11")
def test_a_message_that_no_process_takes_is_a_no_and_kept_nowhere(tmp_path: Path, dsn: str) -> None:
    said = send(tmp_path, dsn, name="documents-recieved")
    run_apart(execute(dsn, "DELETE FROM verbworker.process_deployment"))
    early = send(tmp_path, dsn)

    assert (said.code, early.code) == (1, 1)
    assert said.sentence() == (
        "verbworker: no deployed process takes the message documents-recieved; did you mean documents-received?"
    )
    assert "nothing is deployed on the engine" in early.sentence()
    assert run_apart(value(dsn, "SELECT count(*) FROM verbworker.inbox_message")) == 0


def letters(folder: Path, dsn: str, *words: str) -> Said:
    return verbworker("dead-letters", *words, directory=folder, dsn=dsn, **SETTINGS)


def listed(folder: Path, dsn: str, *options: str) -> list[dict[str, Any]]:
    said = letters(folder, dsn, "list", "--json", *options)
    assert said.code == 0, said.err
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


@pytest.fixture
def letter(dsn: str) -> str:
    """A letter that waits for a person."""

    async def write() -> str:
        async with open_inbox(dsn) as setup:
            await setup.put(make_message(message_name="unheard-of"))
            await setup.message_delivery.drain()
            return str((await setup.letter()).letter_id)

    return run_apart(write())


def test_a_message_is_kept_when_the_command_ends(tmp_path: Path, dsn: str) -> None:
    said = send(tmp_path, dsn, "--id", "m-1", "--payload", '{"pages": 3}', "--ttl", "60")
    row = run_apart(value(dsn, "SELECT (message_name, state, payload, ttl) FROM verbworker.inbox_message"))

    assert (said.code, said.out) == (0, "m-1\n")
    assert (row[0], row[1], row[2], row[3].total_seconds()) == ("documents-received", "received", b'{"pages":3}', 60)


def test_a_payload_may_come_from_a_file(tmp_path: Path, dsn: str) -> None:
    (tmp_path / "payload.json").write_text('{"pages": 7}')
    said = send(tmp_path, dsn, "--payload", "@payload.json", "--json")

    assert json.loads(said.out)["is_new"] is True
    assert run_apart(value(dsn, "SELECT payload FROM verbworker.inbox_message")) == b'{"pages":7}'


@pytest.mark.req("ING-01", "ING-02", "ING-10")
def test_every_field_of_the_envelope_may_be_given(tmp_path: Path, dsn: str) -> None:
    (tmp_path / "scan.pdf").write_bytes(b"%PDF\x00\xff")
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    given = {"workflow-id": "kyc/allianz", "correlation-id": "c-1", "causation-id": "m-0", "traceparent": trace}
    options = [word for name, text in given.items() for word in (f"--{name}", text)]
    said = [
        send(tmp_path, dsn, "--id", "m-1", *options, "--payload-bytes", "@scan.pdf"),
        send(tmp_path, dsn, "--id", "m-1", *options, "--payload-bytes", "JVBERgD/"),
    ]
    columns = "workflow_id, correlation_id, causation_id, traceparent, payload, is_opaque"
    row = run_apart(value(dsn, f"SELECT ({columns}) FROM verbworker.inbox_message"))

    assert [(one.code, one.out) for one in said] == [(0, "m-1\n"), (0, "m-1 was sent before\n")]
    assert tuple(row) == (*given.values(), b"%PDF\x00\xff", True)


def test_sending_it_again_is_fine_and_another_body_is_refused(tmp_path: Path, dsn: str) -> None:
    said = [send(tmp_path, dsn, "--id", "m-1"), send(tmp_path, dsn, "--id", "m-1")]
    other = send(tmp_path, dsn, "--id", "m-1", "--payload", "{}")

    assert [one.code for one in said] == [0, 0]
    assert (other.code, "was used before for another message" in other.sentence()) == (1, True)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--payload", "[1]"), 1, "the message does not fit: payload must be an object"),
        (("--payload", "{"), 1, "payload cannot be read"),
        (("--entry", "seven"), 1, "is not an id"),
        (("--id", ""), 1, "message_id must not be blank"),
        (("--id", " "), 1, "message_id must not be blank"),
        (("--key", ""), 1, "correlation_key must not be blank"),
        (("--payload", "@nowhere.json"), 2, "cannot read nowhere.json"),
        (("--payload-bytes", "@nowhere.pdf"), 2, "cannot read nowhere.pdf"),
        (("--payload-bytes", "no Base64"), 1, "--payload-bytes is not Base64"),
        (("--payload-bytes", "AA==", "--payload", "{}"), 1, "has both --payload and --payload-bytes"),
        (("--workflow-id", " "), 1, "workflow_id must not be blank"),
        (("--traceparent", "00-abc"), 1, "traceparent must"),
    ],
)
def test_what_cannot_be_sent_is_said_in_one_sentence(
    tmp_path: Path, dsn: str, options: tuple[str, ...], code: int, words: str
) -> None:
    said = send(tmp_path, dsn, *options)

    assert (said.code, words in said.sentence()) == (code, True)
    assert run_apart(value(dsn, "SELECT count(*) FROM verbworker.inbox_message")) == 0


@pytest.mark.parametrize("key", ["", " "])
def test_a_letter_is_not_redelivered_under_a_blank_key(tmp_path: Path, dsn: str, letter: str, key: str) -> None:
    said = letters(tmp_path, dsn, "redeliver", letter, "--reason", "a typo", "--key", key)

    assert (said.code, "the correlation key is blank" in said.sentence()) == (1, True)
    assert [one["state"] for one in listed(tmp_path, dsn)] == ["open"]


@pytest.mark.req("MSG-08")
def test_letters_are_listed_for_people_and_for_programs(tmp_path: Path, dsn: str, letter: str) -> None:
    (one,) = listed(tmp_path, dsn)
    plain = letters(tmp_path, dsn, "list")

    assert (one["letter_id"], one["code"], one["state"]) == (letter, "unknown_name", "open")
    assert letter in plain.out
    assert "no verb takes a message 'unheard-of'" in plain.out


def test_a_letter_is_redelivered_under_another_key_once(tmp_path: Path, dsn: str, letter: str) -> None:
    words = ("redeliver", letter, "--reason", "a typo", "--by", "ann", "--key", "case-2")
    first, second = letters(tmp_path, dsn, *words), letters(tmp_path, dsn, *words)
    row = run_apart(value(dsn, "SELECT (state, generation, correlation_key) FROM verbworker.inbox_message"))

    assert (first.code, tuple(row)) == (0, ("received", 1, "case-2"))
    assert (second.code, "was redelivered before, by ann" in second.sentence()) == (1, True)
    assert listed(tmp_path, dsn) == []


def test_a_letter_is_discarded_and_stays_in_the_list_of_all(tmp_path: Path, dsn: str, letter: str) -> None:
    said = letters(tmp_path, dsn, "discard", letter, "--reason", "sent by mistake", "--by", "bob")
    (one,) = listed(tmp_path, dsn, "--all")

    assert (said.code, listed(tmp_path, dsn)) == (0, [])
    assert (one["state"], one["resolved_by"], one["resolved_reason"]) == ("discarded", "bob", "sent by mistake")


def test_a_letter_that_does_not_exist_is_a_no(tmp_path: Path, dsn: str) -> None:
    said = letters(tmp_path, dsn, "discard", "0b6e7e5e-6b3c-4b8e-9a56-0d6f4a4f4a11", "--reason", "-")

    assert (said.code, "there is no dead letter" in said.sentence()) == (1, True)


def test_another_tenants_letters_are_not_shown(tmp_path: Path, dsn: str, letter: str) -> None:
    assert listed(tmp_path, dsn, "--tenant", "other") == []
    assert letters(tmp_path, dsn, "discard", letter, "--reason", "-", "--tenant", "other").code == 1


def test_without_a_schema_the_command_says_what_to_do(tmp_path: Path, dsn: str) -> None:
    run_apart(execute(dsn, "DROP SCHEMA verbworker CASCADE"))
    said = letters(tmp_path, dsn, "list")

    assert (said.code, "verbworker db migrate" in said.sentence()) == (2, True)
