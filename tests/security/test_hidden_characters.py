"""Characters that nobody sees but terminals and browsers obey: refused in names, and shown escaped everywhere else."""

import io
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from tests.support.command import verbworker
from verbworker.app import logging as logs
from verbworker.app.output import complain, say, show
from verbworker.app.settings import Settings
from verbworker.console.access.oidc import OidcClient
from verbworker.console.pages.rendering import Rendering
from verbworker.console.settings import OidcLogin
from verbworker.contract.message import Message
from verbworker.contract.text import escape_hidden, require_name
from verbworker.dev.postgres import open_log
from verbworker.errors import ContractInvalid, InvocationInvalid
from verbworker.http.oidc import IssuerError

pytestmark = pytest.mark.attack("payload")

# CSI and OSC of terminals as one character, next line, every direction, separators, the invisible alphabet.
HIDDEN = [
    *("\x1b", "\x7f", "\x80", "\x85", "\x9b", "\x9d", "\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c"),
    *("\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u2028", "\u2029", "\ufeff", "\U000e0041"),
]
FINE = ["Zoë", "Łukasz", "محمد", "山田", "नमस्ते", "می‌خواهم", "👩‍🔧", "a-b_c.d/e:f@g", "O'Neill"]


@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
@pytest.mark.parametrize("field", ["message_name", "message_id", "correlation_key", "tenant_id", "correlation_id"])
def test_names_and_keys_of_messages_have_none(field: str, letter: str) -> None:
    given = {"message_name": "papers", "message_id": "m", "correlation_key": "k", "tenant_id": "t"}
    with pytest.raises(ValidationError, match="control characters"):
        Message(**{**given, field: f"a{letter}b"})  # type: ignore[arg-type]  # a mapping of words


@pytest.mark.parametrize("letter", [*HIDDEN, "\n", "\t"], ids=ascii)
def test_a_name_has_none(letter: str) -> None:
    with pytest.raises(InvocationInvalid, match="the name holds control characters"):
        require_name("the name", f"ann{letter}", 256)


@pytest.mark.parametrize("name", FINE)
def test_names_of_people_everywhere_are_names(name: str) -> None:
    require_name("the name", name, 256)
    assert escape_hidden(name) == name
    assert Message(message_name=name, message_id=name, correlation_key=name, tenant_id=name).tenant_id == name


@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
def test_a_tenant_of_the_settings_has_none(letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ValidationError, ContractInvalid)):
        Settings.model_validate({"tenant": f"a{letter}b"})
    with pytest.raises((ValidationError, ContractInvalid)):
        Settings.model_validate({"tenant_ids": f"a,b{letter}c"})


@pytest.mark.parametrize("letter", ["\x9b", "\u202e"], ids=ascii)
@pytest.mark.parametrize("claim", ["preferred_username", "tenant_id"])
def test_who_an_issuer_names_with_some_is_not_let_in(claim: str, letter: str) -> None:
    settings = OidcLogin(issuer="https://issuer.test", client_id="c", client_secret=SecretStr("s"))
    claims: dict[str, Any] = {"sub": "1", "preferred_username": "ann", "tenant_id": "default"}
    with pytest.raises(IssuerError, match=r"control characters|which tenant you belong to"):
        OidcClient(settings, "https://here.test")._identity({**claims, claim: f"a{letter}b"})


@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
def test_the_command_line_shows_them_escaped(letter: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a{letter}b")
    complain(f"a{letter}b")
    show([{"reason": f"a{letter}b", "detail": {"x": f"a{letter}b"}}], columns=("reason", "detail"), as_json=False)
    show([{"reason": f"a{letter}b"}], columns=("reason",), as_json=True)
    said = capsys.readouterr()

    assert letter not in said.out + said.err
    assert said.out.count("\\") >= 4


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
def test_logs_show_them_escaped(letter: str, as_json: bool) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    try:
        logs.set_up(as_json=as_json, level="debug", has_tracebacks=True, stream=stream)
        try:
            raise ValueError(f"a{letter}b")
        except ValueError:
            logging.getLogger("x").exception("failed", extra={"who": f"a{letter}b", "many": f"x\ny{letter}"})
    finally:
        root.handlers[:], root.level, logging.raiseExceptions = before

    assert letter not in stream.getvalue()
    if not as_json:
        assert "many=x\\ny" in stream.getvalue()


@pytest.mark.parametrize("letter", HIDDEN, ids=ascii)
def test_pages_show_them_escaped(letter: str) -> None:
    page = Rendering(can_log_out=False).page("refusal", None, status=400, code=400, sentence=f"<a{letter}b> & c")
    text = bytes(page.body).decode()

    assert letter not in text
    assert "&lt;a\\" in text
    assert "&amp; c" in text


def test_a_command_in_a_name_with_some_is_refused(dsn: str, tmp_path: Path) -> None:
    words = ("gates", "decide", "0" * 32, "approve", "--by", "ann\u202e")
    said = verbworker(*words, dsn=dsn, directory=tmp_path)

    assert (said.code, "control characters" in said.err, "\u202e" in said.err) == (2, True, False)


async def test_the_log_of_the_database_of_dev_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "postgres.log"
    path.write_text("of an older version")
    path.chmod(0o644)
    with open_log(path) as log:
        log.write(b"fresh")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"fresh"


@pytest.mark.parametrize(
    "text",
    [
        "refused whsec_c2VjcmV0c2VjcmV0 at the door",
        "{'X-Api-Key': 'c2VjcmV0c2VjcmV0'}",
        "X-Api-Key: c2VjcmV0c2VjcmV0",
        "client_secret=c2VjcmV0c2VjcmV0&grant_type=x",
        '{"client_secret": "c2VjcmV0c2VjcmV0"}',
        "password=c2VjcmV0c2VjcmV0 host=x",
        "postgresql://ann:c2VjcmV0c2VjcmV0@host/db",
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_the_text_of_an_exception_shows_no_secret(text: str, as_json: bool) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    try:
        logs.set_up(as_json=as_json, level="debug", has_tracebacks=True, stream=stream)
        try:
            try:
                raise ValueError(text)
            except ValueError as error:
                raise RuntimeError(f"because of {error}") from error
        except RuntimeError as error:
            logging.getLogger("x").exception("failed: %s", error, extra={"reason": str(error)})
    finally:
        root.handlers[:], root.level, logging.raiseExceptions = before

    assert "c2VjcmV0" not in stream.getvalue()
    assert "***" in stream.getvalue()
    if as_json:
        json.loads(stream.getvalue())
